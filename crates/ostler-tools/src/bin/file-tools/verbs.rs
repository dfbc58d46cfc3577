//! Verbs of the command line, with their operands, flags and examples.

/// A verb.
#[derive(Debug)]
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    /// Tool that implements it.
    pub(crate) tool: &'static str,
    pub(crate) about: &'static str,
    /// Tool arguments given without a flag, in order.
    pub(crate) operands: &'static [Operand],
    /// Argument that `-` reads from stdin.
    pub(crate) stdin: Option<&'static str>,
    pub(crate) flags: &'static [Flag],
    /// Arguments after `file-tools WORKSPACE`.
    pub(crate) examples: &'static [&'static str],
}

/// An argument without a flag.
#[derive(Debug)]
pub(crate) struct Operand {
    pub(crate) field: &'static str,
    pub(crate) is_required: bool,
}

/// An argument with a flag.
#[derive(Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) field: &'static str,
    pub(crate) value: FlagValue,
    pub(crate) about: &'static str,
}

/// Value of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlagValue {
    Nothing,
    Number,
    Text,
    /// A text, or `-` to read it from stdin.
    TextOrStdin,
    /// JSON, or `-` to read it from stdin.
    JsonOrStdin,
}

/// Returns the verb of a name; names of tools are accepted too.
pub(crate) fn find(name: &str) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| {
        verb.name == name || verb.tool == name || (name == "edit" && verb.name == "patch")
    })
}

const fn required(field: &'static str) -> Operand {
    Operand {
        field,
        is_required: true,
    }
}

const fn optional(field: &'static str) -> Operand {
    Operand {
        field,
        is_required: false,
    }
}

const fn flag(
    name: &'static str,
    field: &'static str,
    value: FlagValue,
    about: &'static str,
) -> Flag {
    Flag {
        name,
        field,
        value,
        about,
    }
}

const CONTENT: &[Flag] = &[flag(
    "--content",
    "content",
    FlagValue::TextOrStdin,
    "the content; `-` reads it from stdin",
)];

/// All verbs, in the order of the help.
pub(crate) const VERBS: &[Verb] = &[
    Verb {
        name: "read",
        tool: "read_file",
        about: "Read a text file, or some of its lines.",
        operands: &[required("path")],
        stdin: None,
        flags: &[
            flag(
                "--offset",
                "offset",
                FlagValue::Number,
                "the first line, counted from 1",
            ),
            flag("--limit", "limit", FlagValue::Number, "number of lines"),
            flag(
                "--line-numbers",
                "line_numbers",
                FlagValue::Nothing,
                "prefix each line with its number",
            ),
        ],
        examples: &["read src/main.rs", "read big.log --offset 5000 --limit 100"],
    },
    Verb {
        name: "write",
        tool: "write_file",
        about: "Write the whole content of a file, new or existing.",
        operands: &[required("path")],
        stdin: Some("content"),
        flags: CONTENT,
        examples: &[
            "write notes.txt --content 'one line'",
            "write src/a.py - <<'EOF'\nprint(1)\nEOF",
        ],
    },
    Verb {
        name: "create",
        tool: "create_file",
        about: "Create a file; fails if it exists.",
        operands: &[required("path")],
        stdin: Some("content"),
        flags: CONTENT,
        examples: &[
            "create new.txt --content 'one line'",
            "create new.txt - < other.txt",
        ],
    },
    Verb {
        name: "patch",
        tool: "edit_file",
        about: "Replace text in a file. The text to find must occur exactly once. All edits are applied, or none.",
        operands: &[required("path")],
        stdin: Some("edits"),
        flags: &[
            flag(
                "--find",
                "find",
                FlagValue::Text,
                "the exact text to replace",
            ),
            flag(
                "--replace",
                "replace",
                FlagValue::Text,
                "the replacement text",
            ),
            flag(
                "--all",
                "all",
                FlagValue::Nothing,
                "replace every occurrence, not exactly one",
            ),
            flag(
                "--edits",
                "edits",
                FlagValue::JsonOrStdin,
                "several: [{\"find\":…,\"replace\":…},…]; `-` reads stdin",
            ),
        ],
        examples: &[
            "patch src/a.py --find 'x = 1' --replace 'x = 2'",
            "patch src/a.py --edits '[{\"find\":\"a\",\"replace\":\"b\"},{\"find\":\"c\",\"replace\":\"\"}]'",
        ],
    },
    Verb {
        name: "delete",
        tool: "delete_file",
        about: "Delete a file or an empty directory.",
        operands: &[required("path")],
        stdin: None,
        flags: &[],
        examples: &["delete old.txt"],
    },
    Verb {
        name: "list",
        tool: "list_files",
        about: "List a directory, or with --pattern everything below it that matches. Skips files that git ignores.",
        operands: &[optional("path")],
        stdin: None,
        flags: &[
            flag(
                "--pattern",
                "pattern",
                FlagValue::Text,
                "a glob such as '*.rs' or 'src/**/*.ts'",
            ),
            flag(
                "--hidden",
                "hidden",
                FlagValue::Nothing,
                "include names that begin with a dot",
            ),
        ],
        examples: &["list", "list src --pattern '*.rs'"],
    },
    Verb {
        name: "search",
        tool: "search_files",
        about: "Find lines by a regular expression. Skips binary files and files that git ignores.",
        operands: &[required("pattern"), optional("path")],
        stdin: None,
        flags: &[
            flag(
                "--literal",
                "literal",
                FlagValue::Nothing,
                "the pattern is plain text",
            ),
            flag(
                "--ignore-case",
                "ignore_case",
                FlagValue::Nothing,
                "ignore case",
            ),
            flag(
                "--glob",
                "glob",
                FlagValue::Text,
                "only files that match, such as '*.rs'",
            ),
            flag(
                "--context",
                "context",
                FlagValue::Number,
                "lines before and after each match",
            ),
            flag(
                "--max",
                "max",
                FlagValue::Number,
                "maximum number of matches (100)",
            ),
        ],
        examples: &[
            "search 'fn main' src --glob '*.rs'",
            "search --literal 'a[0]' --context 2",
        ],
    },
    Verb {
        name: "move",
        tool: "move_file",
        about: "Move or rename a file or directory.",
        operands: &[required("from"), required("to")],
        stdin: None,
        flags: &[flag(
            "--overwrite",
            "overwrite",
            FlagValue::Nothing,
            "replace a file at the new path",
        )],
        examples: &["move a.txt docs/b.txt"],
    },
    Verb {
        name: "mkdir",
        tool: "make_directory",
        about: "Create a directory and its missing parents.",
        operands: &[required("path")],
        stdin: None,
        flags: &[],
        examples: &["mkdir src/new"],
    },
];
