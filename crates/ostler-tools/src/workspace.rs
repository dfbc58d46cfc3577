//! Workspace: a directory handle and the rules for everything below it.

use std::path::Path;

use crate::ToolError;
use crate::catalog::{self, ToolOutput};
use crate::files::atomic_write::{IfExists, write};
use crate::files::limits::{POLICY_BYTES, SETTINGS_BYTES};
use crate::files::{FileRules, Root, Span, raw_text, read_own_file};
use crate::policy::{POLICY_FILE, SandboxPolicy, WorkspacePolicy};
use crate::repository::UserGitConfig;

/// A directory that a model works in. Every file is opened below its handle, so no path leads out
/// of it.
#[derive(Debug)]
pub struct Workspace {
    root: Root,
}

impl Workspace {
    /// Opens a directory as a workspace.
    ///
    /// # Errors
    /// The directory cannot be opened, or a rule is not a valid glob.
    pub fn open(root: &Path, rules: &FileRules) -> Result<Self, ToolError> {
        Ok(Self {
            root: Root::open(root, rules)?,
        })
    }

    /// Also treats the user's git settings as settings that can point git at files in the
    /// workspace.
    #[must_use]
    pub fn with_user_git_config(mut self, user_git: UserGitConfig) -> Self {
        self.root.set_user_git(user_git);
        self
    }

    /// Returns the user's git settings in effect here.
    #[must_use]
    pub fn user_git_config(&self) -> &UserGitConfig {
        self.root.user_git()
    }

    /// Loads the default policy, narrowed by the workspace's policy file. Requests in that file for
    /// more than the defaults are ignored, because the file is not trusted.
    ///
    /// # Errors
    /// The file is not a regular file, is too large, or cannot be parsed. Nothing should run then,
    /// because the user's intent is unknown.
    pub fn load_policy(root: &Path) -> Result<SandboxPolicy, ToolError> {
        let Some(text) = Self::own_file(root, POLICY_FILE)? else {
            return Ok(SandboxPolicy::default());
        };
        Ok(SandboxPolicy::default()
            .narrowed_by(&text.parse::<WorkspacePolicy>()?)
            .policy)
    }

    /// Reads one of the workspace's settings files by its path below the root. Neither the file nor
    /// any directory on the path may be a link.
    ///
    /// # Errors
    /// The path is not a regular file, passes through a link, is too large, or is not UTF-8.
    pub fn own_file(root: &Path, name: &str) -> Result<Option<String>, ToolError> {
        let max_bytes = if name == POLICY_FILE {
            POLICY_BYTES
        } else {
            SETTINGS_BYTES
        };
        read_own_file(root, Path::new(name), max_bytes)
    }

    /// Returns the real path of the directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns true if the file at this path, relative to the root, is denied to the model.
    /// Commands must not name it.
    #[must_use]
    pub fn is_denied(&self, path: &Path) -> bool {
        self.root.is_denied(path)
    }

    /// Runs a tool of [`catalog::FILE_TOOLS`] by name, with its arguments as JSON.
    ///
    /// # Errors
    /// Returns a code to branch on and a message that a model can act on. The code is
    /// [`crate::Code::UnknownTool`] if no file tool has that name, so that a caller can look among
    /// its own tools.
    pub fn call(&self, name: &str, input: &str) -> Result<ToolOutput, ToolError> {
        self.call_approved(name, input, &[])
    }

    /// Runs a file tool as [`Workspace::call`] does, after a person has approved changes to
    /// `approved`: the files an earlier error listed in [`ToolError::needs_approval`].
    ///
    /// # Errors
    /// As [`Workspace::call`]. Changes to other files that need approval are still refused.
    pub fn call_approved(
        &self,
        name: &str,
        input: &str,
        approved: &[String],
    ) -> Result<ToolOutput, ToolError> {
        catalog::call(&self.root.for_call(approved)?, name, input)
    }

    /// Reads a text file, or some of its lines, without truncation or markers, since the caller may
    /// write it back.
    ///
    /// # Errors
    /// As the file tools; a text too large to be written back is refused.
    pub fn read_text(&self, path: &str, span: Span) -> Result<String, ToolError> {
        raw_text::read(&self.root, path, span)
    }

    /// Writes this text to a file, as the tool `write_file` does.
    ///
    /// # Errors
    /// As the tool `write_file`.
    pub fn write_text(&self, path: &str, text: &str) -> Result<(), ToolError> {
        write(&self.root.for_call(&[])?, path, text, IfExists::Replace).map(|_| ())
    }
}
