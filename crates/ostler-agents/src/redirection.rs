//! Redirection of an agent to a local model instead of its provider: variables, files and settings.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

/// API key in variables and files of a redirection. The local model accepts any.
pub const KEY: &str = "sk-a-key-of-the-stand-in";

/// Configuration that makes an agent use a local model.
///
/// `{url}` stands for the model's address, `{key}` for [`KEY`], and `{home}` for a home directory
/// that only this agent uses.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Redirection {
    /// Environment variables.
    env: BTreeMap<String, String>,
    /// Files in the home directory: path and text.
    files: BTreeMap<String, String>,
    /// Settings to pass to the agent.
    pub settings: BTreeMap<String, String>,
    /// The transport that cannot be redirected, because a gateway with its own model answers.
    pub gateway: Option<String>,
}

impl Redirection {
    /// Returns the environment variables for a home directory and the model's address.
    #[must_use]
    pub fn env(&self, home: &Path, url: &str) -> Vec<(String, String)> {
        let pairs = self
            .env
            .iter()
            .map(|(name, value)| (name.clone(), filled(value, home, url)));
        std::iter::once(("HOME".to_owned(), home.display().to_string()))
            .chain(pairs)
            .collect()
    }

    /// Writes the files into the home directory.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_files(&self, home: &Path, url: &str) -> std::io::Result<()> {
        for (path, text) in &self.files {
            let path = home.join(path);
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory)?;
            }
            std::fs::write(path, filled(text, home, url))?;
        }
        Ok(())
    }
}

fn filled(text: &str, home: &Path, url: &str) -> String {
    text.replace("{url}", url)
        .replace("{key}", KEY)
        .replace("{home}", &home.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_is_pointed_at_the_local_model_and_nowhere_else() {
        let (home, url) = (Path::new("/the/home"), "http://127.0.0.1:9");
        let redirected = crate::all()
            .iter()
            .filter_map(|manifest| Some((manifest.name, manifest.redirection.as_ref()?)));
        for (agent, redirection) in redirected {
            let files = redirection.files.values();
            let all: Vec<String> = redirection
                .env(home, url)
                .into_iter()
                .map(|(_, value)| value)
                .chain(files.map(|text| filled(text, home, url)))
                .collect();
            let has = |part: &str| all.iter().any(|text| text.contains(part));
            assert!(has(url), "{agent}: {all:?}");
            for forbidden in ["{url}", "{home}", "{key}", "https://"] {
                assert!(!has(forbidden), "{agent}: {all:?}");
            }
        }
    }
}
