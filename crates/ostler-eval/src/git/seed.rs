//! Seeds: Ostler's own repositories, each with one base commit and its history.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{ATTRIBUTES, Git, GitError};
use crate::case::Source;
use crate::tree::{self, Omit};

/// A repository with the base commit of a case, outside any workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seed {
    path: PathBuf,
    commit: String,
}

impl Seed {
    /// Returns the id of the base commit.
    #[must_use]
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// Returns the bare repository.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns variables that make Git use this repository with a work tree. New objects go to
    /// `objects`, so that the seed never changes.
    pub(super) fn env(
        &self,
        work_tree: &Path,
        index: &Path,
        objects: Option<&Path>,
    ) -> Vec<(OsString, OsString)> {
        let mut env: Vec<(OsString, OsString)> = vec![
            ("GIT_DIR".into(), self.path.clone().into()),
            ("GIT_WORK_TREE".into(), work_tree.into()),
            ("GIT_INDEX_FILE".into(), index.into()),
        ];
        if let Some(objects) = objects {
            let own = self.path.join("objects");
            env.push(("GIT_OBJECT_DIRECTORY".into(), objects.into()));
            env.push(("GIT_ALTERNATE_OBJECT_DIRECTORIES".into(), own.into()));
        }
        env
    }
}

/// Returns a short name for a text in the cache.
fn cache_name(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl Git {
    /// Creates the seed of a case, or finds it in the cache. A repository that is a path is read in
    /// place, without network; others are mirrored once, and updated if a revision is missing.
    ///
    /// # Errors
    /// If the repository cannot be read, or has no such revision.
    pub async fn seed(&self, source: &Source) -> Result<Seed, GitError> {
        match source {
            Source::Repository {
                url,
                branch,
                commit,
            } => {
                self.seed_of_repository(url, branch.as_deref(), commit.as_deref())
                    .await
            }
            Source::Directory(dir) => self.seed_of_directory(Some(dir)).await,
            Source::Empty => self.seed_of_directory(None).await,
        }
    }

    async fn seed_of_repository(
        &self,
        url: &str,
        branch: Option<&str>,
        commit: Option<&str>,
    ) -> Result<Seed, GitError> {
        let revision = commit.or(branch).unwrap_or("HEAD");
        let path = Path::new(url.strip_prefix("file://").unwrap_or(url));
        let (origin, commit) = if path.is_dir() {
            let found = self.resolve(path, revision).await?;
            (path.to_owned(), found)
        } else {
            self.mirror(url, revision, commit.is_some()).await?
        };
        let commit = commit.ok_or_else(|| GitError::NoRevision {
            source_name: url.to_owned(),
            revision: revision.to_owned(),
        })?;
        let branch = branch.unwrap_or("main");
        let name = cache_name(&format!("{url}\0{branch}\0{commit}"));
        let target = self.cache.join("seeds").join(name);
        let seed = Seed {
            path: target.clone(),
            commit: commit.clone(),
        };
        if target.join("HEAD").is_file() {
            return Ok(seed);
        }
        let draft = self.draft().await?;
        let origin = origin.canonicalize().map_err(GitError::io(&origin))?;
        let origin = origin.to_string_lossy().into_owned();
        let fetch = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            &origin,
            &commit,
        ];
        self.git(draft.path(), &fetch).await?;
        let head = format!("refs/heads/{branch}");
        self.git(draft.path(), &["update-ref", &head, &commit])
            .await?;
        self.git(draft.path(), &["symbolic-ref", "HEAD", &head])
            .await?;
        publish(draft, &target)?;
        Ok(seed)
    }

    /// Creates the mirror of a repository, or updates it if a revision is missing. A branch is
    /// always updated, because it may have moved.
    async fn mirror(
        &self,
        url: &str,
        revision: &str,
        is_fixed: bool,
    ) -> Result<(PathBuf, Option<String>), GitError> {
        let target = self.cache.join("mirrors").join(cache_name(url));
        if !target.join("HEAD").is_file() {
            let draft = self.draft_dir()?;
            let path = draft.path().to_string_lossy().into_owned();
            let clone = ["clone", "--quiet", "--mirror", "--", url, &path];
            self.as_user(&self.cache, &clone).await?;
            publish(draft, &target)?;
        } else if !is_fixed || self.resolve(&target, revision).await?.is_none() {
            self.as_user(&target, &["fetch", "--quiet", "--prune", "origin"])
                .await?;
        }
        let commit = self.resolve(&target, revision).await?;
        Ok((target, commit))
    }

    /// Returns the commit of a revision, or `None` if there is none.
    async fn resolve(&self, repository: &Path, revision: &str) -> Result<Option<String>, GitError> {
        for name in [revision.to_owned(), format!("origin/{revision}")] {
            let name = format!("{name}^{{commit}}");
            let args = [
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                &name,
            ];
            match self.text(repository, &args).await {
                Ok(commit) => return Ok(Some(commit)),
                Err(GitError::Command { message, .. }) if message.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Creates a seed from a plain directory, or from nothing, with one commit.
    async fn seed_of_directory(&self, dir: Option<&Path>) -> Result<Seed, GitError> {
        let files = self.draft_dir()?;
        if let Some(dir) = dir {
            tree::copy(dir, files.path(), Omit::Git).map_err(GitError::io(dir))?;
        }
        let draft = self.draft().await?;
        let index = draft.path().join("draft.index");
        let new = Seed {
            path: draft.path().to_owned(),
            commit: String::new(),
        };
        let env = || new.env(files.path(), &index, None);
        let run = |args: Vec<String>| {
            let env = env();
            let dir = files.path().to_owned();
            async move {
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                let output = self.in_work_tree(&dir, &args, env, Vec::new()).await?;
                Ok::<_, GitError>(String::from_utf8_lossy(&output).trim().to_owned())
            }
        };
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        run(words("add --all --force .")).await?;
        let tree = run(words("write-tree")).await?;
        let commit = run(words(&format!("commit-tree -m base {tree}"))).await?;
        run(words(&format!("update-ref refs/heads/main {commit}"))).await?;
        fs::remove_file(&index).map_err(GitError::io(&index))?;
        let target = self.cache.join("seeds").join(cache_name(&commit));
        if !target.join("HEAD").is_file() {
            publish(draft, &target)?;
        }
        Ok(Seed {
            path: target,
            commit,
        })
    }

    fn draft_dir(&self) -> Result<tempfile::TempDir, GitError> {
        let drafts = self.cache.join("drafts");
        fs::create_dir_all(&drafts).map_err(GitError::io(&drafts))?;
        tempfile::tempdir_in(&drafts).map_err(GitError::io(&drafts))
    }

    /// Creates an empty bare repository that is not used yet.
    async fn draft(&self) -> Result<tempfile::TempDir, GitError> {
        let draft = self.draft_dir()?;
        self.git(draft.path(), &["init", "--quiet", "--bare", "--template="])
            .await?;
        let info = draft.path().join("info");
        fs::create_dir_all(&info).map_err(GitError::io(&info))?;
        let attributes = info.join("attributes");
        fs::write(&attributes, ATTRIBUTES).map_err(GitError::io(&attributes))?;
        Ok(draft)
    }
}

/// Moves a finished draft to its place, unless another process was faster.
fn publish(draft: tempfile::TempDir, target: &Path) -> Result<(), GitError> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(GitError::io(parent))?;
    }
    let path = draft.keep();
    match fs::rename(&path, target) {
        Ok(()) => Ok(()),
        Err(_) if target.join("HEAD").is_file() => {
            let _ = tree::remove(&path); // a leftover in the cache is harmless
            Ok(())
        }
        Err(error) => Err(GitError::io(target)(error)),
    }
}
