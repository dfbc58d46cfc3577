//! Changes of a command to protected files are undone, whatever it left there.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn workspace() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for sub in [".ostler", ".git/hooks", ".git/objects"] {
        fs::create_dir_all(dir.path().join(sub)).unwrap();
    }
    fs::write(dir.path().join(".ostler/sandbox.toml"), "[sandbox]\n").unwrap();
    fs::write(dir.path().join(".git/config"), "[core]\n").unwrap();
    fs::write(dir.path().join(".git/hooks/pre-commit"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(
        dir.path().join(".git/hooks/pre-commit"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    dir
}

fn tree(root: &Path) -> SavedEntries {
    let root = Dir::open_ambient_dir(root, cap_std::ambient_authority()).unwrap();
    let mut all = SavedEntries::new();
    for name in root.entries().unwrap() {
        let name = PathBuf::from(name.unwrap().file_name());
        let extent = if name == Path::new(GIT) {
            Extent::Itself
        } else {
            Extent::Tree
        };
        all.extend(collect(&root, &name, extent).ok().unwrap_or_default());
    }
    for path in [".git/config", ".git/hooks", ".git/commondir"] {
        all.extend(
            collect(&root, Path::new(path), Extent::Tree)
                .ok()
                .unwrap_or_default(),
        );
    }
    all
}

/// Changes a workspace, restores it, and returns the restored paths.
fn after(command: &str, harm: impl Fn(&Path)) -> Vec<String> {
    let (dir, outside) = (workspace(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("precious"), "x").unwrap();
    symlink(outside.path(), dir.path().join("link-out")).unwrap();
    let before = tree(dir.path());
    let snapshot = Snapshot::take(dir.path(), command).unwrap();
    harm(dir.path());
    let Restored {
        put_back: restored,
        failed,
    } = snapshot.restore();
    assert_eq!(failed, [""; 0]);
    if command != "git" {
        assert_eq!(tree(dir.path()), before, "everything is restored");
    }
    assert_eq!(
        fs::read_to_string(outside.path().join("precious")).unwrap(),
        "x",
        "files outside are untouched"
    );
    assert_eq!(
        snapshot.restore(),
        Restored::default(),
        "a second restore has nothing to do"
    );
    restored
}

// S2-18
#[test]
fn changes_to_protected_files_are_undone() {
    assert_eq!(after("just", |_| ()), [""; 0]);
    let write = |path: &'static str| move |root: &Path| fs::write(root.join(path), "evil").unwrap();
    assert_eq!(
        after("just", write(".ostler/sandbox.toml")),
        [".ostler/sandbox.toml"]
    );
    assert_eq!(after("just", write(".git/config")), [".git/config"]);
    assert_eq!(
        after("just", write(".git/hooks/post-checkout")),
        [".git/hooks/post-checkout"]
    );
    assert_eq!(after("just", write(".git/commondir")), [".git/commondir"]);
    assert_eq!(
        after("just", |root| fs::remove_dir_all(root.join(".ostler"))
            .unwrap())
        .len(),
        2
    );
    assert_eq!(
        after("just", |root| {
            let mode = fs::Permissions::from_mode(0o644);
            fs::set_permissions(root.join(".git/hooks/pre-commit"), mode).unwrap();
        }),
        [".git/hooks/pre-commit"]
    );
    assert_eq!(after("git", write(".git/config")), [".git/config"]);
    let branch_settings = |root: &Path| {
        fs::write(
            root.join(".git/config"),
            "[core]\n[branch \"x\"]\n\tremote = .\n\tmerge = refs/heads/y\n",
        )
        .unwrap();
    };
    assert_eq!(
        after("git", branch_settings),
        [""; 0],
        "git may write branch settings"
    );
    assert_eq!(after("just", branch_settings), [".git/config"]);
    let rebasing = |root: &Path| {
        fs::create_dir(root.join(".git/rebase-merge")).unwrap();
        fs::write(
            root.join(".git/rebase-merge/git-rebase-todo"),
            "exec ./evil",
        )
        .unwrap();
    };
    assert_eq!(
        after("just", rebasing),
        [".git/rebase-merge", ".git/rebase-merge/git-rebase-todo"]
    );
    assert_eq!(after("git", rebasing), [""; 0]);
    assert_eq!(
        after("git", write(".git/hooks/pre-push")),
        [".git/hooks/pre-push"]
    );
}

// The restore runs unconfined, so links must not lead it anywhere.
#[test]
fn links_do_not_lead_out_of_the_workspace() {
    let restored = after("just", |root| {
        let out = fs::read_link(root.join("link-out")).unwrap();
        fs::remove_dir_all(root.join(".git/hooks")).unwrap();
        symlink(&out, root.join(".git/hooks")).unwrap();
        fs::remove_dir_all(root.join(".ostler")).unwrap();
        symlink(&out, root.join(".ostler")).unwrap();
    });
    assert!(
        restored.contains(&".git/hooks".to_owned()) && restored.contains(&".ostler".to_owned()),
        "{restored:?}"
    );
    let restored = after("just", |root| {
        fs::remove_dir_all(root.join(".git")).unwrap();
        symlink(
            fs::read_link(root.join("link-out")).unwrap(),
            root.join(".git"),
        )
        .unwrap();
    });
    assert!(restored.contains(&".git".to_owned()), "{restored:?}");
}

#[test]
fn too_large_tree_is_refused_and_grown_tree_is_restored() {
    let dir = workspace();
    fs::write(dir.path().join(".ostler/large"), vec![0; 5 * 1024 * 1024]).unwrap();
    assert_eq!(
        Snapshot::take(dir.path(), "just").unwrap_err().code,
        Code::TooLarge
    );
    let restored = after("just", |root| {
        for number in 0..3000 {
            fs::write(root.join(format!(".git/hooks/{number}")), "").unwrap();
        }
    });
    assert_eq!(restored, [".git/hooks"]);
}

// Nothing left at a path can stop the restore: no mode, no depth.
#[test]
fn modes_and_depth_do_not_prevent_the_restore() {
    let shut = |root: &Path, path: &str| {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(0o0)).unwrap();
    };
    assert_eq!(
        after("just", |root| shut(root, ".git/hooks")),
        [".git/hooks"]
    );
    assert!(after("just", |root| shut(root, ".git")).contains(&".git".to_owned()));
    let restored = after("just", |root| {
        fs::write(root.join(".ostler/x"), "").unwrap();
        fs::create_dir_all(root.join(".ostler/a/b")).unwrap();
        for path in [".ostler/a/b", ".ostler/a", ".ostler"] {
            shut(root, path);
        }
    });
    assert!(restored.contains(&".ostler".to_owned()), "{restored:?}");
    let restored = after("just", |root| {
        let hooks =
            Dir::open_ambient_dir(root.join(".git/hooks"), cap_std::ambient_authority()).unwrap();
        let mut at = hooks;
        for _ in 0..3000 {
            at.create_dir("dddd").unwrap();
            at = at.open_dir("dddd").unwrap();
        }
    });
    assert_eq!(restored, [".git/hooks"]);
}

// No command but git creates a repository, and none may create one elsewhere.
#[test]
fn only_git_creates_a_repository() {
    let restored_after = |command: &str, make: &dyn Fn(&Path)| {
        let dir = tempfile::tempdir().unwrap();
        let snapshot = Snapshot::take(dir.path(), command).unwrap();
        make(dir.path());
        let restored = snapshot.restore();
        assert_eq!(restored.failed, [""; 0]);
        let left = fs::read_dir(dir.path()).unwrap().count();
        (restored.put_back, left, dir)
    };
    let file = |root: &Path| fs::write(root.join(".git"), "gitdir: evil").unwrap();
    let link = |root: &Path| symlink("evil", root.join(".git")).unwrap();
    let directory = |root: &Path| {
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        fs::write(root.join(".git/hooks/pre-commit"), "evil").unwrap();
        fs::write(root.join(".git/config"), "[core]\n\tbare = false\n").unwrap();
    };
    for command in ["git", "just"] {
        for make in [&file as &dyn Fn(&Path), &link] {
            let (restored, left, _dir) = restored_after(command, make);
            assert_eq!((restored, left), (vec![".git".to_owned()], 0), "{command}");
        }
    }
    let (restored, left, _dir) = restored_after("just", &directory);
    assert_eq!((restored, left), (vec![".git".to_owned()], 0));
    let (restored, _, dir) = restored_after("git", &directory);
    assert_eq!(restored, [".git/hooks", ".git/hooks/pre-commit"]);
    assert!(dir.path().join(".git/config").exists() && !dir.path().join(".git/hooks").exists());
    let (restored, ..) = restored_after("git", &|root: &Path| {
        directory(root);
        fs::write(root.join(".git/config"), "[core]\n\tfsmonitor = x\n").unwrap();
    });
    assert!(restored.contains(&".git/config".to_owned()), "{restored:?}");
}
