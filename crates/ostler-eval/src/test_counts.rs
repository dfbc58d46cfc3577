//! Test counts from the output of test runners.
//!
//! Known are cargo test, nextest, pytest, Jest and Vitest, `go test -v`, and JUnit XML files.
//! Output of anything else has no counts, which is not an error.

use quick_xml::events::{BytesStart, Event as XmlEvent};

/// Counts of a test run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TestCounts {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed or could not run.
    pub failed: u64,
    /// Tests that were skipped.
    pub skipped: u64,
}

impl TestCounts {
    fn add(&mut self, other: Self) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
        self.skipped = self.skipped.saturating_add(other.skipped);
    }
}

/// Returns the counts in the output of a test command, or `None` if no known runner wrote it.
#[must_use]
pub fn from_output(output: &str) -> Option<TestCounts> {
    let parsers: [fn(&str) -> Option<TestCounts>; 5] = [nextest, cargo, pytest, jest, go];
    parsers.into_iter().find_map(|parse| parse(output))
}

/// Returns the counts of a JUnit XML report: those of its outermost elements that have any.
#[must_use]
pub fn from_junit(xml: &str) -> Option<TestCounts> {
    let mut reader = quick_xml::Reader::from_str(xml);
    let mut sum: Option<TestCounts> = None;
    // Number of open elements below one that was counted.
    let mut counted = 0_u32;
    loop {
        match reader.read_event().ok()? {
            XmlEvent::Eof => return sum,
            XmlEvent::End(_) => counted = counted.saturating_sub(1),
            XmlEvent::Start(_) if counted > 0 => counted += 1,
            XmlEvent::Start(element) => {
                if let Some(counts) = suite(&element) {
                    sum.get_or_insert_default().add(counts);
                    counted = 1;
                }
            }
            XmlEvent::Empty(element) if counted == 0 => {
                if let Some(counts) = suite(&element) {
                    sum.get_or_insert_default().add(counts);
                }
            }
            _ => {}
        }
    }
}

/// Returns the counts of an element, if it is a suite and has them.
fn suite(element: &BytesStart<'_>) -> Option<TestCounts> {
    if !matches!(element.name().as_ref(), b"testsuites" | b"testsuite") {
        return None;
    }
    let get = |name: &str| {
        let attribute = element.try_get_attribute(name).ok()??;
        std::str::from_utf8(&attribute.value)
            .ok()?
            .parse::<u64>()
            .ok()
    };
    let total = get("tests")?;
    let failed = get("failures")
        .unwrap_or(0)
        .saturating_add(get("errors").unwrap_or(0));
    let skipped = get("skipped").or_else(|| get("disabled")).unwrap_or(0);
    Some(TestCounts {
        passed: total.saturating_sub(failed.saturating_add(skipped)),
        failed,
        skipped,
    })
}

/// `test result: ok. 5 passed; 1 failed; 2 ignored; …`, once per test program.
fn cargo(output: &str) -> Option<TestCounts> {
    let mut sum: Option<TestCounts> = None;
    for line in output.lines() {
        let Some((_, rest)) = line.split_once("test result: ") else {
            continue;
        };
        let rest = rest.split_once(". ").map_or(rest, |(_, rest)| rest);
        sum.get_or_insert_default().add(TestCounts {
            passed: count(rest, "passed")?,
            failed: count(rest, "failed")?,
            skipped: count(rest, "ignored").unwrap_or(0),
        });
    }
    sum
}

/// `Summary [ 1.2s] 5 tests run: 4 passed (1 slow), 1 failed, 2 skipped`.
fn nextest(output: &str) -> Option<TestCounts> {
    let line = output
        .lines()
        .rfind(|line| line.trim_start().starts_with("Summary [") && line.contains("run: "))?;
    let (_, rest) = line.split_once("run: ")?;
    let failed = count(rest, "failed").unwrap_or(0) + count(rest, "timed out").unwrap_or(0);
    Some(TestCounts {
        passed: count(rest, "passed").unwrap_or(0),
        failed: failed + count(rest, "exec failed").unwrap_or(0),
        skipped: count(rest, "skipped").unwrap_or(0),
    })
}

/// `==== 1 failed, 2 passed, 1 skipped, 1 error in 0.12s ====`, or the same without the rule.
fn pytest(output: &str) -> Option<TestCounts> {
    let line = output.lines().rfind(|line| {
        let text = line.trim_matches(['=', ' ']);
        let ends = text.rsplit_once(" in ").is_some_and(|(_, time)| {
            time.starts_with(|c: char| c.is_ascii_digit()) && time.contains('s')
        });
        ends && ["passed", "failed", "error", "skipped", "no tests ran"]
            .iter()
            .any(|word| text.contains(word))
    })?;
    let errors = count(line, "error").or_else(|| count(line, "errors"));
    Some(TestCounts {
        passed: count(line, "passed").unwrap_or(0) + count(line, "xpassed").unwrap_or(0),
        failed: count(line, "failed").unwrap_or(0) + errors.unwrap_or(0),
        skipped: count(line, "skipped").unwrap_or(0) + count(line, "xfailed").unwrap_or(0),
    })
}

