//! Sealed messages: a payload, the public key of its author, and a signature over both.
//!
//! A sealed message is one line of JSON followed by the exact bytes that were signed. A receiver
//! parses these bytes only after it has verified them.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use crate::key::{self, KeyError, MemberKey};

/// What a message is for. A signature for one purpose is not valid for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A work item.
    Item,
    /// An owner's answer to a claim.
    Grant,
    /// An owner's request to a running attempt.
    Control,
}

impl Purpose {
    fn domain(self) -> &'static [u8] {
        match self {
            Self::Item => b"ostler fleet item 1\n",
            Self::Grant => b"ostler fleet grant 1\n",
            Self::Control => b"ostler fleet control 1\n",
        }
    }
}

/// A message that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It has no signature.
    #[error("it is not signed")]
    Unsigned,
    /// Its author is not trusted.
    #[error("its author {0} is not in the trust list")]
    Untrusted(String),
    /// Its signature is wrong.
    #[error("its signature does not match the key {0}")]
    WrongSignature(String),
}

#[derive(Serialize, Deserialize)]
struct Header {
    key: String,
    signature: String,
}

fn signed_bytes(purpose: Purpose, payload: &[u8]) -> Vec<u8> {
    [purpose.domain(), payload].concat()
}

/// Signs a payload.
///
/// # Errors
/// If the key cannot sign.
pub fn seal(key: &MemberKey, purpose: Purpose, payload: &[u8]) -> Result<Vec<u8>, KeyError> {
    let signature = key.sign(&signed_bytes(purpose, payload))?;
    let header = Header {
        key: key.public(),
        signature: BASE64.encode(signature),
    };
    let mut sealed = serde_json::to_vec(&header).map_err(|_| KeyError::CannotSign)?;
    sealed.push(b'\n');
    sealed.extend_from_slice(payload);
    Ok(sealed)
}

/// Verifies a message. Returns the author's public key and the payload.
///
/// # Errors
/// If it is not signed by a trusted key for this purpose.
pub fn open<'a>(
    sealed: &'a [u8],
    purpose: Purpose,
    trusted: &BTreeSet<String>,
) -> Result<(String, &'a [u8]), SealError> {
    let end = sealed.iter().position(|byte| *byte == b'\n');
    let (header, payload) = end
        .and_then(|end| Some((sealed.get(..end)?, sealed.get(end + 1..)?)))
        .ok_or(SealError::Unsigned)?;
    let header: Header = serde_json::from_slice(header).map_err(|_| SealError::Unsigned)?;
    if !trusted.contains(&header.key) {
        return Err(SealError::Untrusted(header.key));
    }
    let signature = BASE64.decode(&header.signature).unwrap_or_default();
    match key::verifies(&header.key, &signed_bytes(purpose, payload), &signature) {
        true => Ok((header.key, payload)),
        false => Err(SealError::WrongSignature(header.key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_bytes_of_a_trusted_author_are_opened() {
        let (ours, other) = (MemberKey::generate(), MemberKey::generate());
        let trusted = BTreeSet::from([ours.public()]);
        let sealed = seal(&ours, Purpose::Item, b"{\"a\":1}").unwrap();
        let opened = open(&sealed, Purpose::Item, &trusted).unwrap();
        assert_eq!(opened, (ours.public(), &b"{\"a\":1}"[..]));

        let foreign = seal(&other, Purpose::Item, b"x").unwrap();
        let untrusted = Err(SealError::Untrusted(other.public()));
        assert_eq!(open(&foreign, Purpose::Item, &trusted), untrusted);

        let wrong = Err(SealError::WrongSignature(ours.public()));
        let mut changed = sealed.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(open(&changed, Purpose::Item, &trusted), wrong);
        assert_eq!(open(&sealed, Purpose::Grant, &trusted), wrong);
        // The other's signature under our name.
        let text = String::from_utf8(foreign).unwrap();
        let forged = text.replace(&other.public(), &ours.public());
        assert_eq!(open(forged.as_bytes(), Purpose::Item, &trusted), wrong);

        for plain in [&b"{\"a\":1}"[..], b"", b"\n", b"{}\n{}"] {
            let result = open(plain, Purpose::Item, &trusted);
            assert_eq!(result, Err(SealError::Unsigned), "{plain:?}");
        }
    }
}
