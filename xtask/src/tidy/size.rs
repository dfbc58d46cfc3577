//! Size of the code in tokens, without comments: formatting and documentation do not change it.

use std::collections::BTreeMap;

use super::modules::Modules;
use super::test_items::split_tests;
use super::tokens::tokens;
use super::tree::Tree;

/// Crates that are not part of the product.
const NOT_PRODUCT: &[&str] = &["ostler-testkit", "xtask"];

/// Size of one crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Tokens of product code.
    pub(super) product: usize,
    /// Tokens of tests: items under `#[cfg(test)]`, test modules, integration tests, benches.
    pub(super) tests: usize,
}

/// Measures every product crate.
pub(super) fn measure(tree: &Tree) -> BTreeMap<String, Size> {
    let modules = Modules::of(tree);
    let product = modules.product();
    let mut sizes: BTreeMap<String, Size> = BTreeMap::new();
    for file in modules.files() {
        let Some(name) = crate_of(file) else { continue };
        let all = tokens(tree.get(file).unwrap_or_default());
        let size = sizes.entry(name.to_owned()).or_default();
        if product.contains_key(file) {
            let (code, _) = split_tests(&all);
            size.product += code.len();
            size.tests += all.len() - code.len();
        } else {
            size.tests += all.len();
        }
    }
    sizes
}

/// Formats the sizes as a table, next to those of an earlier state if there are any.
pub(super) fn table(
    now: &BTreeMap<String, Size>,
    before: Option<&BTreeMap<String, Size>>,
) -> String {
    let mut text = format!("{:18}{:>10}{:>10}", "crate", "product", "tests");
    if before.is_some() {
        text.push_str(&format!("{:>12}{:>10}", "before", "tests"));
    }
    text.push('\n');
    let mut names: Vec<&String> = now
        .keys()
        .chain(before.iter().flat_map(|b| b.keys()))
        .collect();
    names.sort();
    names.dedup();
    let (mut sum, mut sum_before) = (Size::default(), Size::default());
    for name in names {
        let size = now.get(name).copied().unwrap_or_default();
        let earlier = before.map(|sizes| sizes.get(name).copied().unwrap_or_default());
        sum.add(size);
        sum_before.add(earlier.unwrap_or_default());
        text.push_str(&row(name, size, earlier));
    }
    text.push_str(&row("total", sum, before.map(|_| sum_before)));
    text
}

impl Size {
    fn add(&mut self, other: Self) {
        self.product += other.product;
        self.tests += other.tests;
    }
}

fn row(name: &str, size: Size, before: Option<Size>) -> String {
    let mut text = format!("{name:18}{:>10}{:>10}", size.product, size.tests);
    if let Some(before) = before {
        text.push_str(&format!("{:>12}{:>10}", before.product, before.tests));
    }
    text.push('\n');
    text
}

fn crate_of(file: &str) -> Option<&str> {
    let name = file.strip_prefix("crates/")?.split('/').next()?;
    (!NOT_PRODUCT.contains(&name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_tests_are_not_product_code() {
        let tree = Tree::of(&[
            ("crates/a/Cargo.toml", "[package]\nname = \"a\""),
            (
                "crates/a/src/lib.rs",
                "//! Doc.\nfn f() {} // why\n#[cfg(test)]\nmod tests { fn t() {} }",
            ),
            ("crates/a/tests/it/main.rs", "fn t() {}"),
            ("crates/ostler-testkit/Cargo.toml", "[package]"),
            ("crates/ostler-testkit/src/lib.rs", "fn f() {}"),
        ]);
        let sizes = measure(&tree);
        let a = sizes["a"];
        assert_eq!((a.product, sizes.len()), (6, 1)); // fn f ( ) { }
        assert_eq!(a.tests, 7 + 10 + 6); // the attribute, the module, the integration test
        let text = table(&sizes, Some(&sizes));
        assert!(text.ends_with(&row("total", a, Some(a))), "{text}");
    }
}
