//! Module tree of each target, found by following `mod` declarations from the target's root file.

use std::collections::{BTreeMap, BTreeSet};

use super::test_items::split_tests;
use super::tokens::{Kind, Token, tokens};
use super::tree::Tree;

/// A file as a module of a target.
pub(super) struct Module {
    pub(super) file: String,
    /// The root file of the target.
    pub(super) root: String,
    /// Module path from the root; empty for the root itself.
    pub(super) path: Vec<String>,
    /// Whether it is compiled for tests only: `#[cfg(test)] mod`, or in tests, benches, examples.
    pub(super) is_test: bool,
    /// Tokens outside of items under `#[cfg(test)]`.
    pub(super) tokens: Vec<Token>,
}

/// All modules that a root reaches.
pub(super) struct Modules {
    pub(super) all: Vec<Module>,
}

impl Modules {
    pub(super) fn of(tree: &Tree) -> Self {
        let mut modules = Self { all: Vec::new() };
        for (folder, manifest) in tree.manifests() {
            for root in roots(tree, folder, manifest) {
                let is_test = !root[folder.len()..].starts_with("/src/");
                let module = Location {
                    file: root.clone(),
                    root,
                    path: Vec::new(),
                    is_test,
                };
                modules.follow(tree, module);
            }
        }
        modules
    }

    pub(super) fn files(&self) -> BTreeSet<&str> {
        self.all.iter().map(|module| module.file.as_str()).collect()
    }

    /// Returns the modules of product code by file: files that some target uses outside of tests.
    pub(super) fn product(&self) -> BTreeMap<&str, &Module> {
        let product = self.all.iter().filter(|module| !module.is_test);
        product
            .map(|module| (module.file.as_str(), module))
            .collect()
    }

    fn follow(&mut self, tree: &Tree, location: Location) {
        let Some(text) = tree.get(&location.file) else {
            return;
        };
        let known = |module: &Module| module.file == location.file && module.root == location.root;
        if self.all.iter().any(known) {
            return;
        }
        let (product, tests) = split_tests(&tokens(text));
        let declared = declarations(&product)
            .into_iter()
            .map(|found| (found, location.is_test));
        let declared: Vec<_> = declared
            .chain(
                declarations(&tests.concat())
                    .into_iter()
                    .map(|found| (found, true)),
            )
            .collect();
        let Location {
            file,
            root,
            path,
            is_test,
        } = location;
        let folder = module_folder(&file, &root);
        self.all.push(Module {
            file,
            root: root.clone(),
            path: path.clone(),
            is_test,
            tokens: product,
        });
        for (found, is_test) in declared {
            for file in found.candidates(&folder) {
                let path = path.iter().chain(&found.names).cloned().collect();
                self.follow(
                    tree,
                    Location {
                        file,
                        root: root.clone(),
                        path,
                        is_test,
                    },
                );
            }
        }
    }
}

/// A file to follow, as a module of a target.
struct Location {
    file: String,
    root: String,
    path: Vec<String>,
    is_test: bool,
}

/// A `mod name;`, with the inline modules around it.
#[derive(Debug, PartialEq)]
struct Declaration {
    names: Vec<String>,
    /// Paths given by `#[path = "…"]`.
    at: Vec<String>,
}

impl Declaration {
    fn candidates(&self, folder: &str) -> Vec<String> {
        let stem = format!("{folder}/{}", self.names.join("/"));
        let mut files = vec![format!("{stem}.rs"), format!("{stem}/mod.rs")];
        let beside = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
        for path in &self.at {
            files.extend([format!("{folder}/{path}"), format!("{beside}/{path}")]);
        }
        files
    }
}

