//! A workspace: a directory handle, and the rules about what is below it.

/// A directory that a model works in.
#[derive(Debug)]
pub struct Workspace {}
