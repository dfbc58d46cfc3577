//! Secrets: a command cannot read them, even where a policy opens the rest of the home.
#![cfg(target_os = "linux")]
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::rig::{SECRET, Scene, has};

/// Files where agents and tools store tokens: those issue 14 names, and more of the kind.
const NAMED: &[&str] = &[
    ".claude/.credentials.json",
    ".claude.json",
    ".codex/auth.json",
    ".copilot/config.json",
    ".config/github-copilot/apps.json",
    ".gemini/oauth_creds.json",
    ".local/share/opencode/auth.json",
    ".config/goose/secrets.yaml",
    ".qwen/oauth_creds.json",
    ".openclaw/openclaw.json",
    ".config/cursor/auth.json",
    ".aider.conf.yml",
    ".continue/config.json",
    ".codeium/windsurf/x",
    ".config/amp/settings.json",
    ".local/share/amp/secrets.json",
    ".kimi/config.toml",
    ".config/ostler/ostler.toml",
    ".local/state/ostler/sessions.db",
    ".config/pip/pip.conf",
    ".pip/pip.conf",
    ".condarc",
    ".config/containers/auth.json",
    ".cache/huggingface/token",
    ".huggingface/token",
    ".databrickscfg",
    ".snowflake/config.toml",
    ".s3cfg",
    ".boto",
    ".oci/config",
    ".config/configstore/x.json",
    ".config/netlify/config.json",
    ".vercel/auth.json",
    ".fly/config.yml",
    ".railway/config.json",
    ".wrangler/config/default.toml",
    ".config/stripe/config.toml",
    ".gradle/gradle.properties",
    ".sbt/.credentials",
    ".nuget/NuGet/NuGet.Config",
    ".composer/auth.json",
    ".bundle/config",
    ".hex/hex.config",
    ".config/rclone/rclone.conf",
    ".lftprc",
    ".config/filezilla/sitemanager.xml",
    ".config/keepassxc/x",
    ".config/Bitwarden/data.json",
    ".psql_history",
    ".mysql_history",
    ".node_repl_history",
    ".cargo/credentials.toml",
    ".ssh/id_rsa",
];

fn plant(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, SECRET).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
}

// Issue 14, break 9.
#[tokio::test]
async fn tokens_of_agents_and_tools_cannot_be_read() {
    let scene = Scene::new().sandbox("read = [\"~\"]");
    if !has(
        &scene.runner().report(),
        "files",
        "tokens_of_agents_and_tools_cannot_be_read",
    ) {
        return;
    }
    let home = scene.at("home");
    let listed = ostler::tools::confine::secret_paths();
    let mut script = String::from("#!/bin/sh\ncat ~/readable\n");
    for place in NAMED.iter().copied().chain(listed) {
        let file = home.join(place);
        // An entry of the list may be a directory, or lie below a path that was created as a file.
        let file = if file.is_dir() {
            file.join("inside")
        } else {
            file
        };
        if file.ancestors().skip(1).any(Path::is_file) {
            continue;
        }
        plant(&file);
        script.push_str(&format!("cat '{0}' && echo 'READ {0}'\n", file.display()));
    }
    fs::write(home.join("readable"), "the rest is open\n").unwrap();
    script.push_str("echo end\n");
    let done = scene.attack(&script).call("./attack", &[]).await.unwrap();
    done.assert_no_secret();
    assert!(!done.text.contains("READ"), "{}", done.text);
    assert!(
        done.stdout().starts_with("the rest is open") && done.stdout().ends_with("end"),
        "{}",
        done.text
    );
}

// Issue 14, break 9: a variable can move a secret to another path.
#[tokio::test]
async fn secrets_are_followed_to_where_variables_say() {
    let moved = [
        ("XDG_CONFIG_HOME", "gh/hosts.yml", true),
        ("XDG_DATA_HOME", "opencode/auth.json", true),
        ("XDG_STATE_HOME", "ostler/sessions.db", true),
        ("CLAUDE_CONFIG_DIR", ".credentials.json", true),
        ("CODEX_HOME", "auth.json", true),
        ("COPILOT_HOME", "config.json", true),
        ("OPENCLAW_STATE_DIR", "openclaw.json", true),
        ("OSTLER_CONFIG_DIR", "ostler.toml", true),
        ("OSTLER_STATE_DIR", "sessions.db", true),
        ("CARGO_HOME", "credentials.toml", true),
        ("GNUPGHOME", "private-keys-v1.d/x", true),
        ("AWS_SHARED_CREDENTIALS_FILE", "aws-credentials", false),
        ("KUBECONFIG", "kube-config", false),
        ("NETRC", "netrc", false),
        ("NPM_CONFIG_USERCONFIG", "npmrc", false),
        ("GOOGLE_APPLICATION_CREDENTIALS", "google.json", false),
        ("PGPASSFILE", "pgpass", false),
    ];
    let mut scene = Scene::new().sandbox("read = [\"~\"]");
    if !has(
        &scene.runner().report(),
        "files",
        "secrets_are_followed_to_where_variables_say",
    ) {
        return;
    }
    let mut script = String::from("#!/bin/sh\n");
    for (name, file, is_directory) in moved {
        let place = scene.at("home").join("moved").join(name.to_lowercase());
        plant(&place.join(file));
        let value = if is_directory {
            place.clone()
        } else {
            place.join(file)
        };
        scene = scene.var(name, value.to_str().unwrap());
        script.push_str(&format!(
            "cat '{0}' && echo 'READ {0}'\n",
            place.join(file).display()
        ));
    }
    script.push_str("echo end\n");
    let done = scene.attack(&script).call("./attack", &[]).await.unwrap();
    done.assert_no_secret();
    assert!(
        !done.text.contains("READ") && done.stdout().ends_with("end"),
        "{}",
        done.text
    );
}

// Issue 14, break 9: even as root, commands cannot read a file in /etc that is not world-readable.
#[tokio::test]
async fn private_files_of_the_system_cannot_be_read() {
    let scene = Scene::new();
    if !has(
        &scene.runner().report(),
        "files",
        "private_files_of_the_system_cannot_be_read",
    ) {
        return;
    }
    // Whatever private files this system has: none of them can be opened. World-readable files stay
    // readable.
    scene.attack(
        "#!/bin/sh\nfind /etc -type f ! -perm -004 2>/dev/null | while read -r file; do head -c 1 \"$file\" >/dev/null 2>&1 && \
         echo \"READ $file\"; done\ncat /etc/passwd >/dev/null && echo end\n",
    );
    let done = scene.call("./attack", &[]).await.unwrap();
    assert!(!done.text.contains("READ"), "{}", done.text);
    assert!(done.stdout().ends_with("end"), "{}", done.text);
}
