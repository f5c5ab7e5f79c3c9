//! Orders the turns of the peers.

/// Returns the members of a turn in the order of a round, after `before` rounds with such a turn.
/// The first round keeps the given order. Over the rounds, each member follows each other member
/// equally often.
pub fn in_round<T>(mut turn: Vec<T>, before: u32) -> Vec<T> {
    let first = (before / 2) as usize % turn.len().max(1);
    turn.rotate_left(first);
    if before % 2 == 1 {
        turn.reverse();
    }
    turn
}

#[cfg(test)]
mod tests {
    use super::in_round;

    #[test]
    fn every_member_comes_first_and_last() {
        let rounds: Vec<_> = (0..6).map(|round| in_round(vec![1, 2, 3], round)).collect();
        assert_eq!(rounds[0], [1, 2, 3]);
        for member in [1, 2, 3] {
            assert_eq!(rounds.iter().filter(|round| round[0] == member).count(), 2);
            assert_eq!(rounds.iter().filter(|round| round[2] == member).count(), 2);
        }
    }
}
