//! Mends half characters: programs that count in UTF-16 can cut a character in two and write the half as `\ud83d`,
//! which is JSON by its grammar and no text at all.

use std::borrow::Cow;

use serde::Deserialize;

/// Reads JSON in which half characters may stand; what is no JSON of that kind is as good as absent. `room` is for the mended text.
pub(crate) fn read<'a, T: Deserialize<'a> + Default>(json: &'a str, room: &'a mut String) -> T {
    if let Ok(read) = serde_json::from_str(json) {
        return read;
    }
    *room = mend(json).into_owned();
    serde_json::from_str(room).unwrap_or_default()
}

/// Replaces every unpaired surrogate escape by the one for U+FFFD.
pub(crate) fn mend(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut out = String::new();
    let (mut at, mut kept) = (0, 0);
    while let Some(step) = bytes
        .get(at..)
        .and_then(|rest| rest.iter().position(|b| *b == b'\\'))
    {
        at += step;
        match surrogate(bytes, at) {
            Some(first)
                if first < 0xdc00
                    && surrogate(bytes, at + 6).is_some_and(|second| second >= 0xdc00) =>
            {
                at += 12;
            }
            Some(_) => {
                out.push_str(&json[kept..at]);
                out.push_str("\\ufffd");
                at += 6;
                kept = at;
            }
            None => at += 2, // any other escape: the character after the backslash is not looked at again
        }
    }
    if kept == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[kept..]);
    Cow::Owned(out)
}

/// The value of `\uXXXX` at `at`, when it stands there and is half a character.
fn surrogate(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let value = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (0xd800..0xe000).contains(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn halves_are_mended_and_whole_characters_kept() {
        for (json, mended) in [
            (r#""a\ud83d""#, r#""a\ufffd""#),
            (
                r#""\ude00x\ud83d\ud83d\ude00""#,
                r#""\ufffdx\ufffd\ud83d\ude00""#,
            ),
            (
                r#""\ud83d\ude00 \\ud83d \u00e9""#,
                r#""\ud83d\ude00 \\ud83d \u00e9""#,
            ),
            (r#""\uD83D"#, r#""\ufffd"#),
            (r#"\"#, r#"\"#),
        ] {
            assert_eq!(mend(json), mended);
        }
    }

    proptest! {
        #[test]
        fn what_is_mended_can_be_read(parts in proptest::collection::vec("\\\\ud83d|\\\\ude00|\\\\n|[a-zé😀]", 0..20)) {
            let json = format!("\"{}\"", parts.concat());
            prop_assert!(serde_json::from_str::<String>(&mend(&json)).is_ok());
        }
    }
}
