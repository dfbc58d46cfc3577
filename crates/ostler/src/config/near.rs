//! What may have been meant by a word that is not known.

/// How alike two words must be for one to be offered in place of the other.
const ALIKE: f64 = 0.75;

/// The longest word that is compared: a longer one is near to none.
const LONGEST: usize = 100;

/// `did you mean …?` with the nearest words, or all of them when none is near.
pub(super) fn instead(word: &str, known: &[&str]) -> String {
    let word = &word[..word.floor_char_boundary(LONGEST)];
    let plain = word.to_lowercase().replace('-', "_");
    let score = |known: &str| strsim::jaro_winkler(&plain, &known.to_lowercase().replace('-', "_"));
    let mut near: Vec<(f64, &str)> = known.iter().map(|known| (score(known), *known)).collect();
    near.retain(|(score, _)| *score >= ALIKE);
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    match near.as_slice() {
        [] => format!("there are: {}", known.join(", ")),
        near => {
            let words: Vec<&str> = near.iter().take(2).map(|(_, word)| *word).collect();
            format!("did you mean {}?", words.join(" or "))
        }
    }
}
