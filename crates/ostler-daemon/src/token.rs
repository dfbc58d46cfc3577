//! Secrets of the TCP listener: the token, and the code without which it cannot approve.

use std::io::{self, Write};
use std::path::Path;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A secret that is compared in constant time and never shown by accident.
#[derive(Clone)]
pub struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<secret>")
    }
}

impl Secret {
    /// Creates a random secret of 256 bits, in hexadecimal.
    #[must_use]
    pub fn random() -> Self {
        // A UUID has 122 random bits.
        let mut hash = Sha256::new();
        for _ in 0..3 {
            hash.update(uuid::Uuid::new_v4().as_bytes());
        }
        let bytes = hash.finalize();
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Takes a secret from the user's configuration.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Creates a random code that a person can type: three groups of four letters and digits.
    #[must_use]
    pub fn code() -> Self {
        // Without characters that look alike.
        const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
        let bytes = uuid::Uuid::new_v4().into_bytes();
        // The version and variant bits of a UUID are not random: bytes 6 and 8 are skipped.
        let random = bytes
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != 6 && *at != 8);
        let letters = random.map(|(_, byte)| char::from(LETTERS[usize::from(byte % 32)]));
        let letters: Vec<char> = letters.take(12).collect();
        let groups: Vec<String> = letters
            .chunks(4)
            .map(|group| group.iter().collect())
            .collect();
        Self(groups.join("-"))
    }

    /// Compares with what a caller presented, in constant time.
    #[must_use]
    pub fn matches(&self, presented: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(presented).into()
    }

    /// Returns the secret itself, to show or to send it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Reads the token in a file, or creates one that only its owner can read.
    ///
    /// # Errors
    /// If the file can be read by others, or cannot be read or written.
    pub fn load_or_create(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
        match std::fs::File::open(path) {
            Ok(mut file) => {
                let meta = file.metadata()?;
                let own = rustix::process::getuid().as_raw();
                if meta.mode() & 0o077 != 0 || meta.uid() != own {
                    return Err(io::Error::other(format!(
                        "{} can be read by others: remove it",
                        path.display()
                    )));
                }
                let mut text = String::new();
                io::Read::read_to_string(&mut file, &mut text)?;
                let text = text.trim();
                if text.len() < 32 {
                    return Err(io::Error::other(format!(
                        "{} has no token: remove it",
                        path.display()
                    )));
                }
                Ok(Self(text.to_owned()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let token = Self::random();
                let mut options = std::fs::OpenOptions::new();
                let mut file = options
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(path)?;
                writeln!(file, "{}", token.0)?;
                Ok(token)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_matches_only_itself_and_is_not_shown() {
        let secret = Secret::random();
        assert!(secret.matches(secret.reveal().as_bytes()));
        for wrong in [
            "",
            "x",
            &secret.reveal()[1..],
            &format!("{}x", secret.reveal()),
        ] {
            assert!(!secret.matches(wrong.as_bytes()));
        }
        assert!(!format!("{secret:?}").contains(secret.reveal()));
        assert_eq!(secret.reveal().len(), 64);
        assert_ne!(secret.reveal(), Secret::random().reveal());
        let code = Secret::code();
        assert_eq!(code.reveal().len(), 14, "{}", code.reveal());
    }

    #[test]
    fn a_token_file_is_private_and_stable() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let token = Secret::load_or_create(&path).unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = Secret::load_or_create(&path).unwrap();
        assert_eq!(token.reveal(), again.reveal());
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(Secret::load_or_create(&path).is_err());
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(Secret::load_or_create(&path).is_err(), "fails closed");
    }
}