/// Jest: `Tests: 1 failed, 2 passed, 3 total`; Vitest: `Tests  1 failed | 2 passed (3)`.
fn jest(output: &str) -> Option<TestCounts> {
    let line = output.lines().rfind(|line| {
        let text = line.trim_start();
        text.starts_with("Tests:") || text.starts_with("Tests  ")
    })?;
    let found = ["passed", "failed", "skipped", "todo"].map(|word| count(line, word));
    let [passed, failed, skipped, todo] = found;
    found.iter().any(Option::is_some).then(|| TestCounts {
        passed: passed.unwrap_or(0),
        failed: failed.unwrap_or(0),
        skipped: skipped.unwrap_or(0) + todo.unwrap_or(0),
    })
}

/// `--- PASS: TestX (0.00s)`: top-level tests only; subtests are indented.
fn go(output: &str) -> Option<TestCounts> {
    let mut sum: Option<TestCounts> = None;
    for line in output.lines() {
        let field: fn(&mut TestCounts) -> &mut u64 = if line.starts_with("--- PASS: ") {
            |counts| &mut counts.passed
        } else if line.starts_with("--- FAIL: ") {
            |counts| &mut counts.failed
        } else if line.starts_with("--- SKIP: ") {
            |counts| &mut counts.skipped
        } else {
            continue;
        };
        *field(sum.get_or_insert_default()) += 1;
    }
    sum
}

/// Returns the number before a word: `3 passed`.
fn count(text: &str, word: &str) -> Option<u64> {
    text.match_indices(word).find_map(|(at, _)| {
        let after = text[at + word.len()..].chars().next();
        if after.is_some_and(char::is_alphanumeric) {
            return None;
        }
        let before = text[..at].strip_suffix(' ')?;
        let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        before[before.len() - digits..].parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, skipped: u64) -> Option<TestCounts> {
        Some(TestCounts {
            passed,
            failed,
            skipped,
        })
    }

    #[test]
    fn known_runners_are_read() {
        for (output, expected) in [
            ("", None),
            ("all good: 5 passed", None),
            (
                "running 2 tests\ntest result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 \
                 filtered out; finished in 0.00s\n\ntest result: FAILED. 1 passed; 2 failed; 0 \
                 ignored; 0 measured",
                counts(6, 2, 1),
            ),
            (
                "────\n     Summary [   2.986s] 18 tests run: 15 passed (2 slow), 2 failed, 1 timed \
                 out, 4 skipped\n",
                counts(15, 3, 4),
            ),
            (
                "=== short test summary info ===\nFAILED a.py::b\n==== 1 failed, 2 passed, 1 \
                 skipped, 3 errors in 0.12s ====",
                counts(2, 4, 1),
            ),
            ("2 passed in 0.01s", counts(2, 0, 0)),
            ("==== no tests ran in 0.00s ====", counts(0, 0, 0)),
            (
                "Test Suites: 1 failed, 1 total\nTests:       1 failed, 1 skipped, 2 passed, 4 \
                 total\n",
                counts(2, 1, 1),
            ),
            (
                " Test Files  1 passed (1)\n      Tests  3 passed | 1 todo (4)\n",
                counts(3, 0, 1),
            ),
            (
                "=== RUN TestA\n    --- FAIL: TestA/sub (0.00s)\n--- FAIL: TestA (0.00s)\n--- PASS: \
                 TestB (0.00s)\n--- SKIP: TestC (0.00s)\nFAIL\n",
                counts(1, 1, 1),
            ),
        ] {
            assert_eq!(from_output(output), expected, "{output}");
        }
    }

    #[test]
    fn junit_reports_are_read() {
        for (xml, expected) in [
            ("<x/>", None),
            (
                r#"<?xml version="1.0"?><testsuites tests="4" failures="1"><testsuite tests="4"
                failures="1" errors="1" skipped="1"></testsuite></testsuites>"#,
                counts(3, 1, 0),
            ),
            (
                "<testsuites><testsuite name='a>b' tests='2' errors='1'/><testsuite tests='3' \
                 skipped='1'><testcase tests='9'/></testsuite></testsuites>",
                counts(3, 1, 1),
            ),
        ] {
            assert_eq!(from_junit(xml), expected, "{xml}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_parsed(text in "(?s)(\\PC|<testsuite |Tests: |test result: ){0,60}") {
            let _ = (from_output(&text), from_junit(&text));
        }
    }
}
