//! Repair of unpaired surrogates in JSON. Programs that count in UTF-16 can cut a character in two
//! and write half of it as `\ud83d`, which is valid JSON grammar but not valid text.

use std::borrow::Cow;

use serde::Deserialize;

/// Deserializes JSON that may contain unpaired surrogates, or returns the default if it cannot be
/// read. `buffer` holds the repaired text.
pub fn read<'a, T: Deserialize<'a> + Default>(json: &'a str, buffer: &'a mut String) -> T {
    if let Ok(read) = serde_json::from_str(json) {
        return read;
    }
    *buffer = repair(json).into_owned();
    serde_json::from_str(buffer).unwrap_or_default()
}

/// Replaces every unpaired surrogate escape with the escape for U+FFFD.
pub fn repair(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut out = String::new();
    let (mut at, mut copied) = (0, 0);
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
                out.push_str(&json[copied..at]);
                out.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            None => at += 2, // any other escape: skip the character after the backslash
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[copied..]);
    Cow::Owned(out)
}

/// Returns the value of the `\uXXXX` escape at `at` if it is a surrogate.
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
    fn json_is_read_as_it_is_then_repaired_then_given_up() {
        for (json, expected) in [
            (r#""a""#, "a"),
            (r#""a\ud83d""#, "a\u{fffd}"),
            (r#""a"#, ""),
            ("1", ""),
        ] {
            let text: String = read(json, &mut String::new());
            assert_eq!(text, expected, "{json}");
        }
    }

    #[test]
    fn unpaired_surrogates_are_replaced_and_pairs_preserved() {
        for (json, repaired) in [
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
            assert_eq!(repair(json), repaired);
        }
    }

    proptest! {
        #[test]
        fn repaired_json_can_be_parsed(
            parts in proptest::collection::vec("\\\\ud83d|\\\\ude00|\\\\n|[a-zé😀]", 0..20),
        ) {
            let json = format!("\"{}\"", parts.concat());
            prop_assert!(serde_json::from_str::<String>(&repair(&json)).is_ok());
        }
    }
}
