//! Extra arguments that a caller passes through to an agent's program, unless they break the
//! contract.

use ostler_core::spec::SpecError;

/// Number of values a flag can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// At most one.
    One,
    /// Any number.
    Many,
}

/// Checks extra arguments. A bare word is accepted only where it can be the value of a flag:
/// anywhere else it would be a prompt or a subcommand.
///
/// # Errors
/// Returns an error that names the first argument that Ostler sets itself (`reserved`), that is not
/// a flag, or that cannot be passed at all.
pub(crate) fn check(extra: &[String], reserved: &[&str], values: Values) -> Result<(), SpecError> {
    let error = |arg: &str, why: &str| Err(SpecError::new("extra args", arg, why));
    let mut takes_value = false;
    for arg in extra {
        let (is_flag, name) = (
            arg.starts_with('-'),
            arg.split_once('=').map_or(arg.as_str(), |(name, _)| name),
        );
        if reserved.contains(&name) {
            return error(
                arg,
                "reserved: Ostler sets it, or could not talk to the agent with it",
            );
        }
        if arg.contains('\0') {
            return error(arg, "a NUL character cannot be passed to a program");
        }
        if !is_flag && !takes_value {
            return error(arg, "expected a flag; a prompt goes to the agent's stdin");
        }
        takes_value = if is_flag {
            !arg.contains('=')
        } else {
            values == Values::Many
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_words_are_flag_values_or_rejected() {
        use Values::{Many, One};
        let table: &[(&[&str], Values, bool)] = &[
            (&[], One, true),
            (&["--flag", "value", "--other=x"], One, true),
            (&["--flag", "value", "prompt"], One, false),
            (&["--flag", "value", "value"], Many, true),
            (&["--flag=value", "prompt"], Many, false),
            (&["prompt"], Many, false),
            (&["--ours"], Many, false),
            (&["--ours=x"], One, false),
            (&["--flag", "a\0b"], One, false),
        ];
        for (extra, values, accepted) in table {
            let extra: Vec<String> = extra.iter().map(|arg| (*arg).to_owned()).collect();
            assert_eq!(
                check(&extra, &["--ours"], *values).is_ok(),
                *accepted,
                "{extra:?} {values:?}"
            );
        }
    }
}
