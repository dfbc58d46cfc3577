//! Keys of members: NKeys, which the server knows members by and owners sign work items with.

use nkeys::{KeyPair, KeyPairType};

/// A private key. It never leaves the machine.
pub struct MemberKey(KeyPair);

/// A key that cannot be used. The text of a seed is never part of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not the seed of a user's key.
    #[error("this is not the seed of a user's NKey, which starts with `SU`")]
    Seed,
    /// The text is not a public key of a user.
    #[error("{0:?} is not the public part of a user's NKey, which starts with `U`")]
    Public(String),
    /// Signing failed.
    #[error("the key cannot sign")]
    CannotSign,
}

impl std::fmt::Debug for MemberKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("MemberKey")
            .field(&self.0.public_key())
            .finish()
    }
}

impl MemberKey {
    /// Generates a key.
    #[must_use]
    pub fn generate() -> Self {
        Self(KeyPair::new_user())
    }

    /// Reads a key from its seed. White space around it is ignored.
    ///
    /// # Errors
    /// If the text is not the seed of a user's key.
    pub fn from_seed(seed: &str) -> Result<Self, KeyError> {
        let pair = KeyPair::from_seed(seed.trim()).map_err(|_| KeyError::Seed)?;
        match pair.key_pair_type() {
            KeyPairType::User => Ok(Self(pair)),
            _ => Err(KeyError::Seed),
        }
    }

    /// Returns the seed, to be stored in a file that only the user can read.
    ///
    /// # Errors
    /// If the key has none.
    pub fn seed(&self) -> Result<String, KeyError> {
        self.0.seed().map_err(|_| KeyError::Seed)
    }

    /// Returns the public key, which starts with `U`.
    #[must_use]
    pub fn public(&self) -> String {
        self.0.public_key()
    }

    /// Signs bytes.
    pub(crate) fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, KeyError> {
        self.0.sign(bytes).map_err(|_| KeyError::CannotSign)
    }
}

/// Checks that a text is the public key of a user.
///
/// # Errors
/// If it is not.
pub fn check_public(text: &str) -> Result<(), KeyError> {
    let is_user = text.starts_with('U') && KeyPair::from_public_key(text).is_ok();
    match is_user {
        true => Ok(()),
        false => Err(KeyError::Public(text.to_owned())),
    }
}

/// Returns true if a signature over bytes is that of a public key.
pub(crate) fn verifies(public: &str, bytes: &[u8], signature: &[u8]) -> bool {
    // `verify` copies into an array of this length.
    signature.len() == 64
        && check_public(public).is_ok()
        && KeyPair::from_public_key(public).is_ok_and(|pair| pair.verify(bytes, signature).is_ok())
}
