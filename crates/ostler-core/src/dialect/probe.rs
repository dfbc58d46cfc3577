//! Probe data: how to check that an agent is installed, of a supported version, and logged in.

use super::Inherits;

/// How to check that an agent is installed and ready.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Name of the program on `PATH`.
    pub program: &'static str,
    /// Location of the native program if `PATH` names only a wrapper script: paths relative to the
    /// directory of that script, with links resolved. The first one that exists is used. Wrapper
    /// scripts do not forward signals, and start slowly.
    pub natives: &'static [&'static str],
    /// The interpreter the program runs on, if its version matters.
    pub runtime: Option<Runtime>,
    /// Arguments that print the version.
    pub version_args: &'static [&'static str],
    /// Parses the version.
    pub read_version: fn(&str) -> Option<Version>,
    /// How to query its login state; `None` if it has no such query.
    pub login: Option<LoginQuery>,
    /// Oldest supported version.
    pub minimum: Version,
    /// Newest version this release of Ostler was tested with, if it was tested.
    pub tested: Option<Version>,
    /// How to install it.
    pub install_hint: &'static str,
    /// How to log in.
    pub login_hint: &'static str,
    /// Files in which it stores its login, if they contain nothing else that affects its work.
    pub login_files: &'static [LoginFile],
    /// Variables the probe may see: those of [`super::Launch::inherits`].
    pub inherits: Inherits,
}

/// The interpreter that a program runs on.
#[derive(Debug, Clone, Copy)]
pub struct Runtime {
    /// Name of the interpreter on `PATH`; it prints its version when called with `--version`.
    pub program: &'static str,
    /// Returns true if the version is supported.
    pub serves: fn(Version) -> bool,
    /// What to do if it is not.
    pub hint: &'static str,
}

/// A short run of the program that reveals its login state, without a model call.
#[derive(Debug, Clone, Copy)]
pub struct LoginQuery {
    /// Arguments of the run.
    pub args: &'static [&'static str],
    /// Variables set for the run.
    pub env: &'static [(&'static str, &'static str)],
    /// Text written to its stdin, which is closed after it.
    pub input: &'static str,
    /// Reads the login state from the exit code and stdout.
    pub read: fn(Option<i32>, &str) -> Login,
}

/// A file with the login of an agent, in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginFile {
    /// Variable that names its directory.
    pub variable: Option<&'static str>,
    /// The directory without that variable, relative to the home directory.
    pub below_home: &'static str,
    /// Path of the file in that directory.
    pub name: &'static str,
}

/// Login state of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// Logged in, with the method if it is known.
    LoggedIn(Option<String>),
    /// Not logged in.
    LoggedOut,
    /// It could not be determined.
    Unknown,
}

/// A version of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(
    /// Major.
    pub u32,
    /// Minor.
    pub u32,
    /// Patch.
    pub u32,
);

impl Version {
    /// Finds the first `a.b.c` in a text.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        text.split(|c: char| !(c.is_ascii_digit() || c == '.'))
            .find_map(|word| {
                let mut parts = word.split('.').map(|p| p.parse::<u32>().ok());
                Some(Self(parts.next()??, parts.next()??, parts.next()??))
            })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_and_compared() {
        assert_eq!(
            Version::find("2.1.325 (Claude Code)"),
            Some(Version(2, 1, 325))
        );
        assert_eq!(Version::find("codex-cli 0.166.0"), Some(Version(0, 166, 0)));
        assert_eq!(Version::find("no version, 1.2"), None);
        assert!(Version(2, 1, 9) < Version(2, 1, 325) && Version(2, 10, 0) > Version(2, 9, 9));
    }
}
