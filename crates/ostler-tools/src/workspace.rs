//! A workspace: a directory handle, and the rules about what is below it.

use std::path::Path;

use crate::ToolError;
use crate::catalog::{self, Reply};
use crate::files::store::{Present, write};
use crate::files::{FileRules, Root, Span, read_own_file, whole_text};
use crate::policy::{POLICY_FILE, Policy};

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
        Ok(Self { root: Root::open(root, rules)? })
    }

    /// Reads the policy that a workspace brings along; without one, the default.
    ///
    /// # Errors
    /// The file is not a plain one, is too large, or says something that cannot be: then nothing should run, since what
    /// the user wanted is not known.
    pub fn load_policy(root: &Path) -> Result<Policy, ToolError> {
        let text = read_own_file(root, Path::new(POLICY_FILE))?;
        text.map_or_else(|| Ok(Policy::default()), |text| Policy::parse(&text))
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
        catalog::call(&self.root, name, input)
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
        write(&self.root, path, text, Present::Replace).map(|_| ())
    }
}
