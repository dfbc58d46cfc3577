//! `ostler trust`: shows what a project's settings files request, and stores or revokes trust in
//! them.

use std::path::{Path, PathBuf};

use ostler::spec::Attendance;
use ostler::trust::{FileKind, Standing, WorkspaceFile, within_repository};
use serde_json::{Value, json};

use crate::args::{ConfigArgs, PolicyArgs, TrustArgs};
use crate::ask;
use crate::config::directory;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::style::DIM;
use crate::output::{print_json, print_line};
use crate::trust::{Memory, Project, Remembered};
use crate::trust_review::{RequestedAccess, confirm, describe, requested_access, shown};

/// Runs the verb.
pub(crate) fn run(args: &TrustArgs) -> Result<Code> {
    if args.list {
        return list(args.json);
    }
    let dir = directory(args.dir.as_deref())?;
    if args.revoke {
        return revoke(&dir, args.json);
    }
    if !dir.is_dir() {
        return Err(usage!("{} is not a directory", dir.display()));
    }
    let project = Project::read(ConfigArgs::default(), &PolicyArgs::default(), &dir)?;
    let all: Vec<(&WorkspaceFile, RequestedAccess)> = project
        .files
        .iter()
        .map(|file| Ok((file, requested_access(&project, file)?)))
        .collect::<Result<_>>()?;
    if !args.json {
        show(&project, &all);
    }
    let is_trusted = project.files.iter().all(WorkspaceFile::is_trusted);
    let code = if is_trusted {
        exit::OK
    } else {
        grant(args, &project)?
    };
    if args.json {
        let is_trusted = code == exit::OK;
        let files = all.iter();
        let files = files.map(|(file, requested)| as_json(file, requested, is_trusted));
        print_json(&json!({ "dir": project.root, "files": files.collect::<Vec<_>>() }));
    }
    Ok(code)
}

/// Trusts the files, if the user agrees.
fn grant(args: &TrustArgs, project: &Project) -> Result<Code> {
    if !args.yes {
        if args.json {
            return Ok(exit::FAILED); // only report
        }
        if ask::attendance() == Attendance::Unattended {
            return Err(Fault::usage("cannot ask for confirmation: not a terminal")
                .hint("use `--yes` to trust the files without asking"));
        }
        if !confirm("Trust exactly these contents? [y/N] ") {
            print_line("Not trusted.");
            return Ok(exit::FAILED);
        }
    }
    Memory::remember(&project.files.iter().collect::<Vec<_>>())?;
    if !args.json {
        print_line("Trusted until one of the files changes.");
    }
    Ok(exit::OK)
}

fn show(project: &Project, all: &[(&WorkspaceFile, RequestedAccess)]) {
    print_line(&shown(&project.root.to_string_lossy()));
    if all.is_empty() {
        print_line("  no settings files that need trust");
    }
    all.iter()
        .flat_map(|(file, requested)| describe(file, requested))
        .for_each(|line| print_line(&line));
}

fn as_json(file: &WorkspaceFile, requested: &RequestedAccess, is_trusted: bool) -> Value {
    let standing = if is_trusted {
        Standing::Trusted
    } else {
        file.standing
    };
    json!({
        "file": file.path(), "sha256": file.sha256, "trust": standing.as_str(),
        "asks": requested.grantable, "never": requested.never,
    })
}

/// `ostler trust --list`.
fn list(as_json: bool) -> Result<Code> {
    let memory = Memory::load();
    if let Some(fault) = &memory.fault {
        errln!("warning: {}", shown(fault));
    }
    let projects = memory.projects.iter();
    let rows: Vec<(&String, Vec<(&String, Standing)>)> = projects
        .map(|(dir, files)| (dir, standings(&memory, Path::new(dir), files)))
        .collect();
    if as_json {
        let projects = rows.iter().map(|(dir, files)| {
            let files: Vec<Value> = files
                .iter()
                .map(|(name, standing)| json!({ "file": name, "trust": standing.as_str() }))
                .collect();
            json!({ "dir": dir, "files": files })
        });
        print_json(&json!({ "projects": projects.collect::<Vec<_>>() }));
        return Ok(exit::OK);
    }
    for (dir, files) in &rows {
        print_line(&shown(dir));
        for (name, standing) in files {
            outln!("  {} {DIM}{standing}{DIM:#}", shown(name));
        }
    }
    if rows.is_empty() {
        print_line("No trusted projects.");
    }
    Ok(exit::OK)
}

/// Returns the trusted files with their current state. A missing file counts as changed.
fn standings<'a>(
    memory: &Memory,
    root: &Path,
    files: &'a Remembered,
) -> Vec<(&'a String, Standing)> {
    let current = |name: &String| {
        let mut kinds = FileKind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.names().contains(&name.as_str()))?;
        let file = WorkspaceFile::read(root, kind, name).ok().flatten()?;
        Some(memory.standing(&file))
    };
    files
        .keys()
        .map(|name| (name, current(name).unwrap_or(Standing::Changed)))
        .collect()
}

/// `ostler trust --revoke`: revokes trust in the directory, which need not exist, and in its
/// ancestors within the repository.
fn revoke(dir: &Path, as_json: bool) -> Result<Code> {
    let real: PathBuf = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let mut revoked = Vec::new();
    for dir in within_repository(&real) {
        if Memory::forget(dir)? {
            revoked.push(dir);
        }
    }
    if as_json {
        print_json(&json!({ "dir": real, "revoked": !revoked.is_empty(), "dirs": revoked }));
    } else if revoked.is_empty() {
        outln!("{} was not trusted.", shown(&real.to_string_lossy()));
    } else {
        for dir in &revoked {
            outln!("{} is no longer trusted.", shown(&dir.to_string_lossy()));
        }
    }
    Ok(exit::ok_if(!revoked.is_empty()))
}
