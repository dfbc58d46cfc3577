//! Package registries: no file names a registry's host, which is a setting of the machine.

use super::Finding;
use super::tree::Tree;

/// Hosts of registries, joined from halves so that this file does not name them either.
const HOSTS: &[&str] = &[
    concat!("registry.", "npmjs"),
    concat!("registry.", "yarnpkg"),
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("pypi.", "org"),
    concat!("python", "hosted.org"),
];

const LOCK: &str = "Cargo.lock";
const CRATES_IO: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    if tree.get(LOCK).is_none() {
        findings.push(Finding::new(LOCK, 1, "is missing (commit it)"));
    }
    for (path, text) in tree.iter() {
        for (at, line) in text.lines().enumerate() {
            if let Some(message) = fault(path, line.trim()) {
                findings.push(Finding::new(path, at + 1, message));
            }
        }
    }
    findings
}

fn fault(path: &str, line: &str) -> Option<String> {
    if let Some(host) = HOSTS.iter().find(|host| line.contains(**host)) {
        return Some(format!(
            "names the registry {host} (leave it to the machine's settings)"
        ));
    }
    if path == LOCK && line.starts_with("source = ") && line != CRATES_IO {
        return Some(
            "a source other than crates.io (lock again without the machine's settings)".to_owned(),
        );
    }
    (path.ends_with("package-lock.json") && line.starts_with("\"resolved\": \"http")).then(|| {
        "names a package's download URL (lock with `omit-lockfile-registry-resolved`)".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_other_sources_are_found() {
        let named = format!("x\nfetch https://{}.org/y", HOSTS[0]);
        let lock = format!("{CRATES_IO}\nsource = \"registry+https://mirror.example/index\"");
        let tree = Tree::of(&[
            ("docs/a.md", &named),
            ("Cargo.lock", &lock),
            (
                "a/package-lock.json",
                "  \"resolved\": \"https://mirror.example/a.tgz\",",
            ),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|f| (f.path, f.line)).collect();
        assert_eq!(
            found,
            [
                ("Cargo.lock".to_owned(), 2),
                ("a/package-lock.json".to_owned(), 1),
                ("docs/a.md".to_owned(), 2)
            ]
        );
    }

    #[test]
    fn a_missing_lock_is_found() {
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }
}
