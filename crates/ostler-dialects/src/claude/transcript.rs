//! Claude Code's session transcripts: where they are stored and what they contain, so that a resume
//! can be checked in advance.
//!
//! Measured with 2.1.325, in directories with spaces, dots, accents, emoji, line breaks and up to
//! 316 characters:
//!
//! - A transcript is `<config>/projects/<slug>/<id>.jsonl`, where `<config>` is
//!   `$CLAUDE_CONFIG_DIR` or `~/.claude`. The slug is derived from the real path of the working
//!   directory (symlinks resolved, `PWD` ignored).
//! - The slug replaces every UTF-16 unit that is not an ASCII letter or digit with `-`: two for an
//!   emoji, and `/a/b` and `/a-b` share one. A slug of more than 200 characters is cut there,
//!   followed by `-` and a hash of the whole path.
//! - The first lines (`queue-operation`) repeat the prompt without a location; the first message
//!   has `cwd` and `version`. Lines of a later run elsewhere have its `cwd`.
//! - `--resume <id>` works from any directory: it continues in the new one and writes to the old
//!   file, even if the old directory no longer exists. An id in capitals is unknown, and so is a
//!   file that is empty or not JSON. A file of a newer version is accepted.
//! - While a process has a session open, `<config>/sessions/<pid>.json` says so; a killed process
//!   leaves it behind. Nothing stops a second process from opening the same session: both write to
//!   one file.

use ostler_core::dialect::Version;
use ostler_core::dialect::transcript::{Head, OpenMarkers, SessionHolder, Transcripts};
use ostler_core::spec::is_uuid;
use serde::Deserialize;

/// Layout of Claude Code's session files.
pub(super) const TRANSCRIPTS: Transcripts = Transcripts {
    roots: &["$CLAUDE_CONFIG_DIR", "~/.claude"],
    folder: "projects",
    slug,
    file: |id| format!("{id}.jsonl"),
    // Claude Code takes any other text for a title or a transcript path.
    is_id: is_uuid,
    read_head,
    open: Some(OpenMarkers {
        folder: "sessions",
        suffix: ".json",
        read: read_note,
    }),
    resumes_anywhere: true,
};

/// Maximum slug length. A longer slug is cut and gets a hash.
const LONGEST: usize = 200;

fn slug(dir: &str) -> String {
    let plain = |unit: u16| {
        u8::try_from(unit)
            .ok()
            .filter(u8::is_ascii_alphanumeric)
            .map_or('-', char::from)
    };
    let whole: String = dir.encode_utf16().map(plain).collect();
    match whole.get(..LONGEST) {
        Some(head) if whole.len() > LONGEST => format!("{head}-{}", hash(dir)),
        _ => whole,
    }
}

/// Returns Java's string hash, without its sign, in base 36.
fn hash(text: &str) -> String {
    let sum = text.encode_utf16().fold(0_i32, |sum, unit| {
        sum.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    let mut rest = sum.unsigned_abs();
    let mut digits = Vec::new();
    while rest > 0 || digits.is_empty() {
        digits.extend(char::from_digit(rest % 36, 36));
        rest /= 36;
    }
    digits.iter().rev().collect()
}

fn read_head(line: &str) -> Option<Head> {
    #[derive(Deserialize)]
    struct Message {
        cwd: String,
        version: Option<String>,
    }
    let message: Message = serde_json::from_str(line).ok()?;
    Some(Head {
        cwd: message.cwd,
        version: message.version.as_deref().and_then(Version::find),
    })
}

fn read_note(text: &str) -> Option<SessionHolder> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Note {
        pid: u32,
        proc_start: String,
        session_id: String,
    }
    let note: Note = serde_json::from_str(text).ok()?;
    Some(SessionHolder {
        pid: note.pid,
        start: note.proc_start,
        id: note.session_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // P53: the names that the real program gave these directories.
    #[test]
    fn slug_matches_the_real_program() {
        let (l, n, o) = ("L".repeat(250), "N".repeat(200), "O".repeat(100));
        let long = |dir: &str, hash: &str| {
            (
                dir.to_owned(),
                format!("{}-{hash}", &dir.replace('/', "-")[..200]),
            )
        };
        let grin = "\u{1f600}".repeat(50);
        let y = "y".repeat(120);
        let cases = [
            ("/tmp/measure/w/plain".into(), "-tmp-measure-w-plain".into()),
            (
                "/tmp/measure/w/with space".into(),
                "-tmp-measure-w-with-space".into(),
            ),
            (
                "/tmp/measure/w/.hidden".into(),
                "-tmp-measure-w--hidden".into(),
            ),
            (
                "/tmp/measure/w/under_score".into(),
                "-tmp-measure-w-under-score".into(),
            ),
            (
                "/tmp/measure/w/\u{dc}ml-\u{e4}ut".into(),
                "-tmp-measure-w--ml--ut".into(),
            ),
            (
                "/tmp/measure/w/emoji\u{1f600}x".into(),
                "-tmp-measure-w-emoji--x".into(),
            ),
            (
                "/tmp/measure/w/e\u{301}comb".into(),
                "-tmp-measure-w-e-comb".into(),
            ),
            (
                "/tmp/measure/w/new\nline".into(),
                "-tmp-measure-w-new-line".into(),
            ),
            (
                format!("/tmp/measure/w/{}", &l[..185]),
                format!("-tmp-measure-w-{}", &l[..185]),
            ),
            long(&format!("/tmp/measure/w/{}", &l[..186]), "wj5l80"),
            long(&format!("/tmp/measure/w/{}", &l[..187]), "e28i6c"),
            long(&format!("/tmp/measure/w/{n}/{o}"), "apgrz3"),
            (
                format!("/tmp/measure/w/{grin}/{y}"),
                format!("-tmp-measure-w-{}-{}-4bxerb", "-".repeat(100), &y[..84]),
            ),
        ];
        for (dir, name) in cases {
            assert_eq!(slug(&dir), name, "{dir}");
        }
    }

    #[test]
    fn only_a_uuid_is_an_id() {
        assert!(
            is_uuid("123e4567-e89b-42d3-a456-426614174000")
                && is_uuid("123E4567-E89B-42D3-A456-426614174000")
        );
        for text in [
            "",
            "my title",
            "123e4567",
            "123e4567-e89b-42d3-a456-42661417400g",
            "/x/123e4567.jsonl",
            "a-b-c-d-e",
        ] {
            assert!(!is_uuid(text), "{text}");
        }
    }

    #[test]
    fn head_is_parsed_from_transcript_lines() {
        let message = r#"{"type":"user","message":{"cwd":"no"},"cwd":"/w","sessionId":"s","version":"2.1.325"}"#;
        let version = Some(Version(2, 1, 325));
        let cases = [
            (
                message,
                Some(Head {
                    cwd: "/w".into(),
                    version,
                }),
            ),
            (
                r#"{"cwd":"/w"}"#,
                Some(Head {
                    cwd: "/w".into(),
                    version: None,
                }),
            ),
            (
                r#"{"type":"queue-operation","content":"\"cwd\":\"/x\""}"#,
                None,
            ),
            (r#"{"cwd":7}"#, None),
            ("not json", None),
        ];
        for (line, head) in cases {
            assert_eq!(read_head(line), head, "{line}");
        }
        let note =
            r#"{"pid":28904,"sessionId":"s","cwd":"/w","procStart":"2271533","version":"2.1.325"}"#;
        assert_eq!(
            read_note(note),
            Some(SessionHolder {
                pid: 28904,
                start: "2271533".into(),
                id: "s".into()
            })
        );
        assert_eq!(read_note("{"), None);
    }
}
