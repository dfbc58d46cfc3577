//! Command-line parsing: turns the arguments into a tool call with JSON input.

use std::ffi::OsString;
use std::io::Read;

use ostler_tools::{Code, ToolError};
use serde_json::{Map, Value};

use crate::help;
use crate::verbs::{self, Flag, FlagValue, VERBS, Verb};

/// More than any tool accepts, so that the tool itself refuses.
const STDIN_BYTES: u64 = 16 * 1024 * 1024;

/// A parsed command line.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Print a text: help or version.
    Show(String),
    /// Run a tool.
    Run {
        workspace: OsString,
        tool: String,
        input: String,
    },
}

/// Parses the arguments of the program.
pub(crate) fn read(args: &[OsString], stdin: &mut dyn Read) -> Result<Invocation, ToolError> {
    let texts: Vec<&str> = args
        .iter()
        .map(|arg| arg.to_str().unwrap_or("\u{fffd}"))
        .collect();
    if let Some(text) = help_or_version(&texts) {
        return Ok(Invocation::Show(text));
    }
    let [workspace, rest @ ..] = args else {
        return Err(bad(format!(
            "usage: {}; see file-tools --help",
            help::USAGE
        )));
    };
    let workspace = workspace.clone();
    let words: Option<Vec<&str>> = rest.iter().map(|word| word.to_str()).collect();
    let words = words.ok_or_else(|| bad("an argument is not UTF-8"))?;
    let [first, words @ ..] = words.as_slice() else {
        return Err(bad(format!(
            "a verb is missing: one of {}; see file-tools --help",
            verb_names()
        )));
    };
    if words.is_empty() && (*first == "-" || first.trim_start().starts_with('{')) {
        let json = if *first == "-" {
            from_stdin(stdin)?
        } else {
            (*first).to_owned()
        };
        let (tool, input) = parse_json(&json)?;
        return Ok(Invocation::Run {
            workspace,
            tool,
            input,
        });
    }
    let verb = verbs::find(first).ok_or_else(|| {
        ToolError::new(
            Code::UnknownTool,
            format!("there is no verb `{first}`; the verbs are {}", verb_names()),
        )
    })?;
    let input = Value::Object(parse_words(verb, words, stdin)?).to_string();
    Ok(Invocation::Run {
        workspace,
        tool: verb.tool.to_owned(),
        input,
    })
}

/// Returns help or version, in whichever position it was requested.
fn help_or_version(texts: &[&str]) -> Option<String> {
    let is_help = |text: &str| matches!(text, "--help" | "-h" | "help");
    match texts {
        ["--version" | "-V"] => Some(help::version()),
        [help] if is_help(help) => Some(help::of_program()),
        ["help", verb] | [verb, "--help" | "-h"] | [_, verb, "--help" | "-h"] => {
            Some(verbs::find(verb).map_or_else(help::of_program, help::of_verb))
        }
        _ => None,
    }
}

/// Parses a request given as one JSON object: the tool next to its arguments.
fn parse_json(json: &str) -> Result<(String, String), ToolError> {
    let value: Value = serde_json::from_str(json)
        .map_err(|error| bad(format!("the request is not JSON: {error}")))?;
    let Value::Object(mut object) = value else {
        return Err(bad(
            "the request must be a JSON object such as {\"tool\":\"read\",\"path\":\"a.txt\"}",
        ));
    };
    let tool = match (object.remove("tool"), object.remove("verb")) {
        (Some(Value::String(tool)), None) | (None, Some(Value::String(tool))) => tool,
        (None, None) => return Err(bad(format!("`tool` is missing: one of {}", verb_names()))),
        _ => {
            return Err(bad(format!(
                "`tool` must be one string: one of {}",
                verb_names()
            )));
        }
    };
    // An unknown name is left for the workspace to refuse.
    let tool = verbs::find(&tool).map_or(tool, |verb| verb.tool.to_owned());
    Ok((tool, Value::Object(object).to_string()))
}

