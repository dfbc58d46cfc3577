//! Help text: short enough for a model to read completely, with examples that work as written.

use crate::verbs::{FlagValue, VERBS, Verb};

/// Usage on one line.
pub(crate) const USAGE: &str =
    "file-tools WORKSPACE VERB [ARGUMENTS], or file-tools WORKSPACE JSON";

/// Returns the version line.
pub(crate) fn version() -> String {
    format!("file-tools {}", env!("CARGO_PKG_VERSION"))
}

/// Returns the help of the program.
pub(crate) fn of_program() -> String {
    let mut text = format!(
        "Read, write and search the files of a workspace, and nothing outside it.\n\nUsage: {USAGE}\n\nVerbs:\n"
    );
    for verb in VERBS {
        text.push_str(&format!("  {}\n      {}\n", usage(verb), verb.about));
    }
    text.push_str(
        "\nPaths are relative to WORKSPACE. A `-` reads the content (write, create), the edits (patch) or the JSON from stdin;\n\
         put `--` before a name that begins with a dash. Help for a verb: file-tools VERB --help\n\
         \nOutput: one JSON object on stdout, exit 0. On failure {\"error\":{\"code\":…,\"message\":…}} and exit 1; the\n\
         message says what to do. Codes: file_not_found, path_outside_workspace, denied_by_policy, is_directory,\n\
         not_a_directory, not_a_file, find_not_found, find_not_unique, too_large, binary_file, exists, bad_arguments,\n\
         unknown_tool, io.\n\nExamples:\n",
    );
    for example in VERBS.iter().flat_map(|verb| verb.examples.first()) {
        text.push_str(&format!("  file-tools . {example}\n"));
    }
    text.push_str("  file-tools . '{\"tool\":\"read\",\"path\":\"src/main.rs\",\"limit\":50}'\n");
    text
}

/// Returns the help of a verb.
pub(crate) fn of_verb(verb: &Verb) -> String {
    let mut text = format!(
        "{}\n\nUsage: file-tools WORKSPACE {}\n",
        verb.about,
        usage(verb)
    );
    if !verb.flags.is_empty() {
        text.push_str("\nFlags:\n");
    }
    for flag in verb.flags {
        text.push_str(&format!(
            "  {:<20} {}\n",
            format!("{}{}", flag.name, value_hint(flag.value)),
            flag.about
        ));
    }
    text.push_str("\nExamples:\n");
    for example in verb.examples {
        text.push_str(&format!("  file-tools . {example}\n"));
    }
    text
}

/// Returns the usage of a verb.
pub(crate) fn usage(verb: &Verb) -> String {
    let mut text = verb.name.to_owned();
    for operand in verb.operands {
        let name = operand.field.to_uppercase();
        text.push_str(&if operand.is_required {
            format!(" {name}")
        } else {
            format!(" [{name}]")
        });
    }
    match verb.name {
        "write" | "create" => text.push_str(" (--content TEXT | -)"),
        "patch" => text.push_str(" (--find TEXT --replace TEXT [--all] | --edits JSON | -)"),
        _ => {
            for flag in verb.flags {
                text.push_str(&format!(" [{}{}]", flag.name, value_hint(flag.value)));
            }
        }
    }
    text
}

fn value_hint(value: FlagValue) -> &'static str {
    match value {
        FlagValue::Nothing => "",
        FlagValue::Number => " N",
        FlagValue::Text | FlagValue::TextOrStdin => " TEXT",
        FlagValue::JsonOrStdin => " JSON",
    }
}
