//! The preset of document 001: Claude Code works on files through the program `file-tools`, and can do nothing else.

use ostler_core::spec::{Settings, Spec, SpecError, keys};

/// The program that does the work.
pub(super) const PROGRAM: &str = "file-tools";

/// What Claude Code is told about it.
const INSTRUCTIONS: &str = "\
Work on files only with the program file-tools, through Bash; no other command is allowed. The workspace is the current \
directory. One command per call, without pipes, redirections or &&. Examples:
file-tools . list
file-tools . read src/main.rs
file-tools . search 'fn main'
file-tools . patch src/main.rs --find 'old' --replace 'new'
file-tools --help says everything.";

/// The settings that the preset stands for, with the caller's own; none without the preset.
pub(super) fn apply(spec: &Spec) -> Result<Option<Settings>, SpecError> {
    let Some(name) = spec.settings.last(keys::WORKSPACE_TOOLS) else { return Ok(None) };
    let mut settings = spec.settings.clone();
    let wrong = |key: &str, why: &str| {
        let value = spec.settings.last(key).unwrap_or_default();
        Err(SpecError::new(key, value, format!("{why} with workspace_tools={name}")))
    };
    if spec.settings.last(keys::PERMISSION_MODE) == Some("bypassPermissions") {
        return wrong(keys::PERMISSION_MODE, "this would allow every command, which makes no sense");
    }
    if spec.settings.get(keys::TOOLS).is_some_and(|tools| tools != ["Bash"]) {
        return wrong(keys::TOOLS, "the only tool is Bash");
    }
    settings.set(keys::TOOLS, "Bash");
    settings.push(keys::ALLOWED_TOOLS, format!("Bash({PROGRAM} *)"));
    if let Some(dir) = spec.dir.as_deref().and_then(std::path::Path::to_str) {
        settings.push(keys::ADD_DIR, dir);
    }
    let more = match settings.last(keys::APPEND_SYSTEM_PROMPT) {
        Some(own) => format!("{own}\n\n{INSTRUCTIONS}"),
        None => INSTRUCTIONS.to_owned(),
    };
    settings.set(keys::APPEND_SYSTEM_PROMPT, more);
    Ok(Some(settings))
}