fn parse_words(
    verb: &Verb,
    words: &[&str],
    stdin: &mut dyn Read,
) -> Result<Map<String, Value>, ToolError> {
    let mut given = Map::new();
    let mut operands = verb.operands.iter();
    let mut words = words.iter().copied();
    let mut accepts_flags = true;
    while let Some(word) = words.next() {
        let (field, value) = match word {
            "--" if accepts_flags => {
                accepts_flags = false;
                continue;
            }
            "-" if accepts_flags && verb.stdin.is_some() => {
                let field = verb.stdin.unwrap_or_default();
                let kind = if field == "edits" {
                    FlagValue::JsonOrStdin
                } else {
                    FlagValue::TextOrStdin
                };
                (field, value(field, kind, "-", stdin)?)
            }
            word if accepts_flags && word.len() > 1 && word.starts_with('-') => {
                let (flag, attached) = flag_of(verb, word)?;
                let text = match (flag.value, attached) {
                    (FlagValue::Nothing, None) => "",
                    (FlagValue::Nothing, Some(_)) => {
                        return Err(bad(format!("{} takes no value", flag.name)));
                    }
                    (_, Some(text)) => text,
                    (_, None) => words
                        .next()
                        .ok_or_else(|| bad(format!("{} needs a value", flag.name)))?,
                };
                (flag.field, value(flag.name, flag.value, text, stdin)?)
            }
            word => {
                let operand = operands.next().ok_or_else(|| {
                    bad(format!(
                        "unexpected argument `{word}` (quote texts with spaces): {}",
                        usage(verb)
                    ))
                })?;
                (operand.field, Value::String(word.to_owned()))
            }
        };
        if given.insert(field.to_owned(), value).is_some() {
            return Err(bad(format!("`{field}` is given twice: {}", usage(verb))));
        }
    }
    if let Some(missing) = operands.find(|operand| operand.is_required) {
        return Err(bad(format!(
            "{} is missing: {}",
            missing.field.to_uppercase(),
            usage(verb)
        )));
    }
    if verb.stdin == Some("content") && !given.contains_key("content") {
        return Err(bad(format!(
            "the content is missing, --content TEXT or - for stdin: {}",
            usage(verb)
        )));
    }
    Ok(given)
}

/// Returns the flag of a word, and the value after its `=`.
fn flag_of<'w>(verb: &Verb, word: &'w str) -> Result<(&'static Flag, Option<&'w str>), ToolError> {
    let (name, attached) = word
        .split_once('=')
        .map_or((word, None), |(name, value)| (name, Some(value)));
    let flag = verb.flags.iter().find(|flag| flag.name == name);
    flag.map(|flag| (flag, attached)).ok_or_else(|| {
        bad(format!(
            "there is no flag `{name}` (put -- before names that begin with a dash): {}",
            usage(verb)
        ))
    })
}

fn value(
    name: &str,
    kind: FlagValue,
    text: &str,
    stdin: &mut dyn Read,
) -> Result<Value, ToolError> {
    match kind {
        FlagValue::Nothing => Ok(Value::Bool(true)),
        FlagValue::TextOrStdin if text == "-" => Ok(Value::String(from_stdin(stdin)?)),
        FlagValue::Text | FlagValue::TextOrStdin => Ok(Value::String(text.to_owned())),
        FlagValue::Number => {
            let number: Result<u64, _> = text.parse();
            number
                .map(Value::from)
                .map_err(|_| bad(format!("{name} needs a whole number, not `{text}`")))
        }
        FlagValue::JsonOrStdin => {
            let text = if text == "-" {
                from_stdin(stdin)?
            } else {
                text.to_owned()
            };
            serde_json::from_str(&text).map_err(|error| {
                bad(format!(
                    "{name} is not JSON: {error}; give [{{\"find\":\"…\",\"replace\":\"…\"}}]"
                ))
            })
        }
    }
}

fn from_stdin(stdin: &mut dyn Read) -> Result<String, ToolError> {
    let mut bytes = Vec::new();
    let read = stdin.take(STDIN_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| ToolError::io(format!("stdin: {error}")))?;
    if bytes.len() as u64 > STDIN_BYTES {
        return Err(ToolError::new(
            Code::TooLarge,
            format!("stdin has more than {STDIN_BYTES} bytes"),
        ));
    }
    String::from_utf8(bytes).map_err(|_| bad("stdin is not UTF-8 text"))
}

fn usage(verb: &Verb) -> String {
    format!("file-tools WORKSPACE {}", help::usage(verb))
}

fn verb_names() -> String {
    VERBS
        .iter()
        .map(|verb| verb.name)
        .collect::<Vec<_>>()
        .join(", ")
}

