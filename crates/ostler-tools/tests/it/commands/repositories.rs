//! What a command leaves for the user's next git to run is found, undone and reported.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ostler_tools::command::{Restored, Snapshot};

/// A workspace with an honest repository, and a program that leaves a mark when it runs.
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

    /// Runs a line of shell in the workspace, with the user's settings of git.
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

    /// A command does what the line says; gives what was put back.
    fn command(&self, name: &str, line: &str) -> Vec<String> {
        let snapshot = Snapshot::take(&self.work, name).unwrap();
        self.sh(line);
        let Restored { put_back, failed } = snapshot.restore();
        assert_eq!(failed, [""; 0], "{line}");
        assert_eq!(
            snapshot.restore(),
            Restored::default(),
            "{line}: the second time there is nothing to do"
        );
        put_back
    }

    /// The user goes on working in these places, and the program does not run.
    #[track_caller]
    fn is_harmless(&self, places: &[&str]) {
        for place in ["."].iter().chain(places) {
            let dir = self.work.join(place);
            let used = "git status; git log -1; git add -A; git stash list; git checkout -q -b \"b$$\"; git commit -q --allow-empty -m x; true";
            if dir.is_dir() {
                self.sh(&format!("cd {place} && ({used}) >/dev/null 2>&1; true"));
            }
            assert!(
                !self.all.join("it-ran").exists(),
                "in {place} the program ran"
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
    let told = attack.command(
        "just",
        "git init -q --bare src && git -C src config core.bare false && git -C src config core.fsmonitor $EVIL",
    );
    assert_eq!(told, ["src/HEAD"]);
    attack.is_harmless(&["src"]);
    assert!(attack.has("src/main.rs"));
    assert_eq!(
        attack.sh("git -C src rev-parse --show-toplevel").trim(),
        attack.work.to_str().unwrap()
    );
    // Nor by another name for the same thing.
    let attack = Attack::new();
    let told = attack
        .command("git", "mkdir -p src/x && echo ref: refs/heads/m > src/x/HEAD && echo ../../.git > src/x/commondir");
    assert_eq!(told, ["src/x/HEAD"]);
}

#[test]
fn a_new_repository_keeps_nothing_that_runs() {
    for name in ["git", "just"] {
        let attack = Attack::new();
        let told = attack.command(
            name,
            "git init -q sub && cd sub && git config core.fsmonitor $EVIL && git config user.name B && cp $EVIL .git/hooks/post-checkout",
        );
        assert_eq!(told, ["sub/.git/config", "sub/.git/hooks"], "{name}");
        attack.is_harmless(&["sub"]);
        assert_eq!(
            attack.sh("git -C sub config user.name"),
            "B\n",
            "what is harmless stays"
        );
        let told = attack.command(
            name,
            "git init -q --bare new.git && cp $EVIL new.git/hooks/pre-receive",
        );
        assert_eq!(told, ["new.git/hooks"], "{name}");
        assert!(
            attack.has("new.git/HEAD"),
            "an honest bare repository stays"
        );
    }
}

#[test]
fn an_honest_new_repository_stays_as_it_is() {
    let attack = Attack::new();
    let told = attack.command(
        "just",
        "git init -q dep && cd dep && git remote add origin https://example.org/x && git commit -q --allow-empty -m x",
    );
    assert_eq!(told, [""; 0]);
    assert_eq!(attack.sh("git -C dep remote"), "origin\n");
    let told = attack.command(
        "git",
        "git -C dep commit -q --allow-empty -m y && git commit -q --allow-empty -m z",
    );
    assert_eq!(
        told, [""; 0],
        "git does its work in repositories that exist"
    );
}

#[test]
fn settings_and_hooks_of_a_nested_repository_are_as_before() {
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
        let told = attack.command("just", line);
        assert!(told.contains(&expected.to_owned()), "{line}: {told:?}");
        attack.is_harmless(&["a/b", "store.git"]);
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
    // A file that leads to a repository of the workspace is a submodule or a worktree, and that is looked after.
    let told = attack.command("git", "git worktree add -q tree && test -f tree/.git");
    assert_eq!(told, [""; 0]);
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
        let told = attack.command("just", line);
        assert!(told.contains(&expected.to_owned()), "{line}: {told:?}");
        attack.is_harmless(&["tree"]);
    }
}

// A patch can hold a hook, and `git apply` writes it where it is told to.
#[test]
fn a_patch_does_not_bring_hooks() {
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
        let told = attack.command("git", &format!("{patch} && {line}"));
        assert_eq!(told, [expected], "{line}");
        attack.is_harmless(&["store.git"]);
    }
}

