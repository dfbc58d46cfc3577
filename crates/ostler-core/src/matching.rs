//! Rule matching: words of commands, and paths, as the permission policy and the sandbox policy
//! compare them with their rules.
//!
//! The two policies have a syntax of their own: a permission rule has the first words of a command
//! and a path pattern, a sandbox rule has sub-commands, blocked words and globs. What a word or a
//! path matches is decided here, once. A match can be of two kinds. A rule that allows something
//! matches only what it certainly means. A rule that refuses something matches everything that it
//! could mean: any spelling of an option, any name of a file.
//!
//! ```
//! use ostler_core::matching::{Spelling, WordSet};
//!
//! let force = WordSet::new("rm", Spelling::Known, ["-rf"]);
//! assert!(force.is_within(&["--recursive".into(), "x".into(), "-f".into()]));
//! assert!(!force.is_within(&["-r".into(), "x".into()]));
//! ```

mod command;
mod path;
mod wildcard;
mod words;

pub(crate) use self::command::{CommandPattern, Word, base_name, begins_with};
pub use self::path::{Breadth, GlobError, GlobPattern, Globs, PathName, PathNames, lenient_name};
pub use self::wildcard::matches_wildcard;
pub use self::words::{Spelling, WordSet, is_long_option, short_options};
