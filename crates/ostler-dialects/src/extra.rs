//! Arguments that a caller passes on to an agent's program as they are, unless they break the contract.

use ostler_core::spec::SpecError;

/// How many words a flag can have behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// One at most.
    One,
    /// Any number.
    Many,
}

/// Checks extra arguments. A bare word is only let through where it can be the value of a flag: anywhere else it would be a
/// prompt or a subcommand.
///
/// # Errors
/// Names the argument that Ostler sets itself (`reserved`), that is no flag, or that cannot be passed at all.
pub(crate) fn check(extra: &[String], reserved: &[&str], values: Values) -> Result<(), SpecError> {
    let fault = |arg: &str, why: &str| Err(SpecError::new("extra args", arg, why));
    let mut takes_value = false;
    for arg in extra {
        let (is_flag, name) = (
            arg.starts_with('-'),
            arg.split_once('=').map_or(arg.as_str(), |(name, _)| name),
        );
        if reserved.contains(&name) {
            return fault(
                arg,
                "Ostler sets this itself, or could not talk to the agent with it",
            );
        }
        if arg.contains('\0') {
            return fault(arg, "a NUL character cannot be passed to a program");
        }
        if !is_flag && !takes_value {
            return fault(arg, "expected a flag; a prompt goes to the agent's stdin");
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
    fn a_bare_word_is_the_value_of_a_flag_or_refused() {
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
        for (extra, values, good) in table {
            let extra: Vec<String> = extra.iter().map(|arg| (*arg).to_owned()).collect();
            assert_eq!(
                check(&extra, &["--ours"], *values).is_ok(),
                *good,
                "{extra:?} {values:?}"
            );
        }
    }
}