/// Returns the root files of the targets that cargo builds.
fn roots(tree: &Tree, folder: &str, manifest: &str) -> Vec<String> {
    let named: BTreeSet<String> = manifest
        .lines()
        .filter_map(|line| {
            line.trim()
                .strip_prefix("path")?
                .trim()
                .strip_prefix('=')?
                .trim()
                .strip_prefix('"')?
                .strip_suffix('"')
        })
        .map(|path| format!("{folder}/{path}"))
        .collect();
    let is_root = |path: &str| {
        let Some(rest) = path
            .strip_prefix(folder)
            .and_then(|rest| rest.strip_prefix('/'))
        else {
            return false;
        };
        let parts: Vec<&str> = rest.split('/').collect();
        matches!(
            parts.as_slice(),
            ["build.rs"]
                | ["src", "lib.rs" | "main.rs"]
                | ["src", "bin", _]
                | ["src", "bin", _, "main.rs"]
                | ["tests" | "examples" | "benches", _]
                | ["tests" | "examples" | "benches", _, "main.rs"]
        ) || named.contains(path)
    };
    tree.rust()
        .map(|(path, _)| path)
        .filter(|path| is_root(path))
        .map(str::to_owned)
        .collect()
}

/// Returns the folder that holds the submodules of a file.
fn module_folder(file: &str, root: &str) -> String {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    if file == root || name == "mod.rs" {
        folder.to_owned()
    } else {
        file.trim_end_matches(".rs").to_owned()
    }
}

/// Returns every `mod name;` in these tokens.
fn declarations(all: &[Token]) -> Vec<Declaration> {
    let mut found = Vec::new();
    let mut inline: Vec<(String, usize)> = Vec::new();
    let mut depth = 0_usize;
    let mut at_paths: Vec<String> = Vec::new();
    for (at, token) in all.iter().enumerate() {
        match &token.kind {
            Kind::Sign('{') => depth += 1,
            Kind::Sign('}') => {
                depth = depth.saturating_sub(1);
                inline.retain(|(_, opened)| *opened < depth + 1);
                at_paths.clear();
            }
            Kind::Sign(';') => at_paths.clear(),
            Kind::Word(word) if word == "path" => {
                if let [
                    equals,
                    Token {
                        kind: Kind::Text(path),
                        ..
                    },
                    ..,
                ] = &all[at + 1..]
                    && equals.is('=')
                {
                    at_paths.push(path.clone());
                }
            }
            Kind::Word(word) if word == "mod" => {
                let [name, after, ..] = &all[at + 1..] else {
                    continue;
                };
                let Some(name) = name.word() else { continue };
                if after.is('{') {
                    inline.push((name.to_owned(), depth + 1));
                } else if after.is(';') {
                    let names = inline
                        .iter()
                        .map(|(name, _)| name.clone())
                        .chain([name.to_owned()]);
                    found.push(Declaration {
                        names: names.collect(),
                        at: std::mem::take(&mut at_paths),
                    });
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_followed_from_the_root() {
        let tree = Tree::of(&[
            ("crates/a/Cargo.toml", "[package]"),
            (
                "crates/a/src/lib.rs",
                "mod b; mod inline { mod deep; } #[cfg(test)] mod tests;\n#[cfg_attr(unix, path = \"unix.rs\")] mod os;",
            ),
            ("crates/a/src/b.rs", "mod c;"),
            ("crates/a/src/b/c.rs", ""),
            ("crates/a/src/inline/deep.rs", ""),
            ("crates/a/src/tests.rs", ""),
            ("crates/a/src/unix.rs", ""),
            ("crates/a/src/lost.rs", ""),
        ]);
        let modules = Modules::of(&tree);
        let seen: Vec<_> = modules
            .all
            .iter()
            .map(|m| (m.path.join("::"), m.is_test))
            .collect();
        let expected = [
            ("", false),
            ("b", false),
            ("b::c", false),
            ("inline::deep", false),
            ("os", false),
            ("tests", true),
        ];
        assert_eq!(
            seen,
            expected.map(|(path, is_test)| (path.to_owned(), is_test))
        );
    }
}
