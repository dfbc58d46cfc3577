//! Cases made from a commit (prompt from its message, hidden tests from its diff) or a session.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::load::slug;

/// Facts about a commit. Git supplies them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommitFacts {
    /// Address or path of the repository, as the case will name it.
    pub repo: String,
    /// The commit.
    pub commit: String,
    /// Its parent, which the agent starts from.
    pub parent: String,
    /// The commit's message.
    pub message: String,
    /// The files that it changed.
    pub changes: Vec<ChangedFile>,
    /// Names in the repository's top directory, which tell how it is tested.
    pub root_files: Vec<String>,
}

/// A file that a commit changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path in the repository, with `/`.
    pub path: String,
    /// Its text after the commit; `None` if it was deleted or is not text.
    pub after: Option<String>,
}

/// A case to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCase {
    /// Name of the case, and of its directory.
    pub name: String,
    /// Paths below the case's directory, and their texts.
    pub files: BTreeMap<PathBuf, String>,
    /// What a person should look at before the case is used.
    pub notes: Vec<String>,
}

/// Why a commit cannot become a case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NewCaseError {
    /// There is nothing to start from.
    #[error("the commit has no parent: there is nothing that an agent could start from")]
    NoParent,
    /// Nothing to ask for.
    #[error("the commit has no message: write the prompt by hand, with `ostler eval init`")]
    NoMessage,
    /// A session without a prompt.
    #[error("the session has no prompt: there is nothing that an agent could be asked")]
    NoPrompt,
    /// It changes tests only.
    #[error("the commit changes tests only: an agent would have nothing to do")]
    OnlyTests,
    /// A path that leaves the case's directory.
    #[error("the path \"{0}\" is not below the repository")]
    BadPath(String),
}

/// Directory of the hidden tests in a case.
pub const HIDDEN: &str = "hidden";

/// Lines of a message that are not part of the task.
const TRAILERS: &[&str] = &[
    "signed-off-by:",
    "co-authored-by:",
    "reviewed-by:",
    "acked-by:",
    "tested-by:",
    "cc:",
    "change-id:",
    "reviewed-on:",
    "fixes:",
    "closes:",
    "see-also:",
    "cherry-picked from",
    "(cherry picked from",
];

/// Makes a case from a commit.
///
/// # Errors
/// The commit has no parent, no message, or no change besides tests.
pub fn new_case(facts: &CommitFacts) -> Result<NewCase, NewCaseError> {
    if facts.parent.is_empty() {
        return Err(NewCaseError::NoParent);
    }
    let prompt = prompt(&facts.message);
    let Some(title) = prompt.lines().next().map(str::to_owned) else {
        return Err(NewCaseError::NoMessage);
    };
    let (tests, others): (Vec<_>, Vec<_>) = facts
        .changes
        .iter()
        .partition(|change| is_test_path(&change.path));
    if others.is_empty() {
        return Err(NewCaseError::OnlyTests);
    }
    let mut files = BTreeMap::new();
    let mut notes = Vec::new();
    for change in &tests {
        let path = PathBuf::from(&change.path);
        let is_plain = |part| matches!(part, std::path::Component::Normal(_));
        if !path.components().all(is_plain) {
            return Err(NewCaseError::BadPath(change.path.clone()));
        }
        match &change.after {
            Some(text) => {
                files.insert(PathBuf::from(HIDDEN).join(path), text.clone());
            }
            None => notes.push(format!(
                "{} was deleted or is not text: left out",
                change.path
            )),
        }
    }
    let has_inline = |change: &&&ChangedFile| {
        let text = change.after.as_deref().unwrap_or_default();
        text.contains("#[cfg(test)]")
    };
    for change in others.iter().filter(has_inline) {
        let path = &change.path;
        notes.push(format!(
            "{path} holds tests beside the code: they are not hidden"
        ));
    }
    let command = test_command(&facts.root_files);
    if files.is_empty() {
        notes.push("the commit changes no test file: add an evaluator that can tell".to_owned());
    }
    if command.is_none() {
        notes.push("no known build tool was found: fill in the test command".to_owned());
    }
    notes.push("read the prompt: does it say all that the hidden tests expect?".to_owned());
    let has_tests = !files.is_empty();
    let name = name(&title, &facts.commit);
    let text = case_text(facts, &prompt, command, has_tests);
    files.insert(PathBuf::from("case.yaml"), text);
    Ok(NewCase { name, files, notes })
}

/// Facts about a recorded session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFacts {
    /// Ostler's id of the session.
    pub session: String,
    /// The repository or directory that it worked in.
    pub repo: String,
    /// The commit that it probably started from; `None` if the directory is no repository.
    pub commit: Option<String>,
    /// Its first prompt.
    pub prompt: String,
}

