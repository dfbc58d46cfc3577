//! Suggestions for unknown words.

/// Minimum similarity for a suggestion.
const MIN_SIMILARITY: f64 = 0.75;

/// Maximum length of a compared word. Longer ones get no suggestion.
const MAX_LENGTH: usize = 100;

/// Maximum number of suggestions.
const MAX_SUGGESTIONS: usize = 2;

/// Returns the known words that resemble this one, most similar first; at most two.
#[must_use]
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Vec<&'a str> {
    let word = &word[..word.floor_char_boundary(MAX_LENGTH)];
    let plain = word.to_lowercase().replace('-', "_");
    let score = |known: &str| {
        let known = known.to_lowercase().replace('-', "_");
        // A single typo, such as two swapped letters, is close however short the word is.
        let is_slip = plain.chars().count() > 2 && strsim::osa_distance(&plain, &known) == 1;
        let alike = strsim::jaro_winkler(&plain, &known);
        if is_slip { alike.max(0.9) } else { alike }
    };
    let mut near: Vec<(f64, &str)> = known.iter().map(|known| (score(known), *known)).collect();
    near.retain(|(score, _)| *score >= MIN_SIMILARITY);
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter()
        .take(MAX_SUGGESTIONS)
        .map(|(_, word)| word)
        .collect()
}

/// Returns `did you mean …?` with the nearest words, or the list of all words if none is near.
#[must_use]
pub fn suggestion(word: &str, known: &[&str]) -> String {
    match nearest(word, known)[..] {
        [] => format!("known: {}", known.join(", ")),
        ref near => format!("did you mean {}?", near.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typo_is_near_and_another_word_is_not() {
        let verbs = [
            "run", "chat", "loop", "doctor", "replay", "sessions", "policy",
        ];
        let cases = [
            ("rnu", "run"),
            ("rn", ""),
            ("docto", "doctor"),
            ("polcy", "policy"),
            ("sesions", "sessions"),
        ];
        for (typed, meant) in cases {
            assert_eq!(
                nearest(typed, &verbs).first().copied().unwrap_or(""),
                meant,
                "{typed}"
            );
        }
        for typed in ["", "version", "list", "login", "x"] {
            assert_eq!(nearest(typed, &verbs), [""; 0], "{typed}");
        }
    }
}
