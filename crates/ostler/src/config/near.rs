//! What may have been meant by a word that is not known.

/// How alike two words must be for one to be offered in place of the other.
const ALIKE: f64 = 0.75;

/// The longest word that is compared: a longer one is near to none.
const LONGEST: usize = 100;

/// Maximum number of words that are offered.
const OFFERED: usize = 2;

/// The known words that resemble this one, the most similar first; at most two.
#[must_use]
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Vec<&'a str> {
    let word = &word[..word.floor_char_boundary(LONGEST)];
    let plain = word.to_lowercase().replace('-', "_");
    let score = |known: &str| {
        let known = known.to_lowercase().replace('-', "_");
        // A slip of the finger, two letters swapped for example, weighs little, however short the word.
        let is_slip = plain.chars().count() > 2 && strsim::osa_distance(&plain, &known) == 1;
        let alike = strsim::jaro_winkler(&plain, &known);
        if is_slip { alike.max(0.9) } else { alike }
    };
    let mut near: Vec<(f64, &str)> = known.iter().map(|known| (score(known), *known)).collect();
    near.retain(|(score, _)| *score >= ALIKE);
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter()
        .take(OFFERED)
        .map(|(_, word)| word)
        .collect()
}

/// `did you mean …?` with the nearest words, or all of them when none is near.
pub(super) fn instead(word: &str, known: &[&str]) -> String {
    match nearest(word, known)[..] {
        [] => format!("there are: {}", known.join(", ")),
        ref near => format!("did you mean {}?", near.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_another_word_is_not() {
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
