//! Labels: short names and values by which callers group sessions.

use std::collections::BTreeMap;

use super::SpecError;

/// Prefix of the variables that carry labels.
const PREFIX: &str = "OSTLER_LABEL_";

/// Maximum number of labels.
const MAX_LABELS: usize = 64;

/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 64;

/// Maximum length of a value, in bytes.
const MAX_VALUE: usize = 1024;

/// Returns the environment variable that carries a label: `campaign-id` is in
/// `OSTLER_LABEL_CAMPAIGN_ID`.
#[must_use]
pub fn label_variable(name: &str) -> String {
    let name = name.to_ascii_uppercase().replace(['-', '.'], "_");
    format!("{PREFIX}{name}")
}

/// Checks names and values.
///
/// # Errors
/// If there are too many labels; if a name is empty, too long, or contains anything but letters,
/// digits, `_`, `-` and `.`; if two names have the same variable; or if a value is too long or
/// contains a control character.
pub fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), SpecError> {
    let fail = |value: &str, why: String| Err(SpecError::new("label", value, why));
    if labels.len() > MAX_LABELS {
        return fail("", format!("at most {MAX_LABELS} labels are allowed"));
    }
    let mut variables = BTreeMap::new();
    for (name, value) in labels {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_allowed) {
            let why =
                format!("expected a name of at most {MAX_NAME} letters, digits, `_`, `-` and `.`");
            return fail(name, why);
        }
        if value.len() > MAX_VALUE || value.contains(char::is_control) {
            let why =
                format!("expected a value of at most {MAX_VALUE} bytes without control characters");
            return fail(name, why);
        }
        if let Some(other) = variables.insert(label_variable(name), name) {
            let variable = label_variable(name);
            return fail(
                name,
                format!("it has the same variable as {other:?}: {variable}"),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(labels: &[(&str, &str)]) -> Result<(), String> {
        let labels = labels.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        check_labels(&labels.collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn names_and_values_are_limited() {
        let (long, longer) = ("n".repeat(64), "n".repeat(65));
        for good in [
            &[("campaign-id", "42"), ("Team.A_1", "a b é")][..],
            &[("x", ""), (&long, "")],
        ] {
            assert_eq!(check(good), Ok(()));
        }
        let value = "v".repeat(1025);
        for bad in [
            &[("", "v")][..],
            &[("a b", "v")],
            &[("a=b", "v")],
            &[("é", "v")],
            &[(&longer, "v")],
            &[("a", "line\nbreak")],
            &[("a", "\0")],
            &[("a", &value)],
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            check(&[("a-b", ""), ("a_b", "")]).unwrap_err(),
            "label = \"a_b\": it has the same variable as \"a-b\": OSTLER_LABEL_A_B"
        );
        let many: BTreeMap<_, _> = (0..65).map(|n| (format!("l{n}"), String::new())).collect();
        assert!(check_labels(&many).is_err());
    }

    #[test]
    fn variables_are_portable_names() {
        assert_eq!(label_variable("campaign-id"), "OSTLER_LABEL_CAMPAIGN_ID");
        assert_eq!(label_variable("a.B_c"), "OSTLER_LABEL_A_B_C");
    }
}
