//! The preset of document 001: Claude Code works on files through the program `file-tools`, and can do nothing else.

use ostler_core::spec::{Settings, Spec, SpecError, keys};

/// The program that does the work.
pub(super) const PROGRAM: &str = "file-tools";

/// Permission modes in which nothing runs that the pattern does not allow.
const MODES: [&str; 4] = ["default", "manual", "dontAsk", "plan"];

/// What Claude Code is told about it.
fn instructions(workspace: &str) -> String {
    format!(
        "\
Work on files only with the program {PROGRAM}, through Bash; no other command is allowed. Its first argument is the \
workspace, always as it is here. One command per call, without pipes, redirections, cd or &&. Examples:
{PROGRAM} {workspace} list
{PROGRAM} {workspace} read src/main.rs
{PROGRAM} {workspace} search 'fn main'
{PROGRAM} {workspace} patch src/main.rs --find 'old' --replace 'new'
{PROGRAM} {workspace} --help says everything."
    )
}

/// The workspace as the commands name it. Its whole path, so that a model can neither name another nor go to one by `cd`.
fn workspace(spec: &Spec) -> Result<&str, SpecError> {
    let Some(dir) = spec.dir.as_deref().filter(|dir| dir.is_absolute()) else {
        return Ok(".");
    };
    let is_plain = |char: char| char.is_alphanumeric() || "/._-+@".contains(char);
    let plain = dir.to_str().filter(|dir| dir.chars().all(is_plain));
    plain.ok_or_else(|| {
        let why = "needs a directory whose path has only letters, digits and /._-+@, since a pattern must hold it";
        SpecError::new(keys::WORKSPACE_TOOLS, &dir.to_string_lossy(), why)
    })
}

/// The settings that the preset stands for, with the caller's own; none without the preset.
pub(super) fn apply(spec: &Spec) -> Result<Option<Settings>, SpecError> {
    let Some(name) = spec.settings.last(keys::WORKSPACE_TOOLS) else {
        return Ok(None);
    };
    let mut settings = spec.settings.clone();
    let wrong = |key: &str, why: &str| {
        let value = spec.settings.last(key).unwrap_or_default();
        Err(SpecError::new(
            key,
            value,
            format!("{why} with workspace_tools={name}"),
        ))
    };
    if spec
        .settings
        .last(keys::PERMISSION_MODE)
        .is_some_and(|mode| !MODES.contains(&mode))
    {
        return wrong(
            keys::PERMISSION_MODE,
            "this would allow more than the one program, which makes no sense",
        );
    }
    if spec
        .settings
        .get(keys::TOOLS)
        .is_some_and(|tools| tools != ["Bash"])
    {
        return wrong(keys::TOOLS, "the only tool is Bash");
    }
    let workspace = workspace(spec)?;
    settings.set(keys::TOOLS, "Bash");
    settings.push(
        keys::ALLOWED_TOOLS,
        format!("Bash({PROGRAM} {workspace} *)"),
    );
    if let Some(dir) = spec.dir.as_deref().and_then(std::path::Path::to_str) {
        settings.push(keys::ADD_DIR, dir);
    }
    let more = match settings.last(keys::APPEND_SYSTEM_PROMPT) {
        Some(own) => format!("{own}\n\n{}", instructions(workspace)),
        None => instructions(workspace),
    };
    settings.set(keys::APPEND_SYSTEM_PROMPT, more);
    Ok(Some(settings))
}
