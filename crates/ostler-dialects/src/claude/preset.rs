//! The `workspace_tools` preset: Claude Code works on files only through the program `file-tools`.

use ostler_core::spec::{Settings, Spec, SpecError, keys};

/// Name of the program.
pub(super) const PROGRAM: &str = "file-tools";

/// Permission modes that run nothing beyond the allowed pattern.
const MODES: [&str; 4] = ["default", "manual", "dontAsk", "plan"];

/// Instructions for the model, appended to the system prompt.
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

/// Returns the workspace as it appears in commands. It is the absolute path, so that a model can
/// neither name another directory nor reach one with `cd`.
fn workspace(spec: &Spec) -> Result<&str, SpecError> {
    let Some(dir) = spec.dir.as_deref().filter(|dir| dir.is_absolute()) else {
        return Ok(".");
    };
    let is_plain = |char: char| char.is_alphanumeric() || "/._-+@".contains(char);
    let plain = dir.to_str().filter(|dir| dir.chars().all(is_plain));
    plain.ok_or_else(|| {
        let why = "needs a directory path of only letters, digits and /._-+@, because it becomes \
            part of a pattern";
        SpecError::new(keys::WORKSPACE_TOOLS, &dir.to_string_lossy(), why)
    })
}

/// Merges the preset into the caller's settings. Returns `None` if the preset is not set.
pub(super) fn apply(spec: &Spec) -> Result<Option<Settings>, SpecError> {
    let Some(name) = spec.value(keys::WORKSPACE_TOOLS) else {
        return Ok(None);
    };
    let mut settings = spec.to_settings();
    let conflict = |key: &str, why: &str| {
        let value = spec.value(key).unwrap_or_default();
        Err(SpecError::new(
            key,
            &value,
            format!("{why} with workspace_tools={name}"),
        ))
    };
    if spec
        .permission_mode
        .as_deref()
        .is_some_and(|mode| !MODES.contains(&mode))
    {
        return conflict(
            keys::PERMISSION_MODE,
            "would allow more than the one program",
        );
    }
    if spec.tools.as_ref().is_some_and(|tools| tools != &["Bash"]) {
        return conflict(keys::TOOLS, "only Bash is available");
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
        Some(prompt) => format!("{prompt}\n\n{}", instructions(workspace)),
        None => instructions(workspace),
    };
    settings.set(keys::APPEND_SYSTEM_PROMPT, more);
    Ok(Some(settings))
}