#[test]
fn what_settings_lead_to_is_as_before() {
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
            let told = attack.command(name, line);
            assert!(told.contains(&expected.to_owned()), "{line}: {told:?}");
        }
        attack.sh("rm -rf .other");
        attack.is_harmless(&[]);
    }
}

#[test]
fn a_nested_repository_is_not_added_as_a_link() {
    let attack = Attack::new();
    attack.sh("git init -q dep && git -C dep commit -q --allow-empty -m x");
    let told = attack.command("git", "git add -A 2>/dev/null");
    assert_eq!(told, [".git/index"]);
    assert!(!attack.sh("git ls-files -s").contains("160000"));
    // A submodule that the repository listed before is one; a command cannot list it for itself.
    let list = "printf '[submodule \"dep\"]\\n\\tpath = dep\\n\\turl = ./dep\\n' > .gitmodules";
    let told = attack.command("git", &format!("{list} && git add -A 2>/dev/null"));
    assert_eq!(told, [".git/index"]);
    attack.sh(list);
    let told = attack.command("git", "git add -A 2>/dev/null");
    assert_eq!(told, [""; 0]);
    assert!(attack.sh("git ls-files -s").contains("160000"));
}

#[test]
fn a_repository_cannot_be_hidden_from_the_scan() {
    let attack = Attack::new();
    let told = attack.command(
        "just",
        "git init -q hidden && git -C hidden config core.fsmonitor $EVIL && chmod 311 hidden hidden/.git && \
         d=deep; for i in $(seq 300); do d=$d/a-name-of-20-letters; done; mkdir -p deep && cd deep && \
         for i in $(seq 300); do mkdir a-name-of-20-letters; cd a-name-of-20-letters; done; \
         unset PWD; git init -q --bare . ; mkdir -p hooks objects refs; echo 'ref: refs/heads/x' > HEAD; cp $EVIL hooks/post-checkout; true",
    );
    assert!(told.contains(&"hidden/.git/config".to_owned()), "{told:?}");
    assert!(
        told.iter()
            .any(|path| path.starts_with("deep/") && path.ends_with("hooks")),
        "{told:?}"
    );
    attack.is_harmless(&["hidden"]);
}

/// A git directory with settings that run the program, made of the parts of the workspace's own.
const HIDDEN: &str = "hide() { mkdir -p $1; cp -r .git/objects .git/refs .git/HEAD $1/; \
    printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tfsmonitor = %s\\n' $EVIL > $1/config; }; ";

// Git directories in places where nobody looks, led to by a `.git` file and a gitlink that `.gitmodules` lists.
#[test]
fn hidden_git_directories_run_nothing() {
    let link = "printf '[submodule \"sub\"]\\n\\tpath = sub\\n\\turl = https://example.org/x\\n' > .gitmodules; \
                git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub";
    for (place, line) in [
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
                "{HIDDEN}{line}; echo gitdir: ../{place} > sub/.git; echo gitdir: ../{place} > tracked/.git; {link}"
            );
            let told = attack.command(name, &line);
            assert!(!told.is_empty(), "{name}: {place}");
            let index = attack.sh("git ls-files -s");
            assert!(!index.contains("160000"), "{name}: {place}: {index}");
            attack.is_harmless(&["sub", "tracked"]);
        }
    }
}

// The index cannot be replaced by something that is not read, nor hide entries in another file.
#[test]
fn a_gitlink_is_found_however_the_index_is_kept() {
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
        attack.is_harmless(&["dep"]);
    }
    // Nor where there was none.
    let attack = Attack::new();
    attack.sh("rm .git/index");
    attack.command("just", add);
    assert!(!attack.sh("git ls-files -s").contains("160000"));
}

// What `git init` would complete, and a remote that git would ask by itself.
#[test]
fn half_a_repository_keeps_nothing_that_runs() {
    let attack = Attack::new();
    let told = attack.command(
        "just",
        "mkdir -p half/.git/hooks && git config -f half/.git/config core.fsmonitor $EVIL && cp $EVIL half/.git/hooks/pre-commit",
    );
    assert!(!told.is_empty());
    attack.sh("git init -q half");
    attack.is_harmless(&["half"]);
    let told = attack.command(
        "just",
        "git init -q part && git -C part config extensions.partialClone o && git -C part config remote.o.promisor true",
    );
    assert_eq!(told, ["part/.git/config"]);
}
