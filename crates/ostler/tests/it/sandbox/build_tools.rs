//! Build and test tools in the sandbox, without network and without a policy file. The tools must
//! be installed.
#![cfg(target_os = "linux")]
use std::fs;

use super::rig::Scene;

/// A scene with this machine's tools on PATH.
fn scene() -> Scene {
    let mut scene = Scene::new();
    for name in ["PATH", "CARGO_HOME", "RUSTUP_HOME", "PYENV_ROOT"] {
        if let Ok(value) = std::env::var(name) {
            scene = scene.var(name, &value);
        }
    }
    // Where no variable names them, they are in the real home.
    let home = std::env::var("HOME").unwrap_or_default();
    for (name, place) in [
        ("CARGO_HOME", ".cargo"),
        ("RUSTUP_HOME", ".rustup"),
        ("PYENV_ROOT", ".pyenv"),
    ] {
        if std::env::var(name).is_err() {
            scene = scene.var(name, &format!("{home}/{place}"));
        }
    }
    scene
}

async fn passes(scene: &Scene, command: &str, args: &[&str], wanted: &str) {
    let done = scene.call(command, args).await.unwrap();
    assert!(
        done.code() == Some(0) && done.text.contains(wanted),
        "{command} {args:?}: {}",
        done.text
    );
}

fn write(scene: &Scene, files: &[(&str, &str)]) {
    for (name, text) in files {
        let file = scene.work().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}

/// Returns true if the machine's sandbox has every layer. Elsewhere only the preset `strict`
/// applies, and the test is skipped.
fn is_whole(scene: &Scene, test: &str) -> bool {
    let report = scene.runner().report();
    let gaps: Vec<&str> = report.gaps().map(|gap| gap.name).collect();
    gaps.iter().all(|gap| super::rig::has(&report, gap, test))
}

// Issue 14, "Commands a model may run": a dependency that was fetched before is used, and nothing
// is fetched.
#[tokio::test]
async fn cargo_tests_a_crate_with_a_dependency() {
    let scene = scene();
    if !is_whole(&scene, "cargo_tests_a_crate_with_a_dependency") {
        return;
    }
    write(
        &scene,
        &[
            (
                "Cargo.toml",
                "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nitoa = \"1\"\n[workspace]\n",
            ),
            (
                "src/lib.rs",
                "#[test]\nfn t() { assert_eq!(itoa::Buffer::new().format(42), \"42\"); }\n",
            ),
        ],
    );
    passes(&scene, "cargo", &["test", "--lib"], "1 passed").await;
}

// A project below its repository root: cargo looks for settings in every parent directory, and
// fails on files it cannot read.
#[tokio::test]
async fn settings_above_the_project_are_read_and_nothing_else_is() {
    let scene = scene();
    if !is_whole(
        &scene,
        "settings_above_the_project_are_read_and_nothing_else_is",
    ) {
        return;
    }
    fs::create_dir_all(scene.at(".cargo")).unwrap();
    fs::write(
        scene.at(".cargo/config.toml"),
        "[alias]\nproved = \"test --lib\"\n",
    )
    .unwrap();
    fs::write(scene.at("package.json"), super::rig::SECRET).unwrap();
    std::os::unix::fs::symlink("/etc/shadow", scene.at("clippy.toml")).unwrap();
    write(
        &scene,
        &[
            (
                "Cargo.toml",
                "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
            ),
            ("src/lib.rs", "#[test]\nfn t() {}\n"),
            (
                "Makefile",
                "look:\n\t-cat ../package.json ../outside/file ../clippy.toml\n\t@echo looked\n",
            ),
        ],
    );
    // Outside a repository, nothing above the workspace is readable.
    let done = scene.call("make", &["look"]).await.unwrap();
    assert!(done.stdout().ends_with("looked"), "{}", done.text);
    done.assert_no_secret();
    fs::create_dir(scene.at(".git")).unwrap();
    passes(&scene, "cargo", &["proved"], "1 passed").await;
    let done = scene.call("make", &["look"]).await.unwrap();
    let found = done.stdout().matches(super::rig::SECRET).count();
    assert!(
        found == 1 && !done.text.contains("root:"),
        "only the settings: {}",
        done.text
    );
}

#[tokio::test]
async fn scripts_of_other_languages_run() {
    let scene = scene();
    if !is_whole(&scene, "scripts_of_other_languages_run") {
        return;
    }
    write(
        &scene,
        &[
            (
                "package.json",
                "{\"name\":\"x\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"node test.js\"}}",
            ),
            (
                "test.js",
                "require('fs').writeFileSync('made.txt', 'x'); console.log('node works')",
            ),
            (
                "test_x.py",
                "import tempfile, unittest\nclass T(unittest.TestCase):\n    def test(self):\n        tempfile.TemporaryFile()\n",
            ),
            ("Makefile", "all:\n\t@echo made > made.mk; cat made.mk\n"),
        ],
    );
    passes(&scene, "make", &["all"], "made").await;
    passes(&scene, "python3", &["-m", "unittest"], "OK").await;
    passes(&scene, "node", &["test.js"], "node works").await;
    passes(&scene, "npm", &["test"], "node works").await;
    passes(&scene, "grep", &["-n", "made", "Makefile"], "made.mk").await;
}
