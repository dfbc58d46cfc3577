//! Dead files: `mod` declarations reach every Rust file from a target that cargo builds.

use super::Finding;
use super::modules::Modules;
use super::tree::Tree;

pub(super) fn check(tree: &Tree, modules: &Modules) -> Vec<Finding> {
    let reached = modules.files();
    tree.rust()
        .filter(|(path, _)| !reached.contains(path))
        .map(|(path, _)| {
            Finding::new(
                path,
                1,
                "no target reaches this file (declare it with `mod`, or delete it)",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undeclared_file_is_found() {
        let tree = Tree::of(&[
            (
                "crates/a/Cargo.toml",
                "[[bin]]\nname = \"x\"\npath = \"programs/x.rs\"",
            ),
            ("crates/a/src/lib.rs", "mod b;"),
            ("crates/a/src/b.rs", "// mod lost;"),
            ("crates/a/src/lost.rs", ""),
            ("crates/a/programs/x.rs", ""),
            ("crates/a/tests/it/main.rs", "mod real;"),
            ("crates/a/tests/it/real.rs", ""),
            ("crates/a/examples/hello.rs", ""),
            ("crates/a/tests/fixtures/data.rs", ""),
        ]);
        let found = check(&tree, &Modules::of(&tree));
        assert_eq!(
            found.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(),
            ["crates/a/src/lost.rs"]
        );
    }
}
