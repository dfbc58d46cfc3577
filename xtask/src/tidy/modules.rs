//! Which file is which module of which target, found by following the `mod` declarations from the roots.

use std::collections::{BTreeMap, BTreeSet};

use super::test_items::split_tests;
use super::tokens::{Kind, Token, tokens};
use super::tree::Tree;

/// A file in its target.
pub(super) struct Module {
    pub(super) file: String,
    /// The file that the target begins with.
    pub(super) root: String,
    /// The names from the root; empty for the root itself.
    pub(super) path: Vec<String>,
    /// Compiled for tests only: below `#[cfg(test)] mod`, or in tests, benches and examples.
    pub(super) is_test: bool,
    /// Without the items under `#[cfg(test)]`.
    pub(super) tokens: Vec<Token>,
}

/// All modules that are reached from a root.
pub(super) struct Modules {
    pub(super) all: Vec<Module>,
}

impl Modules {
    pub(super) fn of(tree: &Tree) -> Self {
        let mut modules = Self { all: Vec::new() };
        for (folder, manifest) in tree.manifests() {
            for root in roots(tree, folder, manifest) {
                let is_test = !root[folder.len()..].starts_with("/src/");
                let module = Place {
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

    /// The modules by file, where a file counts as product code if any target uses it as such.
    pub(super) fn product(&self) -> BTreeMap<&str, &Module> {
        let product = self.all.iter().filter(|module| !module.is_test);
        product
            .map(|module| (module.file.as_str(), module))
            .collect()
    }

    fn follow(&mut self, tree: &Tree, place: Place) {
        let Some(text) = tree.get(&place.file) else {
            return;
        };
        let known = |module: &Module| module.file == place.file && module.root == place.root;
        if self.all.iter().any(known) {
            return;
        }
        let (product, tests) = split_tests(&tokens(text));
        let declared = declarations(&product)
            .into_iter()
            .map(|found| (found, place.is_test));
        let declared: Vec<_> = declared
            .chain(
                declarations(&tests.concat())
                    .into_iter()
                    .map(|found| (found, true)),
            )
            .collect();
        let Place {
            file,
            root,
            path,
            is_test,
        } = place;
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
                    Place {
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

struct Place {
    file: String,
    root: String,
    path: Vec<String>,
    is_test: bool,
}

/// A `mod name;`, inside the inline modules that hold it.
#[derive(Debug, PartialEq)]
struct Declaration {
    names: Vec<String>,
    /// What `#[path = "…"]` says.
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

/// The files that cargo starts a target from.
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

/// The folder in which the modules of a file are looked for.
fn module_folder(file: &str, root: &str) -> String {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    if file == root || name == "mod.rs" {
        folder.to_owned()
    } else {
        file.trim_end_matches(".rs").to_owned()
    }
}

/// Every `mod name;` in these tokens.
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
