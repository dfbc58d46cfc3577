//! The tools as a model sees them: names, descriptions, schemas, and the way from a call to its result.

/// One tool as a model sees it.
#[derive(Debug, Clone)]
pub struct ToolInfo {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
    /// Whether it changes nothing, so that several can run at once.
    pub only_reads: bool,
    /// The JSON schema of its arguments.
    pub schema: fn() -> String,
}

/// What a tool gave: the same for a model and for a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// For a model: plain text.
    pub text: String,
    /// For a program: a JSON object.
    pub json: String,
}
