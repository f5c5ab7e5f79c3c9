//! The frames that `storm` and `saturated` send over sockets. A frame has 16 bytes.

/// The length of a frame in bytes.
pub(crate) const LENGTH: usize = 16;

/// A request or an answer.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// The number of the request. Its answer has the same number.
    pub(crate) number: u64,
    /// The content of the frame. Its meaning depends on the server.
    pub(crate) word: u64,
}

impl Frame {
    pub(crate) fn to_bytes(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..].copy_from_slice(&self.word.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; LENGTH]) -> Self {
        let (number, word) = bytes.split_at(8);
        let integer = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("it has 8 bytes"));
        Self {
            number: integer(number),
            word: integer(word),
        }
    }
}

/// Assembles frames from the bytes that a socket receives.
pub(crate) struct Frames {
    bytes: [u8; 32 * LENGTH],
    length: usize,
}

impl Frames {
    pub(crate) fn new() -> Self {
        Self {
            bytes: [0; 32 * LENGTH],
            length: 0,
        }
    }

    /// Returns the space for the next bytes. It is never empty, because [`take`](Self::take) leaves
    /// less than a frame.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.length..]
    }

    /// Removes the complete frames, after `read` more bytes have arrived.
    pub(crate) fn take(&mut self, read: usize) -> Vec<Frame> {
        self.length += read;
        let (whole, rest) = self.bytes[..self.length].as_chunks::<LENGTH>();
        let frames = whole.iter().copied().map(Frame::from_bytes).collect();
        let (taken, left) = (whole.len() * LENGTH, rest.len());
        self.bytes.copy_within(taken..taken + left, 0);
        self.length = left;
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, Frames, LENGTH};

    #[test]
    fn frames_come_whole_out_of_pieces() {
        let sent: Vec<_> = (0..5)
            .flat_map(|number| Frame { number, word: 7 }.to_bytes())
            .collect();
        for size in 1..=sent.len() {
            let mut frames = Frames::new();
            let mut taken = Vec::new();
            for piece in sent.chunks(size) {
                frames.room()[..piece.len()].copy_from_slice(piece);
                taken.extend(frames.take(piece.len()));
            }
            assert_eq!(taken.len() * LENGTH, sent.len(), "in pieces of {size}");
            let numbers = taken.iter().map(|frame| (frame.number, frame.word));
            assert!(numbers.eq((0..5).map(|number| (number, 7))));
        }
    }
}
