//! Names of cases, contenders and evaluators as names of files.

/// Returns a name as one that every file system accepts.
pub(crate) fn file_name(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let plain: String = name
        .chars()
        .map(|letter| if is_plain(letter) { letter } else { '_' })
        .collect();
    if plain == name && !name.starts_with('.') {
        return plain;
    }
    // Different names stay different.
    format!("{plain}-{}", &crate::identity::sha256(name)[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_file_names_that_stay_different() {
        assert_eq!(file_name("parser-1.2_x"), "parser-1.2_x");
        let (slash, colon) = (file_name("a/b"), file_name("a:b"));
        assert!(slash.starts_with("a_b-") && slash != colon);
        assert!(!file_name("..").starts_with("..") || file_name("..") != "..");
    }
}
