//! `ostler eval new-case` and `promote`: cases out of commits and recorded sessions.

use std::path::{Path, PathBuf};

use ostler::event::EventKind;
use ostler::sandbox::program::{Capture, Program};
use ostler_eval::new_case::{
    ChangedFile, CommitFacts, NewCase, SessionFacts, new_case, session_case,
};

use crate::args::{EvalNewCaseArgs, EvalPromoteArgs};
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::{environment, output, store};

/// Most bytes that are read of one file of a commit.
const MAX_FILE: usize = 1024 * 1024;

/// Git in a directory, without the settings that could start programs.
struct Git {
    dir: PathBuf,
}

impl Git {
    async fn run(&self, args: &[&str]) -> Result<Vec<u8>> {
        let quiet = ["git", "-c", "core.fsmonitor=false", "--no-pager"];
        let argv = quiet.iter().chain(args).copied();
        let output = Program::new(&environment::host(), argv, &self.dir)
            .capture(Capture::Head(MAX_FILE))
            .run()
            .await
            .map_err(|error| usage!("{error}").hint("install git"))?;
        if output.succeeded() {
            return Ok(output.stdout);
        }
        let stderr = output.stderr_text();
        Err(usage!("git {}: {}", args.join(" "), stderr.trim()))
    }

    async fn text(&self, args: &[&str]) -> Result<String> {
        let bytes = self.run(args).await?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// Returns paths that Git separates by zero bytes.
    async fn paths(&self, args: &[&str]) -> Result<Vec<String>> {
        let text = self.text(args).await?;
        let names = text.split(char::from(0)).filter(|name| !name.is_empty());
        Ok(names.map(str::to_owned).collect())
    }
}

/// Makes a case from a commit.
pub(super) async fn from_commit(args: &EvalNewCaseArgs) -> Result<Code> {
    environment::start_guard();
    let here = environment::directory().map_err(Fault::internal)?;
    let git = Git {
        dir: args
            .repo
            .as_ref()
            .map_or_else(|| here.clone(), |dir| here.join(dir)),
    };
    let root = git.text(&["rev-parse", "--show-toplevel"]).await?;
    let git = Git { dir: root.into() };
    let name = format!("{}^{{commit}}", args.from_commit);
    let commit = git
        .text(&["rev-parse", "--verify", "--end-of-options", &name])
        .await?;
    let parents = git.text(&["rev-list", "--parents", "-n1", &commit]).await?;
    let parent = parents.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut facts = CommitFacts {
        repo: git.dir.display().to_string(),
        message: git.text(&["log", "-1", "--format=%B", &commit]).await?,
        root_files: git
            .paths(&["ls-tree", "--name-only", "-z", &commit])
            .await?,
        commit,
        parent,
        changes: Vec::new(),
    };
    if !facts.parent.is_empty() {
        let range = ["diff-tree", "-r", "-z", "--name-only", "--no-renames"];
        let range = [&range[..], &[&facts.parent, &facts.commit]].concat();
        for path in git.paths(&range).await? {
            let blob = format!("{}:{path}", facts.commit);
            let bytes = git.run(&["cat-file", "blob", &blob]).await.ok();
            let bytes = bytes.filter(|bytes| bytes.len() < MAX_FILE && !bytes.contains(&0));
            let after = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            facts.changes.push(ChangedFile { path, after });
        }
    }
    let case = new_case(&facts).map_err(|error| usage!("{error}"))?;
    write(&here.join(&args.out), &case)
}

/// Makes a case from a recorded session.
pub(super) async fn promote(args: &EvalPromoteArgs) -> Result<Code> {
    environment::start_guard();
    let here = environment::directory().map_err(Fault::internal)?;
    let store = store::open_store_for_reading()?;
    let row = store::resolve(&store, &args.session)?;
    let mut prompt = None;
    for events in store::pages(&store, &row.session) {
        let events = events?;
        let found = events.iter().find_map(|event| match &event.kind {
            EventKind::TurnStarted(turn) => turn.prompt.clone(),
            _ => None,
        });
        prompt = prompt.or(found);
        if prompt.is_some() {
            break;
        }
    }
    let git = Git {
        dir: row.dir.clone(),
    };
    // A directory that is not a repository is copied as it is.
    let before = format!("--before={}", row.began_at);
    let (root, commit) = match git.text(&["rev-parse", "--show-toplevel"]).await {
        Ok(root) => (
            Some(root),
            git.text(&["rev-list", "-1", &before, "HEAD"]).await.ok(),
        ),
        Err(_) => (None, None),
    };
    let facts = SessionFacts {
        session: row.session.clone(),
        repo: root.unwrap_or_else(|| row.dir.display().to_string()),
        commit: commit.filter(|commit| !commit.is_empty()),
        prompt: prompt.unwrap_or_default(),
    };
    let case = session_case(&facts).map_err(|error| usage!("{error}"))?;
    write(&here.join(&args.out), &case)
}

/// Writes a case below a directory, and prints what to look at. It overwrites nothing.
fn write(dir: &Path, case: &NewCase) -> Result<Code> {
    let target = dir.join(&case.name);
    if target.exists() {
        return Err(usage!("{} exists already", target.display())
            .hint("remove it, or choose another directory with `--out DIR`"));
    }
    for (path, text) in &case.files {
        let path = target.join(path);
        path.parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| usage!("cannot write {}: {error}", path.display()))?;
        output::print_line(&path.display().to_string());
    }
    for note in &case.notes {
        errln!("note: {note}");
    }
    Ok(exit::OK)
}