/// Makes a case from a recorded session.
///
/// # Errors
/// The session has no prompt.
pub fn session_case(facts: &SessionFacts) -> Result<NewCase, NewCaseError> {
    let Some(title) = facts.prompt.lines().find(|line| !line.trim().is_empty()) else {
        return Err(NewCaseError::NoPrompt);
    };
    let source = match &facts.commit {
        Some(commit) => format!(
            "repo: {}\ncommit: {}\n",
            quoted(&facts.repo),
            quoted(commit)
        ),
        None => format!("directory: {}\n", quoted(&facts.repo)),
    };
    let text = format!(
        "# Made from session {session}.\n\
         {source}\
         prompt: |2\n{lines}\
         evaluators:\n\
         \x20 - name: command:tests\n\
         \x20   config:\n\
         \x20     command: your test command here\n\
         \x20 - name: git-diff\n\
         \x20   required: false\n\
         timeout: 30m\n",
        session = facts.session,
        lines = block(facts.prompt.trim_end()),
    );
    let start = match facts.commit {
        Some(_) => "the commit is the last one before the session began: check that it is right",
        None => "the directory is copied as it is now: undo what the session changed",
    };
    let notes = ["fill in the test command", start].map(str::to_owned);
    Ok(NewCase {
        name: name(title, &facts.session),
        files: BTreeMap::from([(PathBuf::from("case.yaml"), text)]),
        notes: notes.to_vec(),
    })
}

/// The message without trailers and comments.
fn prompt(message: &str) -> String {
    let is_task = |line: &&str| {
        let lower = line.trim().to_lowercase();
        !lower.starts_with('#') && !TRAILERS.iter().any(|trailer| lower.starts_with(trailer))
    };
    let lines: Vec<&str> = message.lines().filter(is_task).map(str::trim_end).collect();
    lines.join("\n").trim().to_owned()
}

fn name(title: &str, commit: &str) -> String {
    let words: String = slug(title)
        .replace(['/', '.'], "-")
        .chars()
        .take(40)
        .collect();
    let short: String = commit.chars().take(8).collect();
    let words = words.trim_matches('-');
    if words.is_empty() {
        short
    } else {
        format!("{words}-{short}")
    }
}

/// Returns true for a file that holds tests by the conventions of common languages.
#[must_use]
pub fn is_test_path(path: &str) -> bool {
    let lower = path.to_lowercase();
    let (dirs, file) = lower.rsplit_once('/').unwrap_or(("", &lower));
    let in_test_dir = dirs.split('/').any(|dir| {
        matches!(
            dir,
            "test" | "tests" | "__tests__" | "spec" | "specs" | "testdata"
        )
    });
    let stem = file.split('.').next().unwrap_or(file);
    let is_test_file = stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_spec")
        || stem == "tests"
        || stem == "conftest"
        || file.contains(".test.")
        || file.contains(".spec.")
        || path.ends_with("Test.java")
        || path.ends_with("Tests.cs");
    in_test_dir || is_test_file
}

/// The usual test command of a project.
fn test_command(root_files: &[String]) -> Option<&'static str> {
    let tools = [
        ("Cargo.toml", "cargo test"),
        ("go.mod", "go test ./..."),
        ("package.json", "npm test"),
        ("pyproject.toml", "python3 -m pytest -q"),
        ("pytest.ini", "python3 -m pytest -q"),
        ("setup.py", "python3 -m pytest -q"),
        ("pom.xml", "mvn -q test"),
        ("build.gradle", "gradle test"),
        ("Makefile", "make test"),
    ];
    let has = |name: &str| root_files.iter().any(|file| file == name);
    let found = tools.into_iter().find(|(name, _)| has(name));
    found.map(|(_, command)| command)
}

fn case_text(facts: &CommitFacts, prompt: &str, command: Option<&str>, has_tests: bool) -> String {
    let lines = block(prompt);
    let command = command.unwrap_or("your test command here");
    let overlay = if has_tests {
        format!(
            "      overlay: {HIDDEN}   # copied over the agent's files before the command runs\n"
        )
    } else {
        String::new()
    };
    format!(
        "# Made from commit {commit}.\n\
         repo: {repo}\n\
         commit: {parent}   # the parent: the agent does not see the solution\n\
         prompt: |2\n{lines}\
         expected_source: commit\n\
         expected: {commit}\n\
         evaluators:\n\
         \x20 - name: command:tests\n\
         \x20   config:\n\
         \x20     command: {command}\n\
         {overlay}\
         \x20 - name: git-diff\n\
         \x20   required: false\n\
         \x20 - name: expected-diff\n\
         \x20   required: false\n\
         timeout: 30m\n",
        commit = quoted(&facts.commit),
        parent = quoted(&facts.parent),
        repo = quoted(&facts.repo),
        command = quoted(command),
    )
}

/// The lines of a block in YAML. In a case file, `${` would be a variable.
fn block(text: &str) -> String {
    let lines = text.lines().map(|line| match line.trim() {
        "" => "\n".to_owned(),
        _ => format!("  {}\n", line.replace("${", "$${")),
    });
    lines.collect()
}

/// A text in YAML's double quotes, which are those of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}
