//! Git repositories as a way to make git run programs: git directories, their settings, and the
//! files these reference.

pub(crate) mod config;
pub(crate) mod directory;
pub(crate) mod references;

pub use self::references::UserGitConfig;
