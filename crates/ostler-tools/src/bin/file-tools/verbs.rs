//! What can be asked for on the command line: each verb with its operands, flags and examples.

/// A verb.
#[derive(Debug)]
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    /// The tool that does it.
    pub(crate) tool: &'static str,
    pub(crate) about: &'static str,
    /// The arguments of the tool that are given without a flag, in order.
    pub(crate) operands: &'static [Operand],
    /// The argument that `-` reads from stdin.
    pub(crate) stdin: Option<&'static str>,
    pub(crate) flags: &'static [Flag],
    /// What follows `file-tools WORKSPACE`.
    pub(crate) examples: &'static [&'static str],
}

/// An argument without a flag.
#[derive(Debug)]
pub(crate) struct Operand {
    pub(crate) field: &'static str,
    pub(crate) is_needed: bool,
}

/// An argument with a flag.
#[derive(Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) field: &'static str,
    pub(crate) takes: Takes,
    pub(crate) about: &'static str,
}

/// What follows a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    Number,
    Text,
    /// A text, or `-` for what comes on stdin.
    TextOrStdin,
    /// JSON, or `-` for JSON on stdin.
    JsonOrStdin,
}

/// The verb of a name; the name of a tool counts, too.
pub(crate) fn find(name: &str) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| {
        verb.name == name || verb.tool == name || (name == "edit" && verb.name == "patch")
    })
}

const fn needed(field: &'static str) -> Operand {
    Operand {
        field,
        is_needed: true,
    }
}

const fn optional(field: &'static str) -> Operand {
    Operand {
        field,
        is_needed: false,
    }
}

const fn flag(name: &'static str, field: &'static str, takes: Takes, about: &'static str) -> Flag {
    Flag {
        name,
        field,
        takes,
        about,
    }
}

const CONTENT: &[Flag] = &[flag(
    "--content",
    "content",
    Takes::TextOrStdin,
    "the content; `-` reads it from stdin",
)];

/// All verbs, in the order of the help.
pub(crate) const VERBS: &[Verb] = &[
    Verb {
        name: "read",
        tool: "read_file",
        about: "Read a text file, or some of its lines.",
        operands: &[needed("path")],
        stdin: None,
        flags: &[
            flag(
                "--offset",
                "offset",
                Takes::Number,
                "the first line, counted from 1",
            ),
            flag("--limit", "limit", Takes::Number, "how many lines"),
            flag(
                "--line-numbers",
                "line_numbers",
                Takes::Nothing,
                "put its number before each line",
            ),
        ],
        examples: &["read src/main.rs", "read big.log --offset 5000 --limit 100"],
    },
    Verb {
        name: "write",
        tool: "write_file",
        about: "Write the whole content of a file, new or not.",
        operands: &[needed("path")],
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
        operands: &[needed("path")],
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
        about: "Replace text in a file. The text to find must be in it exactly once. All edits are done or none.",
        operands: &[needed("path")],
        stdin: Some("edits"),
        flags: &[
            flag("--find", "find", Takes::Text, "the exact text to replace"),
            flag(
                "--replace",
                "replace",
                Takes::Text,
                "what to put in its place",
            ),
            flag(
                "--all",
                "all",
                Takes::Nothing,
                "replace every place, not the only one",
            ),
            flag(
                "--edits",
                "edits",
                Takes::JsonOrStdin,
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
        operands: &[needed("path")],
        stdin: None,
        flags: &[],
        examples: &["delete old.txt"],
    },
    Verb {
        name: "list",
        tool: "list_files",
        about: "List a directory, or with --pattern everything below it that matches. Leaves out what git ignores.",
        operands: &[optional("path")],
        stdin: None,
        flags: &[
            flag(
                "--pattern",
                "pattern",
                Takes::Text,
                "a glob such as '*.rs' or 'src/**/*.ts'",
            ),
            flag(
                "--hidden",
                "hidden",
                Takes::Nothing,
                "also names that begin with a dot",
            ),
        ],
        examples: &["list", "list src --pattern '*.rs'"],
    },
    Verb {
        name: "search",
        tool: "search_files",
        about: "Find lines by a regular expression. Leaves out what git ignores, and binary files.",
        operands: &[needed("pattern"), optional("path")],
        stdin: None,
        flags: &[
            flag(
                "--literal",
                "literal",
                Takes::Nothing,
                "the pattern is plain text",
            ),
            flag(
                "--ignore-case",
                "ignore_case",
                Takes::Nothing,
                "upper and lower case are the same",
            ),
            flag(
                "--glob",
                "glob",
                Takes::Text,
                "only files that match, such as '*.rs'",
            ),
            flag(
                "--context",
                "context",
                Takes::Number,
                "lines before and after each match",
            ),
            flag(
                "--max",
                "max",
                Takes::Number,
                "how many matches at most (100)",
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
        operands: &[needed("from"), needed("to")],
        stdin: None,
        flags: &[flag(
            "--overwrite",
            "overwrite",
            Takes::Nothing,
            "replace a file at the new path",
        )],
        examples: &["move a.txt docs/b.txt"],
    },
    Verb {
        name: "mkdir",
        tool: "make_directory",
        about: "Make a directory, and those above it.",
        operands: &[needed("path")],
        stdin: None,
        flags: &[],
        examples: &["mkdir src/new"],
    },
];
