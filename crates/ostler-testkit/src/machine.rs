//! Requirements of a test on the machine: a sandbox layer, a privilege, a program.
//!
//! If CI is set, a missing requirement fails the test. Otherwise the test is skipped, and the skip
//! is reported on stderr and in the file named by [`SKIPPED`], from which `cargo xtask test`
//! prints it.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;

/// Environment variable that names the file to which skipped tests are appended, one per line.
pub const SKIPPED: &str = "OSTLER_SKIPPED_TESTS";

/// Whether the machine has what a test needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// The machine has it.
    Met,
    /// The machine lacks it; the text says what is missing.
    Missing(String),
}

impl Need {
    /// Creates a need that is met if the condition holds.
    #[must_use]
    pub fn of(is_met: bool, missing: impl FnOnce() -> String) -> Self {
        if is_met {
            Self::Met
        } else {
            Self::Missing(missing())
        }
    }

    /// Creates a need for a program in the usual directories.
    #[must_use]
    pub fn program(name: &str) -> Self {
        let is_installed = ["/usr/local/bin", "/usr/bin", "/bin"]
            .iter()
            .any(|dir| Path::new(dir).join(name).exists());
        Self::of(is_installed, || format!("{name} is not installed"))
    }
}

/// Returns true if a test can run on this machine. A test that cannot must return at once.
///
/// # Panics
/// If the machine lacks what the test needs and CI is set: there, a skipped test is a failed test.
#[must_use]
pub fn can_run(test: &str, need: &Need) -> bool {
    decide(
        test,
        need,
        std::env::var_os("CI").as_deref(),
        std::env::var_os(SKIPPED).as_deref(),
    )
}

fn decide(test: &str, need: &Need, ci: Option<&OsStr>, skipped: Option<&OsStr>) -> bool {
    let Need::Missing(what) = need else {
        return true;
    };
    let line = format!("skipped: {test}: {what}");
    assert!(
        !is_ci(ci),
        "{test} cannot be skipped because CI is set: {what}"
    );
    // Directly to the stream: a test runner captures macro output of a passing test.
    let _ = writeln!(std::io::stderr(), "{line}");
    if let Some(path) = skipped {
        let file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(path);
        file.and_then(|mut file| writeln!(file, "{line}"))
            .expect("write the list of skipped tests");
    }
    false
}

/// Returns true for values of CI that mean "yes"; same rule as in `cargo xtask test`.
fn is_ci(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| value == "true" || value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing() -> Need {
        Need::of(false, || "there is no Landlock".into())
    }

    #[test]
    fn a_met_need_runs_the_test_everywhere() {
        for ci in [None, Some("true".as_ref())] {
            assert!(decide("a::test", &Need::Met, ci, None));
        }
    }

    #[test]
    fn a_missing_layer_fails_the_test_under_ci() {
        for ci in ["true", "1"] {
            let failed =
                std::panic::catch_unwind(|| decide("a::test", &missing(), Some(ci.as_ref()), None))
                    .unwrap_err();
            let message = failed.downcast_ref::<String>().unwrap();
            assert!(
                message.contains("a::test") && message.contains("no Landlock"),
                "{message}"
            );
        }
    }

    #[test]
    fn a_missing_layer_is_reported_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("skipped");
        for ci in [None, Some("".as_ref()), Some("false".as_ref())] {
            assert!(!decide("a::test", &missing(), ci, Some(list.as_os_str())));
        }
        assert_eq!(
            std::fs::read_to_string(list).unwrap(),
            "skipped: a::test: there is no Landlock\n".repeat(3)
        );
    }

    #[test]
    fn a_program_that_is_not_installed_is_missing() {
        assert_eq!(Need::program("sh"), Need::Met);
        assert_eq!(
            Need::program("no-such-program"),
            Need::Missing("no-such-program is not installed".into())
        );
    }
}
