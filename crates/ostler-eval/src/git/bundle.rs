//! Bundles: the changes of a workspace as a branch in one file.

use std::ffi::OsString;
use std::path::Path;

use ostler::event::Timestamp;

use super::{Command, Git, GitError, Seed, Snapshot};

/// The branch of a bundle.
#[derive(Debug, Clone, Copy)]
pub struct Branch<'a> {
    /// Its name, such as `ostler/0f8fad5b`.
    pub name: &'a str,
    /// Message of its commit.
    pub message: &'a str,
    /// Time of its commit.
    pub at: Timestamp,
    /// Whether the reader has the base commit, which is left out then.
    pub omits_base: bool,
    /// The file of the bundle.
    pub file: &'a Path,
}

impl Git {
    /// Writes a bundle with one branch: the snapshot as a commit on top of the base. Returns false,
    /// and writes nothing, if the snapshot has the files of the base.
    ///
    /// # Errors
    /// If Git fails.
    pub async fn bundle(
        &self,
        seed: &Seed,
        trial: &Path,
        snapshot: &Snapshot,
        branch: Branch<'_>,
    ) -> Result<bool, GitError> {
        // A repository of its own, so that the seed never gets a branch of an agent.
        let repository = trial.join("bundle.git");
        let path = repository.to_string_lossy().into_owned();
        self.git(trial, &["init", "--quiet", "--bare", "--template=", &path])
            .await?;
        let date = format!("@{} +0000", branch.at.0.div_euclid(1000));
        let env = || -> Vec<(OsString, OsString)> {
            vec![
                ("GIT_DIR".into(), repository.clone().into()),
                ("GIT_OBJECT_DIRECTORY".into(), trial.join("objects").into()),
                (
                    "GIT_ALTERNATE_OBJECT_DIRECTORIES".into(),
                    seed.path().join("objects").into(),
                ),
                ("GIT_AUTHOR_DATE".into(), date.clone().into()),
                ("GIT_COMMITTER_DATE".into(), date.clone().into()),
                ("GIT_AUTHOR_NAME".into(), "Ostler".into()),
                ("GIT_AUTHOR_EMAIL".into(), "ostler@localhost".into()),
                ("GIT_COMMITTER_NAME".into(), "Ostler".into()),
                ("GIT_COMMITTER_EMAIL".into(), "ostler@localhost".into()),
            ]
        };
        let run = async |args: &[&str], input: &str| {
            let command = Command {
                args,
                dir: trial,
                env: env(),
                input: input.as_bytes().to_vec(),
            };
            let output = self.run(command).await?;
            Ok::<_, GitError>(String::from_utf8_lossy(&output).trim().to_owned())
        };
        let base_tree = format!("{}^{{tree}}", seed.commit());
        if run(&["rev-parse", "--verify", &base_tree], "").await? == snapshot.tree {
            return Ok(false);
        }
        let commit = ["commit-tree", "-p", seed.commit(), &snapshot.tree];
        let commit = run(&commit, branch.message).await?;
        let name = format!("refs/heads/{}", branch.name);
        run(&["update-ref", &name, &commit], "").await?;
        let file = branch.file.to_string_lossy();
        let base = format!("^{}", seed.commit());
        let mut create = vec!["bundle", "create", "--quiet", &file, &name];
        if branch.omits_base {
            create.push(&base);
        }
        run(&create, "").await?;
        Ok(true)
    }
}
