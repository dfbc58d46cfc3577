//! Module docs: every Rust file begins with a `//!` sentence.

use super::Finding;
use super::tree::Tree;

const FEWEST_WORDS: usize = 4;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|(_, text)| {
            let sentence = text.lines().map_while(|line| line.strip_prefix("//!"));
            sentence.flat_map(str::split_whitespace).count() < FEWEST_WORDS
        })
        .map(|(path, _)| {
            Finding::new(
                path,
                1,
                "no module docs (begin the file with a `//!` sentence)",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_sentence_is_found() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "//! Says what it is for.\n"),
            ("crates/a/src/late.rs", "use x;\n//! Says what it is for.\n"),
            ("crates/a/src/short.rs", "//! Being written\n"),
        ]);
        let paths: Vec<_> = check(&tree)
            .into_iter()
            .map(|finding| finding.path)
            .collect();
        assert_eq!(paths, ["crates/a/src/late.rs", "crates/a/src/short.rs"]);
    }
}
