//! Permission requests: how a denial is reported.

use ostler_core::event::{DecidedBy, Decision, Permission};
use ostler_core::permission::{UNATTENDED_DENIAL, Verdict};

/// Denial message for a request that does not name its tool call.
pub(crate) const UNCLEAR: &str = "Denied: the permission request does not say what it is about.";

/// Returns the reason that the agent gets if the verdict does not allow a call.
pub(crate) fn reason(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Deny(why) if why.is_empty() => "Denied.",
        Verdict::Deny(why) => why,
        _ => UNATTENDED_DENIAL,
    }
}

/// Returns the event of a call that was denied without asking.
pub(crate) fn denied(by: DecidedBy, id: String, tool: String) -> Permission {
    Permission {
        id,
        tool,
        kind: None,
        input: None,
        decision: Decision::Denied,
        by,
        message: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_always_has_a_reason() {
        for (verdict, why) in [
            (Verdict::Deny("a rule".to_owned()), "a rule"),
            (Verdict::Deny(String::new()), "Denied."),
            (Verdict::Undecided, UNATTENDED_DENIAL),
            (Verdict::Allow, UNATTENDED_DENIAL),
        ] {
            assert_eq!(reason(&verdict), why);
        }
    }
}
