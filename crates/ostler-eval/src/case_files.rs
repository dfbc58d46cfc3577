//! Files beside a case that its evaluators use: hidden tests and programs.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::case::{Case, EvaluatorSpec};

/// A file or directory that an evaluator uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EvaluatorFile {
    /// Index of the evaluator in its case.
    pub(crate) evaluator: usize,
    /// Key in its configuration.
    pub(crate) key: &'static str,
    /// The path as the case names it.
    pub(crate) named: String,
    /// The path on this machine.
    pub(crate) path: PathBuf,
}

impl Case {
    /// Returns the directory that relative paths of the case start at.
    pub(crate) fn dir(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("."))
    }

    /// Returns the paths of the files and directories beside the case that its evaluators use.
    pub fn evaluator_paths(&self) -> impl Iterator<Item = PathBuf> + use<> {
        self.evaluator_files().into_iter().map(|file| file.path)
    }

    /// Returns the files and directories beside the case that its evaluators use.
    pub(crate) fn evaluator_files(&self) -> Vec<EvaluatorFile> {
        let dir = self.dir();
        let mut found = Vec::new();
        for (evaluator, spec) in self.evaluators.iter().enumerate() {
            found.extend(names(spec, dir).into_iter().map(|(key, named)| {
                let path = dir.join(&named);
                EvaluatorFile {
                    evaluator,
                    key,
                    named,
                    path,
                }
            }));
        }
        found
    }
}

/// Returns the paths in a configuration, with their keys.
fn names(spec: &EvaluatorSpec, dir: &Path) -> Vec<(&'static str, String)> {
    let config = &spec.config;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match &*spec.kind {
        "command" => {
            let copies = config.get("copies").and_then(Value::as_object);
            let copies = copies.into_iter().flat_map(|copies| copies.values());
            let copies = copies.filter_map(text).map(|path| ("copies", path));
            let overlay = config.get("overlay").and_then(text);
            let overlay = overlay.map(|path| ("overlay", path));
            copies.chain(overlay).collect()
        }
        "script" => {
            let program = config.get("command").and_then(|command| match command {
                Value::String(line) => shlex::split(line)?.into_iter().next(),
                Value::Array(words) => text(words.first()?),
                _ => None,
            });
            // A name without `/` is found on PATH, and a program elsewhere is the machine's.
            let is_own = |name: &String| {
                let path = Path::new(name);
                name.contains('/') && (path.is_relative() || path.starts_with(dir))
            };
            let program = program.filter(is_own);
            program.map(|path| ("command", path)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}
