//! Files left by a command that the user's next git command would run are found, undone and
//! reported.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ostler_tools::command::{Restored, Snapshot};

/// A workspace with a regular repository, and a program that creates a marker file when it runs.
struct Attack {
    _temp: tempfile::TempDir,
    all: PathBuf,
    work: PathBuf,
}

impl Attack {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let all = temp.path().canonicalize().unwrap();
        let work = all.join("work");
        fs::create_dir_all(work.join("src")).unwrap();
        fs::write(work.join("src/main.rs"), "fn main() {}\n").unwrap();
        fs::write(
            all.join("evil"),
            format!("#!/bin/sh\ntouch {}\n", all.join("it-ran").display()),
        )
        .unwrap();
        fs::set_permissions(
            all.join("evil"),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        let attack = Self {
            _temp: temp,
            all,
            work,
        };
        attack.sh("git init -q -b main && git add . && git commit -q -m first");
        attack
    }

    /// Runs a shell line in the workspace, with the user's git settings.
    fn sh(&self, line: &str) -> String {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(line)
            .current_dir(&self.work)
            .env("HOME", &self.all)
            .env("EVIL", self.all.join("evil"));
        for (name, value) in [("NAME", "A"), ("EMAIL", "a@example.org")] {
            command
                .env(format!("GIT_AUTHOR_{name}"), value)
                .env(format!("GIT_COMMITTER_{name}"), value);
        }
        let output = command.env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
        assert!(
            output.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the line as a command, and returns the restored paths.
    fn command(&self, name: &str, line: &str) -> Vec<String> {
        let snapshot = Snapshot::take(&self.work, name).unwrap();
        self.sh(line);
        let Restored { put_back, failed } = snapshot.restore();
        assert_eq!(failed, [""; 0], "{line}");
        assert_eq!(
            snapshot.restore(),
            Restored::default(),
            "{line}: a second restore has nothing to do"
        );
        put_back
    }

    /// Asserts that the user can keep working in these directories without running the program.
    #[track_caller]
    fn assert_harmless(&self, directories: &[&str]) {
        for directory in ["."].iter().chain(directories) {
            let dir = self.work.join(directory);
            let git_commands = "git status; git log -1; git add -A; git stash list; git checkout -q -b \"b$$\"; git commit -q --allow-empty -m x; true";
            if dir.is_dir() {
                self.sh(&format!(
                    "cd {directory} && ({git_commands}) >/dev/null 2>&1; true"
                ));
            }
            assert!(
                !self.all.join("it-ran").exists(),
                "the program ran in {directory}"
            );
        }
    }

    fn has(&self, path: &str) -> bool {
        fs::symlink_metadata(self.work.join(path)).is_ok()
    }
}

#[test]
fn an_existing_directory_does_not_become_a_repository() {
    let attack = Attack::new();
    let restored = attack.command(
        "just",
        "git init -q --bare src && git -C src config core.bare false && git -C src config core.fsmonitor $EVIL",
    );
    assert_eq!(restored, ["src/HEAD"]);
    attack.assert_harmless(&["src"]);
    assert!(attack.has("src/main.rs"));
    assert_eq!(
        attack.sh("git -C src rev-parse --show-toplevel").trim(),
        attack.work.to_str().unwrap()
    );
    // Nor in the form of a worktree.
    let attack = Attack::new();
    let restored = attack
        .command("git", "mkdir -p src/x && echo ref: refs/heads/m > src/x/HEAD && echo ../../.git > src/x/commondir");
    assert_eq!(restored, ["src/x/HEAD"]);
}

#[test]
fn new_repository_loses_everything_that_runs() {
    for name in ["git", "just"] {
        let attack = Attack::new();
        let restored = attack.command(
            name,
            "git init -q sub && cd sub && git config core.fsmonitor $EVIL && git config user.name B && cp $EVIL .git/hooks/post-checkout",
        );
        assert_eq!(restored, ["sub/.git/config", "sub/.git/hooks"], "{name}");
        attack.assert_harmless(&["sub"]);
        assert_eq!(
            attack.sh("git -C sub config user.name"),
            "B\n",
            "harmless settings remain"
        );
        let restored = attack.command(
            name,
            "git init -q --bare new.git && cp $EVIL new.git/hooks/pre-receive",
        );
        assert_eq!(restored, ["new.git/hooks"], "{name}");
        assert!(
            attack.has("new.git/HEAD"),
            "a regular bare repository remains"
        );
    }
}

#[test]
fn regular_new_repository_is_unchanged() {
    let attack = Attack::new();
    let restored = attack.command(
        "just",
        "git init -q dep && cd dep && git remote add origin https://example.org/x && git commit -q --allow-empty -m x",
    );
    assert_eq!(restored, [""; 0]);
    assert_eq!(attack.sh("git -C dep remote"), "origin\n");
    let restored = attack.command(
        "git",
        "git -C dep commit -q --allow-empty -m y && git commit -q --allow-empty -m z",
    );
    assert_eq!(restored, [""; 0], "git works in existing repositories");
}

#[test]
fn settings_and_hooks_of_nested_repository_are_restored() {
    let attack = Attack::new();
    attack.sh("git init -q a/b && git init -q --bare store.git && printf '#!/bin/sh\\n' > a/b/.git/hooks/pre-push");
    for (line, expected) in [
        ("git -C a/b config core.fsmonitor $EVIL", "a/b/.git/config"),
        (
            "cp $EVIL a/b/.git/hooks/post-checkout",
            "a/b/.git/hooks/post-checkout",
        ),
        (
            "cp $EVIL a/b/.git/hooks/pre-push",
            "a/b/.git/hooks/pre-push",
        ),
        (
            "mkdir -p store.git/hooks && cp $EVIL store.git/hooks/reference-transaction",
            "store.git/hooks/reference-transaction",
        ),
        (
            "git -C store.git config core.fsmonitor $EVIL",
            "store.git/config",
        ),
        (
            "mkdir e && cp -r a/b/.git e/git && git config -f e/git/config core.fsmonitor $EVIL && echo ../../../e/git > a/b/.git/commondir",
            "a/b/.git/commondir",
        ),
        (
            "git -C a/b config extensions.worktreeConfig true && git -C a/b config --worktree core.fsmonitor $EVIL",
            "a/b/.git/config.worktree",
        ),
    ] {
        let restored = attack.command("just", line);
        assert!(
            restored.contains(&expected.to_owned()),
            "{line}: {restored:?}"
        );
        attack.assert_harmless(&["a/b", "store.git"]);
    }
}

#[test]
fn a_git_file_or_link_planted_below_is_removed() {
    let attack = Attack::new();
    for line in [
        "git init -q --bare /dev/null 2>/dev/null; echo 'gitdir: /tmp/not-there' > src/.git",
        "echo 'gitdir: ../../evil-store' > src/.git",
        "ln -s ../../elsewhere src/.git",
        "ln -s ../.git src/.git",
    ] {
        assert_eq!(attack.command("just", line), ["src/.git"], "{line}");
        assert!(!attack.has("src/.git"), "{line}");
    }
    // A file that points to a repository of the workspace is a submodule or a worktree, and that is
    // checked.
    let restored = attack.command("git", "git worktree add -q tree && test -f tree/.git");
    assert_eq!(restored, [""; 0]);
    assert!(attack.has("tree/.git"));
    for (line, expected) in [
        (
            "mkdir e && cp -r .git e/git && git config -f e/git/config core.fsmonitor $EVIL && echo ../../../e/git > .git/worktrees/tree/commondir",
            ".git/worktrees/tree/commondir",
        ),
        (
            "git config extensions.worktreeConfig true && git -C tree config --worktree core.fsmonitor $EVIL",
            ".git/worktrees/tree/config.worktree",
        ),
        (
            "git init -q o && echo \"gitdir: $PWD/o/.git\" > tree/.git",
            "tree/.git",
        ),
    ] {
        let restored = attack.command("just", line);
        assert!(
            restored.contains(&expected.to_owned()),
            "{line}: {restored:?}"
        );
        attack.assert_harmless(&["tree"]);
    }
}

// A patch can contain a hook, and `git apply` writes it to any path.
#[test]
fn patch_cannot_add_hooks() {
    let attack = Attack::new();
    attack.sh("git init -q --bare store.git && mkdir .githooks && printf '#!/bin/sh\\n' > .githooks/pre-push && git config core.hooksPath .githooks");
    let patch = "printf '%s\\n' 'diff --git a/post-checkout b/post-checkout' 'new file mode 100755' '--- /dev/null' '+++ b/post-checkout' '@@ -0,0 +1,2 @@' '+#!/bin/sh' \"+$EVIL\" > p.patch";
    for (line, expected) in [
        (
            "git apply --directory=store.git/hooks p.patch",
            "store.git/hooks/post-checkout",
        ),
        (
            "git apply --directory=.githooks p.patch",
            ".githooks/post-checkout",
        ),
    ] {
        let restored = attack.command("git", &format!("{patch} && {line}"));
        assert_eq!(restored, [expected], "{line}");
        attack.assert_harmless(&["store.git"]);
    }
}

#[test]
fn files_referenced_by_settings_are_restored() {
    let attack = Attack::new();
    attack.sh(
        "mkdir .githooks && printf '#!/bin/sh\\n' > .githooks/pre-commit && git config core.hooksPath .githooks && \
         git config include.path ../shared.cfg && printf '[user]\\nname = A\\n' > shared.cfg && \
         git config includeIf.onbranch:main.path ../absent.cfg && printf '#!/bin/sh\\n' > monitor && chmod +x monitor && \
         git config core.fsmonitor ./monitor && printf '# mine\\n' > ostler.toml",
    );
    for (line, expected) in [
        ("cp $EVIL .githooks/pre-commit", ".githooks/pre-commit"),
        (
            "cp $EVIL .githooks/post-checkout",
            ".githooks/post-checkout",
        ),
        ("git config -f shared.cfg core.pager $EVIL", "shared.cfg"),
        (
            "git config -f absent.cfg core.fsmonitor $EVIL",
            "absent.cfg",
        ),
        ("cp $EVIL monitor", "monitor"),
        ("printf 'x' > ostler.toml", "ostler.toml"),
        ("rm ostler.toml", "ostler.toml"),
        ("mv .githooks .other && ln -s .. .githooks", ".githooks"),
    ] {
        for name in ["just", "git"] {
            let restored = attack.command(name, line);
            assert!(
                restored.contains(&expected.to_owned()),
                "{line}: {restored:?}"
            );
        }
        attack.sh("rm -rf .other");
        attack.assert_harmless(&[]);
    }
}

#[test]
fn nested_repository_is_not_added_as_a_gitlink() {
    let attack = Attack::new();
    attack.sh("git init -q dep && git -C dep commit -q --allow-empty -m x");
    let restored = attack.command("git", "git add -A 2>/dev/null");
    assert_eq!(restored, [".git/index"]);
    assert!(!attack.sh("git ls-files -s").contains("160000"));
    // A submodule that the repository listed before is accepted; a command cannot list it for
    // itself.
    let list = "printf '[submodule \"dep\"]\\n\\tpath = dep\\n\\turl = ./dep\\n' > .gitmodules";
    let restored = attack.command("git", &format!("{list} && git add -A 2>/dev/null"));
    assert_eq!(restored, [".git/index"]);
    attack.sh(list);
    let restored = attack.command("git", "git add -A 2>/dev/null");
    assert_eq!(restored, [""; 0]);
    assert!(attack.sh("git ls-files -s").contains("160000"));
}

#[test]
fn a_repository_cannot_be_hidden_from_the_scan() {
    let attack = Attack::new();
    let restored = attack.command(
        "just",
        "git init -q hidden && git -C hidden config core.fsmonitor $EVIL && chmod 311 hidden hidden/.git && \
         d=deep; for i in $(seq 300); do d=$d/a-name-of-20-letters; done; mkdir -p deep && cd deep && \
         for i in $(seq 300); do mkdir a-name-of-20-letters; cd a-name-of-20-letters; done; \
         unset PWD; git init -q --bare . ; mkdir -p hooks objects refs; echo 'ref: refs/heads/x' > HEAD; cp $EVIL hooks/post-checkout; true",
    );
    assert!(
        restored.contains(&"hidden/.git/config".to_owned()),
        "{restored:?}"
    );
    assert!(
        restored
            .iter()
            .any(|path| path.starts_with("deep/") && path.ends_with("hooks")),
        "{restored:?}"
    );
    attack.assert_harmless(&["hidden"]);
}

/// Creates a git directory whose settings run the program, from parts of the workspace's own.
const HIDDEN: &str = "hide() { mkdir -p $1; cp -r .git/objects .git/refs .git/HEAD $1/; \
    printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tfsmonitor = %s\\n' $EVIL > $1/config; }; ";

// Hidden git directories, referenced by a `.git` file and a gitlink that `.gitmodules` lists.
#[test]
fn hidden_git_directories_run_nothing() {
    let link = "printf '[submodule \"sub\"]\\n\\tpath = sub\\n\\turl = https://example.org/x\\n' > .gitmodules; \
                git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub";
    for (directory, line) in [
        (".git/foo", "hide .git/foo"),
        (".git/objects/ab/foo", "hide .git/objects/ab/foo"),
        (
            "honest/inner",
            "hide honest; printf '[core]\\n\\tbare = true\\n' > honest/config; hide honest/inner",
        ),
        (
            "evil/worktrees/w",
            "hide evil; mkdir -p evil/worktrees/w; mv evil/HEAD evil/worktrees/w/; echo ../.. > evil/worktrees/w/commondir",
        ),
    ] {
        for name in ["git", "just"] {
            let attack = Attack::new();
            attack.sh("mkdir sub tracked && touch sub/x tracked/x");
            let line = format!(
                "{HIDDEN}{line}; echo gitdir: ../{directory} > sub/.git; echo gitdir: ../{directory} > tracked/.git; {link}"
            );
            let restored = attack.command(name, &line);
            assert!(!restored.is_empty(), "{name}: {directory}");
            let index = attack.sh("git ls-files -s");
            assert!(!index.contains("160000"), "{name}: {directory}: {index}");
            attack.assert_harmless(&["sub", "tracked"]);
        }
    }
}

// The index cannot be replaced by something unreadable, nor hide entries in another file.
#[test]
fn gitlink_is_found_in_every_form_of_the_index() {
    let add = "git init -q dep && git -C dep commit -q --allow-empty -m x && git config -f dep/.git/config core.fsmonitor $EVIL; \
               git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),dep";
    for after in [
        "true",
        "mv .git/index .git/other && ln -s other .git/index",
        "git update-index --split-index",
    ] {
        let attack = Attack::new();
        attack.command("just", &format!("{add}; {after}"));
        let index = attack.sh("git ls-files -s");
        assert!(!index.contains("160000"), "{after}: {index}");
        attack.assert_harmless(&["dep"]);
    }
    // Nor if there was no index before.
    let attack = Attack::new();
    attack.sh("rm .git/index");
    attack.command("just", add);
    assert!(!attack.sh("git ls-files -s").contains("160000"));
}

// A repository that `git init` would complete, and a remote that git would contact automatically.
#[test]
fn incomplete_repository_loses_everything_that_runs() {
    let attack = Attack::new();
    let restored = attack.command(
        "just",
        "mkdir -p half/.git/hooks && git config -f half/.git/config core.fsmonitor $EVIL && cp $EVIL half/.git/hooks/pre-commit",
    );
    assert!(!restored.is_empty());
    attack.sh("git init -q half");
    attack.assert_harmless(&["half"]);
    let restored = attack.command(
        "just",
        "git init -q part && git -C part config extensions.partialClone o && git -C part config remote.o.promisor true",
    );
    assert_eq!(restored, ["part/.git/config"]);
}
