//! The plain subset of a Dockerfile: FROM, WORKDIR, COPY and ENV.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::case::PrivateRoot;

/// Images that stand for a distribution or a language. This machine's root replaces them.
const PLAIN_IMAGES: &[&str] = &[
    "almalinux",
    "alpine",
    "amazonlinux",
    "archlinux",
    "bash",
    "buildpack-deps",
    "busybox",
    "centos",
    "clojure",
    "debian",
    "denoland/deno",
    "dart",
    "elixir",
    "erlang",
    "fedora",
    "gcc",
    "golang",
    "haskell",
    "julia",
    "maven",
    "node",
    "openjdk",
    "oven/bun",
    "perl",
    "php",
    "python",
    "r-base",
    "rockylinux",
    "ruby",
    "rust",
    "scratch",
    "swift",
    "ubuntu",
];

/// Hosts whose official images are the same.
const REGISTRIES: &[&str] = &["docker.io/library/", "docker.io/", "library/"];

/// What a Dockerfile of the subset describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The working directory.
    pub workdir: PathBuf,
    /// Files to copy: source on this machine, target inside.
    pub copies: Vec<(PathBuf, PathBuf)>,
    /// Variables.
    pub env: BTreeMap<String, String>,
}

impl Default for Image {
    fn default() -> Self {
        Self {
            workdir: PathBuf::from("/app"),
            copies: Vec::new(),
            env: BTreeMap::new(),
        }
    }
}

impl Image {
    pub(super) fn into_root(self, task_dir: &Path) -> PrivateRoot {
        PrivateRoot {
            workdir: self.workdir,
            copies: self.copies,
            env: self.env,
            task_dir: task_dir.to_owned(),
        }
    }
}

/// A line that is beyond the subset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerfileFault {
    /// The line, from 1.
    pub line: usize,
    /// The instruction.
    pub name: String,
    /// What is missing.
    pub message: String,
}

/// Returns true for an image of a distribution or a language, with any tag.
#[must_use]
pub fn is_plain_image(name: &str) -> bool {
    let name = name.split('@').next().unwrap_or(name);
    let name = REGISTRIES
        .iter()
        .find_map(|registry| name.strip_prefix(registry))
        .unwrap_or(name);
    let name = name.split(':').next().unwrap_or(name);
    PLAIN_IMAGES.contains(&name)
}

/// Reads a Dockerfile of the subset. `context` is the directory that COPY reads from.
///
/// # Errors
/// Every instruction that is beyond the subset, by name.
pub fn read_dockerfile(text: &str, context: &Path) -> Result<Image, Vec<DockerfileFault>> {
    let mut reader = Reader {
        context,
        image: Image {
            workdir: PathBuf::from("/"),
            ..Image::default()
        },
        faults: Vec::new(),
        froms: 0,
        has_workdir: false,
    };
    for instruction in instructions(text) {
        reader.read(&instruction);
    }
    if reader.froms == 0 {
        reader.fault(1, "FROM", "is missing: the file names no image");
    }
    if !reader.has_workdir {
        reader.image.workdir = PathBuf::from("/app");
    }
    if reader.faults.is_empty() {
        Ok(reader.image)
    } else {
        Err(reader.faults)
    }
}

struct Instruction {
    line: usize,
    name: String,
    rest: String,
}

/// Splits a file into instructions, joining continued lines.
fn instructions(text: &str) -> Vec<Instruction> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.starts_with('#') || trimmed.is_empty() {
            continue;
        }
        let (start, mut joined) = open.take().unwrap_or((index + 1, String::new()));
        match trimmed.strip_suffix('\\') {
            Some(part) => {
                joined.push_str(part);
                open = Some((start, joined));
            }
            None => {
                joined.push_str(trimmed);
                found.push(instruction(start, &joined));
            }
        }
    }
    found.extend(open.map(|(start, joined)| instruction(start, &joined)));
    found
}

fn instruction(line: usize, text: &str) -> Instruction {
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    Instruction {
        line,
        name: name.to_ascii_uppercase(),
        rest: rest.trim().to_owned(),
    }
}

struct Reader<'a> {
    context: &'a Path,
    image: Image,
    faults: Vec<DockerfileFault>,
    froms: usize,
    has_workdir: bool,
}

