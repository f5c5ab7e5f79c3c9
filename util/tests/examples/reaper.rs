//! Runs the example `idle_reaper`, and checks what it reports.

#[expect(dead_code, reason = "`main`")]
#[path = "../../examples/idle_reaper.rs"]
mod idle_reaper;

/// A connection ends 300 ms after its last line, and a trusted connection after 900 ms.
#[tokio::test(start_paused = true)]
async fn idle_reaper() {
    use idle_reaper::End::{Left, Reaped};

    let ends = idle_reaper::run().await.into_iter();
    let ends = ends.map(|(name, end)| (name, end.by, end.millis, end.lines));
    let expected = [
        ("silent", Reaped, 300, 0),
        ("fading", Reaped, 700, 3),
        ("regular", Left, 1_000, 4),
        ("trusted", Reaped, 1_500, 3),
    ];
    assert!(ends.eq(expected));
}

/// Connections that send lines stay open. A silent connection is reaped after 100 to 300 ms, or is shed before. Older
/// silent connections end first.
#[tokio::test(start_paused = true)]
async fn idle_reaper_with_few_descriptors() {
    use idle_reaper::{
        End::{Left, Reaped, Shed},
        Ended, FEWEST, crowd, of,
    };

    let (in_use, talking, silent) = crowd(20).await;
    assert_eq!((in_use, of(&talking, Left).count()), (20, 4));
    assert_eq!(silent.len(), 60);
    // Ten connections came at once. They end in any order.
    let came = |end: &Ended| {
        if (30..40).contains(&end.id) {
            30
        } else {
            end.id
        }
    };
    assert!(silent.is_sorted_by_key(came), "{silent:?}");
    assert!(
        of(&silent, Reaped).all(|millis| (100..=300).contains(&millis)),
        "{silent:?}"
    );
    assert!(of(&silent, Reaped).count() >= 40 && of(&silent, Reaped).any(|millis| millis < 150));
    assert!(of(&silent, Shed).count() >= 3 && of(&silent, Shed).all(|millis| millis < 300));

    for descriptors in FEWEST..40 {
        let (_, talking, _) = crowd(descriptors).await;
        assert_eq!(
            of(&talking, Left).count(),
            4,
            "with {descriptors} descriptors"
        );
    }

    // With enough descriptors, every silent connection gets its full 300 ms.
    let (_, _, silent) = crowd(200).await;
    assert_eq!(
        of(&silent, Reaped).filter(|millis| *millis == 300).count(),
        60
    );
}
