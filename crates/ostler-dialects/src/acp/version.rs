//! Which version of the protocol is spoken: the handshake settles it, and it says what messages mean.

/// A version that is understood here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// The answer to a prompt ends the turn. (In the draft of version 2 it only says that the prompt was accepted, and a
    /// later update of the session's state ends the work.)
    One,
}

impl Version {
    /// What is asked for.
    pub(super) const WANTED: u64 = 1;

    /// The version of a number; none when it is not understood.
    pub(super) fn of(number: u64) -> Option<Self> {
        (number == Self::WANTED).then_some(Self::One)
    }

    /// Whether the answer to a prompt ends the turn.
    pub(super) fn answer_ends_turn(self) -> bool {
        match self {
            Self::One => true,
        }
    }
}
