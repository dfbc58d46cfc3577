//! A workspace: a directory handle, and the rules about what is below it.

use std::path::Path;

use crate::ToolError;
use crate::catalog::{self, Reply};
use crate::files::limits::{POLICY_BYTES, SETTINGS_BYTES};
use crate::files::store::{Present, write};
use crate::files::{FileRules, Root, Span, read_own_file, whole_text};
use crate::policy::{POLICY_FILE, SandboxPolicy, WorkspacePolicy};
use crate::repository::UserGitConfig;

/// A directory that a model works in. Every file is opened below its handle, so no path leads out of it.
#[derive(Debug)]
pub struct Workspace {
    root: Root,
}

impl Workspace {
    /// Opens a directory as a workspace.
    ///
    /// # Errors
    /// The directory cannot be opened, or a rule is no glob.
    pub fn open(root: &Path, rules: &FileRules) -> Result<Self, ToolError> {
        Ok(Self {
            root: Root::open(root, rules)?,
        })
    }

    /// Counts the user's own git settings among those that lead git to files of the workspace.
    #[must_use]
    pub fn with_user_git_config(mut self, user_git: UserGitConfig) -> Self {
        self.root.set_user_git(user_git);
        self
    }

    /// The user's own git settings that count here.
    #[must_use]
    pub fn user_git_config(&self) -> &UserGitConfig {
        self.root.user_git()
    }

    /// Loads the default policy, narrowed by the workspace's own file. What that file asks for beyond the defaults is left
    /// out: nobody has trusted it.
    ///
    /// # Errors
    /// The file is not a plain one, is too large, or cannot be parsed: then nothing should run, since what the user wanted is
    /// not known.
    pub fn load_policy(root: &Path) -> Result<SandboxPolicy, ToolError> {
        let Some(text) = Self::own_file(root, POLICY_FILE)? else {
            return Ok(SandboxPolicy::default());
        };
        Ok(SandboxPolicy::default()
            .narrowed_by(&WorkspacePolicy::parse(&text)?)
            .policy)
    }

    /// Reads one of a workspace's own settings files, by its path below the root. It must be a regular file, and neither it
    /// nor a directory on the way a link.
    ///
    /// # Errors
    /// The file is something else, leads elsewhere, is too large, or is not UTF-8.
    pub fn own_file(root: &Path, name: &str) -> Result<Option<String>, ToolError> {
        let most = if name == POLICY_FILE {
            POLICY_BYTES
        } else {
            SETTINGS_BYTES
        };
        read_own_file(root, Path::new(name), most)
    }

    /// The real path of the directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Whether a file of that path, relative to the root, is kept from a model altogether: commands must not name it.
    #[must_use]
    pub fn is_denied(&self, path: &Path) -> bool {
        self.root.is_denied(path)
    }

    /// Runs a file tool of [`catalog::FILE_TOOLS`] by its name, with its arguments as JSON.
    ///
    /// # Errors
    /// With a code to branch on and a sentence that a model can act on; [`crate::Code::UnknownTool`] if the name is none
    /// of these tools, so that a caller can look among its own.
    pub fn call(&self, name: &str, input: &str) -> Result<Reply, ToolError> {
        self.call_approved(name, input, &[])
    }

    /// Runs a file tool as [`Workspace::call`] does, after a person has approved the change of these files: those that an error
    /// named in [`ToolError::needs_approval`].
    ///
    /// # Errors
    /// As [`Workspace::call`]; a change of any other file that needs approval is refused as before.
    pub fn call_approved(
        &self,
        name: &str,
        input: &str,
        approved: &[String],
    ) -> Result<Reply, ToolError> {
        catalog::call(&self.root.for_call(approved)?, name, input)
    }

    /// Reads a text file, or some of its lines, as it is: nothing is cut or marked, since whoever gets it may write it back.
    ///
    /// # Errors
    /// As the tools say them; what is too large to be written back is refused as a whole.
    pub fn read_text(&self, path: &str, span: Span) -> Result<String, ToolError> {
        whole_text::read(&self.root, path, span)
    }

    /// Makes a file hold this text, as the tool `write_file` does.
    ///
    /// # Errors
    /// As that tool says them.
    pub fn write_text(&self, path: &str, text: &str) -> Result<(), ToolError> {
        write(&self.root.for_call(&[])?, path, text, Present::Replace).map(|_| ())
    }
}