impl Reader<'_> {
    fn fault(&mut self, line: usize, name: &str, message: impl Into<String>) {
        self.faults.push(DockerfileFault {
            line,
            name: name.to_owned(),
            message: message.into(),
        });
    }

    fn read(&mut self, instruction: &Instruction) {
        let Instruction { line, name, rest } = instruction;
        match name.as_str() {
            "FROM" => self.from(*line, rest),
            "WORKDIR" => self.workdir(*line, rest),
            "COPY" => self.copy(*line, rest),
            "ENV" => self.env(*line, rest),
            "RUN" => {
                let message = format!(
                    "needs an image: \"{}\" cannot run in this machine's root; install what it \
                     installs, and remove the line",
                    clip(rest)
                );
                self.fault(*line, "RUN", message);
            }
            other => {
                let message = "needs an image: only FROM, WORKDIR, COPY and ENV are supported";
                self.fault(*line, other, message);
            }
        }
    }

    fn from(&mut self, line: usize, rest: &str) {
        self.froms += 1;
        if self.froms > 1 {
            self.fault(line, "FROM", "builds in several stages are not supported");
            return;
        }
        let words: Vec<&str> = rest.split_whitespace().collect();
        let plain = match words[..] {
            [image] | [image, _, _] => is_plain_image(image),
            _ => false,
        };
        if !plain {
            let message = format!(
                "the image \"{}\" is not that of a plain distribution or language",
                clip(rest)
            );
            self.fault(line, "FROM", message);
        }
    }

    fn workdir(&mut self, line: usize, rest: &str) {
        let Some(path) = self.expand(line, "WORKDIR", rest) else {
            return;
        };
        self.image.workdir = self.inside(&path);
        self.has_workdir = true;
    }

    /// Returns the absolute path inside the root.
    fn inside(&self, path: &str) -> PathBuf {
        let joined = self.image.workdir.join(path);
        let mut clean = PathBuf::from("/");
        for part in joined.components() {
            match part {
                Component::Normal(part) => clean.push(part),
                Component::ParentDir => {
                    clean.pop();
                }
                _ => {}
            }
        }
        clean
    }

    fn copy(&mut self, line: usize, rest: &str) {
        let words = match serde_json::from_str::<Vec<String>>(rest) {
            Ok(words) => words,
            Err(_) => shlex::split(rest).unwrap_or_default(),
        };
        if let Some(flag) = words.iter().find(|word| word.starts_with("--")) {
            self.fault(line, "COPY", format!("the option {flag} is not supported"));
            return;
        }
        let Some((target, sources)) = words.split_last().filter(|(_, rest)| !rest.is_empty())
        else {
            self.fault(line, "COPY", "needs a source and a target");
            return;
        };
        let Some(target) = self.expand(line, "COPY", target) else {
            return;
        };
        let is_dir = target.ends_with('/') || target == "." || sources.len() > 1;
        let inside = self.inside(&target);
        for source in sources {
            self.copy_one(line, source, &inside, is_dir);
        }
    }

    fn copy_one(&mut self, line: usize, source: &str, target: &Path, is_dir: bool) {
        if source.contains(['*', '?', '[', '$']) || source.starts_with("<<") {
            let message = format!("\"{source}\": patterns are not supported");
            self.fault(line, "COPY", message);
            return;
        }
        let relative = Path::new(source.trim_start_matches('/'));
        let stays = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if !relative.components().all(stays) {
            let message = format!("\"{source}\" leaves the directory environment/");
            self.fault(line, "COPY", message);
            return;
        }
        let from = self.context.join(relative);
        let real = from
            .canonicalize()
            .ok()
            .zip(self.context.canonicalize().ok());
        let Some((real, context)) = real else {
            let message = format!("environment/{source} does not exist");
            self.fault(line, "COPY", message);
            return;
        };
        if !real.starts_with(&context) {
            let message = format!("\"{source}\" leaves the directory environment/ by a link");
            self.fault(line, "COPY", message);
            return;
        }
        // The content of a directory is copied into the target; a file keeps its name in one.
        let target = match from.file_name() {
            Some(name) if is_dir && !real.is_dir() => target.join(name),
            _ => target.to_owned(),
        };
        self.image.copies.push((from, target));
    }

    fn env(&mut self, line: usize, rest: &str) {
        let words = shlex::split(rest).unwrap_or_default();
        let is_old_form = words.first().is_some_and(|first| !first.contains('='));
        let pairs: Vec<(String, String)> = if is_old_form {
            let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            vec![(name.to_owned(), value.trim().to_owned())]
        } else {
            let pairs = words.iter().filter_map(|word| word.split_once('='));
            let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
            pairs.collect()
        };
        if pairs.is_empty() {
            self.fault(line, "ENV", "needs NAME=VALUE");
        }
        for (name, value) in pairs {
            if let Some(value) = self.expand(line, "ENV", &value) {
                self.image.env.insert(name, value);
            }
        }
    }

    /// Replaces `$NAME` and `${NAME}` by the variables set so far.
    fn expand(&mut self, line: usize, instruction: &str, text: &str) -> Option<String> {
        let (mut expanded, mut rest) = (String::new(), text);
        while let Some(at) = rest.find('$') {
            expanded.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let (name, after) = match rest.strip_prefix('{').and_then(|it| it.split_once('}')) {
                Some(found) => found,
                None => {
                    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                    rest.split_at(end)
                }
            };
            let Some(value) = self.image.env.get(name) else {
                let message = format!("the variable {name} is not set by an ENV before");
                self.fault(line, instruction, message);
                return None;
            };
            expanded.push_str(value);
            rest = after;
        }
        expanded.push_str(rest);
        Some(expanded)
    }
}

fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(60).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}
