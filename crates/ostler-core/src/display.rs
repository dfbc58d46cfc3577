//! Display forms shared by all commands: short session ids and costs.

use crate::usage::CostSource;

/// Length of a short id, in characters.
const SHORT_ID: usize = 8;

/// Returns the first characters of a session id. Lists and summaries print this form, and every
/// command accepts it.
#[must_use]
pub fn short_id(session: &str) -> &str {
    session
        .char_indices()
        .nth(SHORT_ID)
        .map_or(session, |(end, _)| &session[..end])
}

/// Formats a cost: `$0.0120`, `~$0.0120` if it is estimated, `≥ $0.0120` if part of it is unknown.
#[must_use]
pub fn cost(usd: f64, source: CostSource) -> String {
    match source {
        CostSource::Reported => format!("${usd:.4}"),
        CostSource::Estimated => format!("~${usd:.4}"),
        CostSource::Partial | CostSource::Unknown => format!("≥ ${usd:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_cut_at_characters_and_costs_show_their_source() {
        assert_eq!(short_id("0f8fad5b-d9cb-469f-a165-70867728950e"), "0f8fad5b");
        assert_eq!(
            (short_id("abc"), short_id("éééééééééé")),
            ("abc", "éééééééé")
        );
        assert_eq!(cost(0.012, CostSource::Partial), "≥ $0.0120");
        assert_eq!(cost(0.012, CostSource::Estimated), "~$0.0120");
        assert_eq!(cost(1.5, CostSource::Reported), "$1.5000");
    }
}
