//! Names of agents, read from their manifests in `ostler-agents`.

use super::tree::Tree;

/// Folder of the manifests.
pub(super) const MANIFESTS: &str = "crates/ostler-agents/agents/";

/// Returns the name of every agent that is a program of another vendor.
///
/// The names of agents that are part of Ostler are ordinary words, and are left out.
pub(super) fn agent_names(tree: &Tree) -> Vec<String> {
    let manifests = tree.iter().filter_map(|(path, text)| {
        let name = path
            .strip_prefix(MANIFESTS)?
            .strip_suffix("/manifest.toml")?;
        Some((name, text.parse::<toml::Table>().ok()?))
    });
    manifests
        .filter(|(_, manifest)| manifest.contains_key("install"))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Returns true if an identifier or a text contains a name as whole words: `pi` is in `PiThing` and
/// `run_pi`, but not in `pipe`.
pub(super) fn contains_name(text: &str, name: &str) -> bool {
    let (all, name) = (words(text), words(name));
    all.windows(name.len()).any(|part| part == name)
}

/// Splits at anything that is not a letter or a digit, and before a capital after a small letter.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut was_small) = (vec![String::new()], false);
    for sign in text.chars() {
        let starts = sign.is_uppercase() && was_small;
        if starts || !sign.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| sign.is_alphanumeric()) {
            word.extend(sign.to_lowercase());
        }
        was_small = sign.is_lowercase() || sign.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn names_come_from_manifests_with_a_program() {
        let names = agent_names(&Tree::of(&[
            (&format!("{MANIFESTS}one/manifest.toml"), "[install]"),
            (&format!("{MANIFESTS}own/manifest.toml"), "group = \"own\""),
            (&format!("{MANIFESTS}two/package-lock.json"), "{}"),
        ]));
        assert_eq!(names, ["one"]);
    }

    #[test]
    fn every_agent_has_a_manifest() {
        let names = agent_names(&Tree::read(workspace::root()).unwrap());
        for name in ["claude", "codex-acp", "goose"] {
            assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
        }
    }

    #[test]
    fn a_name_is_found_as_whole_words_in_any_case() {
        for text in ["PiThing", "run_pi", "PI", "a pi!", "startPi"] {
            assert!(contains_name(text, "pi"), "{text}");
        }
        for text in ["pipe", "spin", "Pipe", "rapid_pipes", ""] {
            assert!(!contains_name(text, "pi"), "{text}");
        }
        assert!(contains_name("CodexAcp", "codex-acp") && !contains_name("Codex", "codex-acp"));
    }
}
