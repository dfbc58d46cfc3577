//! Git repositories as far as they can make git run programs: git directories, their settings, and the files these lead to.

pub(crate) mod config;
pub(crate) mod directory;
pub(crate) mod steering;

pub use self::steering::UserGitConfig;
