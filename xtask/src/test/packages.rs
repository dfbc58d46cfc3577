//! Package checks: the features of the library, and the minimum Rust version of all dependencies.

use anyhow::{Context as _, Result, bail};

use super::metadata::{Metadata, Package};
use super::step::{Context, Outcome};
use crate::workspace;

/// The library that people depend on.
const LIBRARY: &str = "ostler";

/// HTTP clients, and crates that only they need. Without features, the library has none of them.
const HTTP_CLIENTS: &[&str] = &[
    "attohttpc",
    "curl",
    "h2",
    "http",
    "hyper",
    "hyper-rustls",
    "hyper-util",
    "isahc",
    "native-tls",
    "openssl",
    "reqwest",
    "ring",
    "rustls",
    "surf",
    "ureq",
];

/// Checks that the library compiles without features and with each of them alone, and that without
/// features it depends on no HTTP client.
pub(super) fn check_features(context: &Context) -> Result<Outcome> {
    let features = Metadata::read()?.features_of(LIBRARY)?;
    let tree = tree()?;
    let clients = clients(&tree);
    if !clients.is_empty() {
        let see = format!(
            "cargo tree -p {LIBRARY} --no-default-features -i {}",
            clients[0]
        );
        return Ok(Outcome::Failed(format!(
            "without features, {LIBRARY} depends on {}: run `{see}`",
            clients.join(", ")
        )));
    }
    for feature in [None].into_iter().chain(features.iter().map(Some)) {
        let mut lint = workspace::cargo();
        lint.args([
            "clippy",
            "--quiet",
            "--package",
            LIBRARY,
            "--no-default-features",
        ]);
        lint.args(
            feature
                .into_iter()
                .flat_map(|name| ["--features", name.as_str()]),
        );
        let outcome = context.perform(lint.args(["--", "-D", "warnings"]));
        if !matches!(outcome, Outcome::Passed) {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Passed)
}

/// Checks that no package declares a newer Rust version than the workspace does. Clippy's
/// `incompatible_msrv` does the same for our calls of the standard library.
pub(super) fn check_rust_version() -> Result<Outcome> {
    let metadata = Metadata::read()?;
    let ours = metadata.rust_version_of(LIBRARY)?;
    let newer = metadata.newer_than(ours);
    if !newer.is_empty() {
        let fix = "choose an older version, or raise rust-version";
        return Ok(Outcome::Failed(format!(
            "need a newer Rust than {}.{}: {} ({fix})",
            ours.0,
            ours.1,
            newer.join(", ")
        )));
    }
    let undeclared = metadata
        .packages
        .iter()
        .filter(|package| package.rust_version.is_none())
        .count();
    let all = metadata.packages.len();
    Ok(Outcome::PassedWith(format!(
        "no package declares a newer Rust version than {}.{}; {undeclared} of {all} declare none",
        ours.0, ours.1
    )))
}

/// Lists all packages that the library depends on without features.
fn tree() -> Result<String> {
    let mut tree = workspace::cargo();
    tree.args([
        "tree",
        "--package",
        LIBRARY,
        "--no-default-features",
        "--edges",
        "normal,build",
    ]);
    let output = tree
        .args(["--prefix", "none", "--format", "{p}"])
        .output()
        .context("cannot start cargo tree")?;
    if !output.status.success() {
        bail!(
            "cargo tree failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).context("the output of cargo tree is not UTF-8")
}

/// Returns the HTTP clients in a listing of one `name version` per line.
fn clients(tree: &str) -> Vec<&str> {
    let names = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let mut clients: Vec<&str> = names.filter(|name| HTTP_CLIENTS.contains(name)).collect();
    clients.sort_unstable();
    clients.dedup();
    clients
}

impl Metadata {
    fn package(&self, name: &str) -> Result<&Package> {
        self.packages
            .iter()
            .find(|package| package.name == name)
            .with_context(|| format!("no package {name}"))
    }

    /// Returns the features of a package, without `default`.
    fn features_of(&self, name: &str) -> Result<Vec<String>> {
        Ok(self
            .package(name)?
            .features
            .keys()
            .filter(|feature| *feature != "default")
            .cloned()
            .collect())
    }

    fn rust_version_of(&self, name: &str) -> Result<(u32, u32)> {
        let stated = self.package(name)?.rust_version.as_deref();
        stated
            .and_then(major_minor)
            .with_context(|| format!("{name} declares no rust-version"))
    }

    /// Returns the packages that declare a newer Rust version.
    fn newer_than(&self, ours: (u32, u32)) -> Vec<String> {
        let stated = |package: &Package| package.rust_version.as_deref().and_then(major_minor);
        let newer = self
            .packages
            .iter()
            .filter(|package| stated(package).is_some_and(|needed| needed > ours));
        newer
            .map(|package| format!("{} {}", package.name, package.version))
            .collect()
    }
}

/// Parses `1.93` or `1.93.0` into numbers that can be compared.
fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((
        parts.next()?.parse().ok()?,
        parts.next().unwrap_or("0").parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(packages: &str) -> Metadata {
        serde_json::from_str(&format!(r#"{{"packages": [{packages}]}}"#)).unwrap()
    }

    #[test]
    fn a_package_that_needs_a_newer_rust_is_named() {
        let of = |name: &str, version: &str| {
            format!(
                r#"{{"name": "{name}", "version": "2.0.0", "rust_version": {version}, "features": {{}}}}"#
            )
        };
        let all = [
            of(LIBRARY, "\"1.93\""),
            of("old", "\"1.9.1\""),
            of("silent", "null"),
            of("new", "\"1.94.0\""),
        ];
        let metadata = metadata(&all.join(","));
        assert_eq!(metadata.rust_version_of(LIBRARY).unwrap(), (1, 93));
        assert_eq!(metadata.newer_than((1, 93)), ["new 2.0.0"]);
        assert!(metadata.rust_version_of("silent").is_err());
    }

    #[test]
    fn the_default_feature_is_left_out() {
        let one = r#"{"name": "ostler", "version": "1.0.0", "rust_version": null,
            "features": {"default": ["api"], "api": [], "acp": []}}"#;
        assert_eq!(metadata(one).features_of(LIBRARY).unwrap(), ["acp", "api"]);
    }

    #[test]
    fn an_http_client_is_found_by_its_name() {
        assert_eq!(
            clients("ostler v0.1.0 (/x)\nhyper v1.0.0\ntokio v1.0.0\nhyper v1.0.0 (*)\n"),
            ["hyper"]
        );
        assert_eq!(clients("httparse v1.0.0\nthiserror v2.0.0\n"), [""; 0]);
    }
}
