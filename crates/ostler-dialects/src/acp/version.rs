//! Protocol version, negotiated in the handshake.

/// A supported protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// The response to a prompt ends the turn. (In the draft of version 2 it only confirms that the
    /// prompt was accepted, and a later session update ends the work.)
    One,
}

impl Version {
    /// Version number that Ostler requests.
    pub(super) const WANTED: u64 = 1;

    /// Returns the version with this number, or `None` if it is not supported.
    pub(super) fn of(number: u64) -> Option<Self> {
        (number == Self::WANTED).then_some(Self::One)
    }

    /// Returns true if the response to a prompt ends the turn.
    pub(super) fn response_ends_turn(self) -> bool {
        match self {
            Self::One => true,
        }
    }
}
