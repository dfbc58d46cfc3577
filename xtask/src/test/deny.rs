//! Licences, bans and sources of all dependencies, checked against `deny.toml`.
//!
//! The file is in the format of cargo-deny, which also checks advisories. This step needs no other
//! program, so it always runs. A key of the file that it does not check is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::metadata::{Dependency, Metadata};
use super::step::Outcome;
use crate::workspace;

const FILE: &str = "deny.toml";

/// The content of `deny.toml`. All of it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Rules {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Graph {
    all_features: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Licenses {
    allow: BTreeSet<String>,
    /// Used by cargo-deny only: this step reads licences from manifests.
    #[serde(rename = "confidence-threshold")]
    _confidence_threshold: f64,
    #[serde(rename = "unused-allowed-license")]
    _unused_allowed_license: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    /// Only `warn` is supported.
    multiple_versions: Warn,
    wildcards: Deny,
    /// Whether a path dependency within the workspace may omit its version.
    allow_wildcard_paths: bool,
    deny: Vec<Banned>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Warn {
    Warn,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Deny {
    Deny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Banned {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    #[serde(rename = "unknown-registry")]
    _unknown_registry: Deny,
    #[serde(rename = "unknown-git")]
    _unknown_git: Deny,
    allow_registry: BTreeSet<String>,
}

/// Checks all dependencies of the workspace, with all features, on all systems.
pub(super) fn check() -> Result<Outcome> {
    let rules = fs::read_to_string(workspace::root().join(FILE))
        .with_context(|| format!("cannot read {FILE}"))?;
    let rules: Rules = toml::from_str(&rules)
        .with_context(|| format!("{FILE}: has keys that this step does not check"))?;
    ensure!(
        rules.graph.all_features,
        "{FILE}: only `all-features = true` is supported"
    );
    let metadata = Metadata::read()?;
    let findings = findings(&rules, &metadata);
    for finding in &findings {
        println!("{finding}");
    }
    let duplicates = several_versions(&metadata);
    println!(
        "{} packages; with several versions: {}",
        metadata.packages.len(),
        duplicates.join(", ")
    );
    Ok(match findings.len() {
        0 => Outcome::Passed,
        count => Outcome::Failed(format!("{count} findings against {FILE}, listed above")),
    })
}

fn findings(rules: &Rules, metadata: &Metadata) -> Vec<String> {
    let mut findings = Vec::new();
    if metadata.packages.is_empty() {
        findings.push("cargo metadata lists no package".to_owned());
    }
    for package in &metadata.packages {
        let name = format!("{} {}", package.name, package.version);
        match &package.license {
            None => findings.push(format!("{name}: no licence in the manifest")),
            Some(text) => match License::parse(text) {
                None => findings.push(format!("{name}: cannot parse the licence {text:?}")),
                Some(license) if !license.is_allowed(&rules.licenses.allow) => {
                    findings.push(format!(
                        "{name}: licence {text:?} is not in `licenses.allow`"
                    ));
                }
                Some(_) => {}
            },
        }
        if let Some(ban) = rules.bans.deny.iter().find(|ban| ban.name == package.name) {
            findings.push(format!("{name}: banned: {}", ban.reason));
        }
        if let Some(source) = &package.source {
            let registry = source.strip_prefix("registry+");
            if registry.is_none_or(|registry| !rules.sources.allow_registry.contains(registry)) {
                findings.push(format!(
                    "{name}: comes from {source}, which is not in `sources.allow-registry`"
                ));
            }
        }
        let Deny::Deny = rules.bans.wildcards;
        let is_wild = |dependency: &&Dependency| {
            dependency.req == "*" && !(rules.bans.allow_wildcard_paths && dependency.path.is_some())
        };
        let wild = package.dependencies.iter().filter(is_wild);
        findings.extend(wild.map(|it| format!("{name}: depends on any version of {}", it.name)));
    }
    let Warn::Warn = rules.bans.multiple_versions;
    findings
}

fn several_versions(metadata: &Metadata) -> Vec<&str> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &metadata.packages {
        versions
            .entry(&package.name)
            .or_default()
            .insert(&package.version);
    }
    versions
        .into_iter()
        .filter(|(_, versions)| versions.len() > 1)
        .map(|(name, _)| name)
        .collect()
}

/// An SPDX licence expression. The old form `MIT/Apache-2.0` means `OR`.
#[derive(Debug, PartialEq)]
enum License {
    One(String),
    And(Vec<License>),
    Or(Vec<License>),
}

impl License {
    fn parse(text: &str) -> Option<Self> {
        let spaced = text
            .replace('(', " ( ")
            .replace(')', " ) ")
            .replace('/', " OR ");
        let mut words = spaced.split_whitespace().peekable();
        let license = Self::parse_or(&mut words)?;
        words.next().is_none().then_some(license)
    }

    fn parse_or<'a>(
        words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    ) -> Option<Self> {
        let mut choices = vec![Self::parse_and(words)?];
        while words.next_if_eq(&"OR").is_some() {
            choices.push(Self::parse_and(words)?);
        }
        Some(Self::Or(choices))
    }

    fn parse_and<'a>(
        words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    ) -> Option<Self> {
        let mut parts = vec![Self::parse_one(words)?];
        while words.next_if_eq(&"AND").is_some() {
            parts.push(Self::parse_one(words)?);
        }
        Some(Self::And(parts))
    }

    fn parse_one<'a>(
        words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    ) -> Option<Self> {
        match words.next()? {
            "(" => {
                let inner = Self::parse_or(words)?;
                words.next_if_eq(&")")?;
                Some(inner)
            }
            ")" | "OR" | "AND" | "WITH" => None,
            id => match words.next_if_eq(&"WITH") {
                Some(_) => Some(Self::One(format!("{id} WITH {}", words.next()?))),
                None => Some(Self::One(id.to_owned())),
            },
        }
    }

    fn is_allowed(&self, allowed: &BTreeSet<String>) -> bool {
        match self {
            Self::One(id) => allowed.contains(id),
            Self::And(parts) => parts.iter().all(|part| part.is_allowed(allowed)),
            Self::Or(choices) => choices.iter().any(|choice| choice.is_allowed(allowed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
        graph.all-features = true
        licenses = { allow = ["MIT", "Apache-2.0 WITH LLVM-exception", "Zlib"], confidence-threshold = 0.9, unused-allowed-license = "allow" }
        bans = { multiple-versions = "warn", wildcards = "deny", allow-wildcard-paths = true, deny = [{ crate = "openssl", reason = "rustls" }] }
        sources = { unknown-registry = "deny", unknown-git = "deny", allow-registry = ["https://good"] }
    "#;

    fn check_one(package: &str) -> Vec<String> {
        let metadata = serde_json::from_str(&format!("{{\"packages\":[{package}]}}")).unwrap();
        findings(&toml::from_str(RULES).unwrap(), &metadata)
    }

    fn package(name: &str, license: &str, source: &str, dependencies: &str) -> String {
        format!(
            r#"{{"name":"{name}","version":"1.0.0","license":{license},"source":{source},"dependencies":[{dependencies}]}}"#
        )
    }

    #[test]
    fn licence_expressions_are_evaluated() {
        let allowed =
            BTreeSet::from(["MIT", "Apache-2.0 WITH LLVM-exception", "Zlib"].map(str::to_owned));
        for (text, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("(GPL-3.0 OR MIT) AND Zlib", true),
            ("GPL-3.0 OR MIT AND Zlib", true),
            ("MIT AND GPL-3.0 OR Zlib", true),
            ("Apache-2.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
        ] {
            assert_eq!(
                License::parse(text).unwrap().is_allowed(&allowed),
                expected,
                "{text}"
            );
        }
        for text in ["", "MIT OR", "(MIT", "MIT Zlib", "WITH MIT"] {
            assert_eq!(License::parse(text), None, "{text}");
        }
    }

    #[test]
    fn each_violation_is_found() {
        let good = r#""registry+https://good""#;
        assert_eq!(check_one(&package("fine", "\"MIT\"", good, "")), [""; 0]);
        assert_eq!(
            check_one(&package(
                "ours",
                "\"MIT\"",
                "null",
                r#"{"name":"core","req":"*","path":"x"}"#
            )),
            [""; 0]
        );
        for (broken, finding) in [
            (package("a", "\"GPL-3.0\"", good, ""), "licenses.allow"),
            (package("a", "null", good, ""), "no licence"),
            (package("openssl", "\"MIT\"", good, ""), "banned: rustls"),
            (
                package("a", "\"MIT\"", r#""registry+https://other""#, ""),
                "https://other",
            ),
            (
                package("a", "\"MIT\"", r#""git+https://good""#, ""),
                "git+https",
            ),
            (
                package(
                    "a",
                    "\"MIT\"",
                    good,
                    r#"{"name":"b","req":"*","path":null}"#,
                ),
                "any version of b",
            ),
            (String::new(), "no package"),
        ] {
            let found = check_one(&broken);
            assert!(
                found.len() == 1 && found[0].contains(finding),
                "{finding}: {found:?}"
            );
        }
    }

    #[test]
    fn an_unsupported_key_is_an_error() {
        assert!(toml::from_str::<Rules>(&format!("{RULES}\n[advisories]\n")).is_err());
        assert!(toml::from_str::<Rules>(&RULES.replace("\"warn\"", "\"deny\"")).is_err());
    }
}
