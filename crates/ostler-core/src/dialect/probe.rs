//! How to find out whether an agent is there, of a version that will do, and logged in.

use super::Inherits;

/// How to find out whether an agent is there and ready.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// The program's name on PATH.
    pub program: &'static str,
    /// Where the program itself is when what PATH names is a script that only starts it: paths from the directory of that
    /// script, links followed. Such scripts do not pass signals on, and take their time. The first that is there is used.
    pub natives: &'static [&'static str],
    /// What the program runs on, when that has to be of some version.
    pub runtime: Option<Runtime>,
    /// The arguments that make it print its version.
    pub version_args: &'static [&'static str],
    /// Reads the version.
    pub read_version: fn(&str) -> Option<Version>,
    /// How to query its login state; `None` if it has no such query.
    pub login: Option<LoginQuery>,
    /// The oldest version that is supported.
    pub minimum: Version,
    /// The newest version that this release of Ostler was tested with; none when it was not.
    pub tested: Option<Version>,
    /// How to install it.
    pub install_hint: &'static str,
    /// How to log in.
    pub login_hint: &'static str,
    /// Variables the probe may see: those of [`super::Launch::inherits`].
    pub inherits: Inherits,
}

/// What a program runs on, an interpreter.
#[derive(Debug, Clone, Copy)]
pub struct Runtime {
    /// The interpreter's name on PATH; it prints its version when it is given `--version`.
    pub program: &'static str,
    /// Whether that version will do.
    pub serves: fn(Version) -> bool,
    /// What to do when it will not.
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

/// Whether somebody is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// Yes, and how.
    LoggedIn(Option<String>),
    /// No.
    LoggedOut,
    /// It could not be found out.
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