fn bad(message: impl Into<String>) -> ToolError {
    ToolError::bad_arguments(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &[&str], mut stdin: &[u8]) -> Result<(String, Value), &'static str> {
        let args: Vec<OsString> = ["ws"].iter().chain(words).map(OsString::from).collect();
        match read(&args, &mut stdin).map_err(|error| error.code.as_str())? {
            Invocation::Run {
                workspace,
                tool,
                input,
            } => {
                assert_eq!(workspace, "ws");
                Ok((tool, serde_json::from_str(&input).unwrap()))
            }
            Invocation::Show(_) => Err("shown"),
        }
    }

    #[test]
    fn words_are_parsed_into_a_call() {
        const EDITS: &str = r#"[{"find":"a","replace":"b"}]"#;
        let cases: Vec<(&[&str], &str, Value)> = vec![
            (
                &["read", "a"],
                "read_file",
                serde_json::json!({"path": "a"}),
            ),
            (
                &["read", "a", "--offset", "2", "--limit=3", "--line-numbers"],
                "read_file",
                serde_json::json!({"path": "a", "offset": 2, "limit": 3, "line_numbers": true}),
            ),
            (
                &["write", "a", "-"],
                "write_file",
                serde_json::json!({"path": "a", "content": "in"}),
            ),
            (
                &["write", "--content=-", "a"],
                "write_file",
                serde_json::json!({"path": "a", "content": "in"}),
            ),
            (
                &["create", "a", "--content", "--x"],
                "create_file",
                serde_json::json!({"path": "a", "content": "--x"}),
            ),
            (
                &["read", "--", "-n"],
                "read_file",
                serde_json::json!({"path": "-n"}),
            ),
            (&["list"], "list_files", serde_json::json!({})),
            (
                &["search", "x", "src", "--literal"],
                "search_files",
                serde_json::json!({"pattern": "x", "path": "src", "literal": true}),
            ),
            (
                &["move", "a", "b", "--overwrite"],
                "move_file",
                serde_json::json!({"from": "a", "to": "b", "overwrite": true}),
            ),
            (
                &["edit", "a", "--edits", EDITS],
                "edit_file",
                serde_json::json!({"path": "a", "edits": [{"find": "a", "replace": "b"}]}),
            ),
            (
                &["mkdir", "a"],
                "make_directory",
                serde_json::json!({"path": "a"}),
            ),
            (
                &[r#"{"tool":"read","path":"a"}"#],
                "read_file",
                serde_json::json!({"path": "a"}),
            ),
            (
                &[r#" {"verb":"delete_file","path":"a"}"#],
                "delete_file",
                serde_json::json!({"path": "a"}),
            ),
            (&[r#"{"tool":"nope"}"#], "nope", serde_json::json!({})),
        ];
        for (words, tool, input) in cases {
            assert_eq!(run(words, b"in"), Ok((tool.to_owned(), input)), "{words:?}");
        }
        assert_eq!(
            run(&["-"], br#"{"tool":"list"}"#),
            Ok(("list_files".to_owned(), serde_json::json!({})))
        );
    }

    #[test]
    fn invalid_words_are_refused() {
        let cases: [(&[&str], &str); 16] = [
            (&[], "bad_arguments"),
            (&["read"], "bad_arguments"),
            (&["read", "a", "b"], "bad_arguments"),
            (&["read", "a", "--offset"], "bad_arguments"),
            (&["read", "a", "--offset", "x"], "bad_arguments"),
            (
                &["read", "a", "--offset", "1", "--offset", "2"],
                "bad_arguments",
            ),
            (&["read", "a", "--nope"], "bad_arguments"),
            (&["read", "a", "--line-numbers=yes"], "bad_arguments"),
            (&["write", "a"], "bad_arguments"),
            (&["write", "a", "-", "--content", "x"], "bad_arguments"),
            (&["patch", "a", "--edits", "{"], "bad_arguments"),
            (&["fly", "a"], "unknown_tool"),
            (&["{"], "bad_arguments"),
            (&["{}"], "bad_arguments"),
            (&[r#"{"tool":1}"#], "bad_arguments"),
            (&["read", "--help"], "shown"),
        ];
        for (words, code) in cases {
            assert_eq!(run(words, b""), Err(code), "{words:?}");
        }
        assert_eq!(run(&["write", "a", "-"], b"\xff"), Err("bad_arguments"));
    }

    #[test]
    fn every_verb_has_a_tool_and_help() {
        for verb in VERBS {
            assert!(
                ostler_tools::catalog::FILE_TOOLS
                    .iter()
                    .any(|tool| tool.name == verb.tool),
                "{}",
                verb.tool
            );
            assert!(help::of_verb(verb).contains("Examples:"));
            assert!(help::of_program().contains(verb.name));
        }
        assert_eq!(VERBS.len(), ostler_tools::catalog::FILE_TOOLS.len());
    }
}
