//! `ostler sessions fetch`: puts the changes of a session of a fleet into a branch.

use std::path::{Path, PathBuf};

use ostler::sandbox::program::{Program, ProgramOutput};
use ostler_fleet::owner::sessions::{branch_name, bundle_file};
use ostler_store::{SessionRow, SessionStatus, Store};
use serde_json::json;

use crate::args::SessionsFetchArgs;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::{print_json, print_line};
use crate::store::resolve;
use crate::{config, environment};

/// Fetches the branch of a session. Only its reference changes.
pub(super) async fn run(store: &Store, args: &SessionsFetchArgs) -> Result<Code> {
    let row = resolve(store, &args.id)?;
    let bundle = bundle_of(&row)?;
    let dir = match &args.dir {
        Some(dir) => config::directory(Some(dir))?,
        None => row.dir.clone(),
    };
    let branch = branch_name(&row.session);
    // Without `+`: a branch that exists is moved forward or left alone. Git refuses one that is
    // checked out.
    let refspec = format!("refs/heads/{branch}:refs/heads/{branch}");
    let file = bundle.to_string_lossy();
    // The objects come from a worker, which is not trusted with this machine.
    let fetch = [
        "-c",
        "fetch.fsckObjects=true",
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-recurse-submodules",
    ];
    let output = git(&dir, fetch.into_iter().chain([&*file, &refspec])).await?;
    if !output.succeeded() {
        errln!("{}", output.stderr_text().trim());
        let dir = dir.display();
        errln!("  hint: use `-C DIR` for the repository that has the session's base commit");
        errln!("  hint: `git -C {dir} fetch {file} {branch}` fetches without a branch");
        return Ok(exit::FAILED);
    }
    let commit = git(
        &dir,
        ["rev-parse", "--verify", &format!("refs/heads/{branch}")],
    )
    .await?;
    let commit = commit.stdout_text();
    if args.json {
        let session = &row.session;
        print_json(&json!({ "session": session, "branch": branch, "commit": commit }));
    } else {
        print_line(&branch);
    }
    Ok(exit::OK)
}

/// Returns the bundle of a session.
fn bundle_of(row: &SessionRow) -> Result<PathBuf> {
    let bundle = bundle_file(&bundles_dir()?, &row.session);
    if bundle.is_file() {
        return Ok(bundle);
    }
    let fault = Fault::unavailable("the session left no changes here");
    Err(match row.status {
        SessionStatus::Live(_) => fault.hint("changes arrive when the session ends"),
        SessionStatus::Ended(_) | SessionStatus::Abandoned => {
            fault.hint("only a session in a fleet returns its changes, and only if there are any")
        }
    })
}

/// Returns the directory of the bundles.
pub(crate) fn bundles_dir() -> Result<PathBuf> {
    let state = environment::state_dir()
        .ok_or_else(|| Fault::usage("no directory for sessions: HOME is not set"))?;
    Ok(state.join("fleet").join("bundles"))
}

async fn git<'a>(dir: &Path, args: impl IntoIterator<Item = &'a str>) -> Result<ProgramOutput> {
    let argv = std::iter::once("git").chain(args);
    let program = Program::new(&environment::host(), argv, dir);
    let output = program.run().await;
    output.map_err(|error| Fault::unavailable(error.to_string()).hint("install Git"))
}
