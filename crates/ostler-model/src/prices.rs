//! Token prices: set by the caller, or from the list below for OpenAI's own server.
//!
//! The list goes out of date. A model that is not listed has no price, and its cost is unknown
//! rather than guessed from a similar name. Only a listed name followed by a date counts as the
//! same model.

use ostler_core::spec::InvalidValue;
use ostler_core::usage::Tokens;

/// Price in dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    input: f64,
    cached: f64,
    output: f64,
}

/// OpenAI's models as of August 2025: list prices for text in dollars per million tokens (input,
/// cached input, output), and the context window in tokens.
const MODELS: &[(&str, [f64; 3], u64)] = &[
    ("gpt-5", [1.25, 0.125, 10.0], 400_000),
    ("gpt-5-mini", [0.25, 0.025, 2.0], 400_000),
    ("gpt-5-nano", [0.05, 0.005, 0.4], 400_000),
    ("gpt-4.1", [2.0, 0.5, 8.0], 1_047_576),
    ("gpt-4.1-mini", [0.4, 0.1, 1.6], 1_047_576),
    ("gpt-4.1-nano", [0.1, 0.025, 0.4], 1_047_576),
    ("gpt-4o", [2.5, 1.25, 10.0], 128_000),
    ("gpt-4o-mini", [0.15, 0.075, 0.6], 128_000),
    ("o3", [2.0, 0.5, 8.0], 200_000),
    ("o4-mini", [1.1, 0.275, 4.4], 200_000),
];

impl Price {
    fn new([input, cached, output]: [f64; 3]) -> Self {
        Self {
            input,
            cached,
            output,
        }
    }

    /// Parses `input/output` or `input/cached/output`.
    ///
    /// # Errors
    /// Returns the expected form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let number = |part: &str| {
            part.trim()
                .parse::<f64>()
                .ok()
                .filter(|n| n.is_finite() && *n >= 0.0)
        };
        let parts: Option<Vec<f64>> = text.split('/').map(number).collect();
        match parts.as_deref() {
            Some(&[input, output]) => Ok(Self::new([input, input, output])),
            Some(&[input, cached, output]) => Ok(Self::new([input, cached, output])),
            _ => Err(InvalidValue(
                "expected dollars per million tokens as input/output or input/cached/output: \
                2.5/1.25/10"
                    .into(),
            )),
        }
    }

    /// Returns the list price of an OpenAI model.
    pub fn listed(model: &str) -> Option<Self> {
        find(model).map(|(_, prices, _)| Self::new(*prices))
    }

    /// Returns the cost of the tokens. Tokens written to a cache cost as much as other input.
    #[expect(
        clippy::cast_precision_loss,
        reason = "token counts are far below 2^53"
    )]
    pub(crate) fn of(&self, tokens: &Tokens) -> f64 {
        let part = |count: u64, price: f64| count as f64 * price / 1e6;
        part(tokens.input, self.input)
            + part(tokens.cache_write, self.input)
            + part(tokens.cache_read, self.cached)
            + part(tokens.output, self.output)
    }
}

/// Returns the context window of an OpenAI model.
pub(crate) fn window(model: &str) -> Option<u64> {
    find(model).map(|(_, _, window)| *window)
}

fn find(model: &str) -> Option<&'static (&'static str, [f64; 3], u64)> {
    let same = |name: &str| {
        let rest = model.strip_prefix(name)?;
        let date = rest
            .strip_prefix('-')
            .is_some_and(|d| d.len() >= 8 && d.bytes().all(|b| b.is_ascii_digit() || b == b'-'));
        (rest.is_empty() || date).then_some(())
    };
    MODELS.iter().find(|(name, ..)| same(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_known_or_absent() {
        assert!(Price::listed("gpt-4o").is_some());
        assert_eq!(Price::listed("gpt-4o-2024-08-06"), Price::listed("gpt-4o"));
        for unknown in [
            "gpt-4o-audio-preview",
            "gpt-4",
            "o3-pro",
            "llama3",
            "gpt-4o-mini-tts",
            "",
        ] {
            assert_eq!(Price::listed(unknown), None, "{unknown}");
        }
        assert_eq!(window("gpt-4.1-2025-04-14"), Some(1_047_576));
    }

    #[test]
    fn cached_tokens_have_a_separate_price() {
        let price = Price::parse("2/0.5/8").unwrap();
        let tokens = Tokens {
            input: 1_000_000,
            cache_read: 2_000_000,
            output: 500_000,
            ..Tokens::default()
        };
        assert!((price.of(&tokens) - 7.0).abs() < 1e-9);
        assert_eq!(Price::parse("2/8"), Price::parse("2/2/8"));
        for bad in ["", "2", "a/b", "1/2/3/4", "-1/2", "NaN/1"] {
            assert!(Price::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_kind_of_token_has_a_price() {
        let price = Price::parse("2/0.5/8").unwrap();
        let million = 1_000_000;
        let none = Tokens::default();
        for (tokens, dollars) in [
            (none, 0.0),
            (
                Tokens {
                    input: million,
                    ..none
                },
                2.0,
            ),
            (
                Tokens {
                    cache_read: million,
                    ..none
                },
                0.5,
            ),
            (
                Tokens {
                    cache_write: million,
                    ..none
                },
                2.0,
            ),
            (
                Tokens {
                    output: million,
                    ..none
                },
                8.0,
            ),
            (
                Tokens {
                    output: million,
                    reasoning: Some(million),
                    ..none
                },
                8.0,
            ),
        ] {
            assert!((price.of(&tokens) - dollars).abs() < 1e-9, "{tokens:?}");
        }
        let free = Price::parse(" 0 / 0 ").unwrap();
        assert!(
            free.of(&Tokens {
                input: million,
                ..none
            })
            .abs()
                < 1e-9
        );
    }

    #[test]
    fn only_a_date_may_follow_a_listed_name() {
        let listed = Price::listed("o3");
        let million = Tokens {
            input: 1_000_000,
            ..Tokens::default()
        };
        assert!((listed.unwrap().of(&million) - 2.0).abs() < 1e-9);
        for (model, same) in [
            ("o3-20250416", true),
            ("o3-2025-04-16", true),
            ("o3-2025041", false),
            ("o3-2025041x", false),
            ("o3-", false),
            ("o320250416", false),
            ("xo3", false),
        ] {
            assert_eq!(Price::listed(model).is_some(), same, "{model}");
            assert_eq!(window(model), same.then_some(200_000), "{model}");
        }
    }

    #[test]
    fn every_priced_model_has_a_window() {
        for (model, ..) in MODELS {
            assert!(window(model).is_some(), "{model}");
        }
    }
}
