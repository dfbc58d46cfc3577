//! Attempts that rules stop, and not the system: a repository that grants itself rights, file tools
//! on git's own files, and commands in other spellings.

use ostler_core::permission::{self, PolicyAction, ToolKind, ToolUse, Trust};
use ostler_tools::{SandboxPolicy, ToolError, WorkspacePolicy};

use super::{Finding, Verdict};
use crate::command::CommandRunner;

/// What a hostile repository requests in its policy.
const GREEDY: &str = r#"commands = "any"
[sandbox]
write = ["~/.bashrc"]
read = ["~"]
network = "all"
env = ["DATABASE_URL"]
required = false
memory_mb = 1000000
[files]
allow = [".env", "id_rsa"]
[[command]]
name = "bash"
"#;

/// A user's policy, and commands that it must deny.
const DENIES: &str = "[[rule]]\ncommand = [\"git push\", \"rm -rf\"]\ndo = \"deny\"\n";
const SPELLINGS: [&str; 7] = [
    "echo push | xargs git",
    "rm -r -f x",
    "rm -fr x",
    "rm --recursive --force x",
    "env -S 'git push'",
    "sh -c 'git push'",
    "find . -exec rm -rf {} +",
];

/// Git commands that lose work or create repositories.
const DESTRUCTIVE: [&[&str]; 8] = [
    &["checkout", "--", "inside"],
    &["checkout", "."],
    &["restore", "."],
    &["branch", "-D", "main"],
    &["rm", "-r", "--cached", "."],
    &["init", "--bare", "src"],
    &["worktree", "add", "x"],
    &["submodule", "add", "x"],
];

/// Files that the file tools must not write, in a workspace with a bare repository `bare` and hooks
/// in `.githooks`.
const PROTECTED: [&str; 9] = [
    "bare/config",
    "bare/hooks/post-checkout",
    ".git/hooks/pre-commit",
    ".git/config",
    ".githooks/pre-commit",
    "included",
    "ostler.toml",
    ".ostler/policy.toml",
    ".git/worktrees/x/commondir",
];

/// Makes all attempts. `write` is the file tool in the workspace, `runner` has the rules for
/// commands.
pub(super) fn findings(
    write: &dyn Fn(&str) -> Result<(), ToolError>,
    runner: &CommandRunner,
) -> Vec<Finding> {
    let git = |args: &&[&str]| {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        runner.check("git", &args).map(drop)
    };
    let attempts = [
        (
            "self_grant",
            "have a repository grant itself rights",
            "trust",
            grants(),
        ),
        (
            "spellings",
            "run a denied command in another spelling",
            "policy",
            spellings(),
        ),
        (
            "git_destroy",
            "lose work through git, or make repositories",
            "command rules",
            all(DESTRUCTIVE.iter().map(git)),
        ),
        (
            "tool_git",
            "write files that git runs or obeys, and Ostler's files",
            "file tools",
            all(PROTECTED.iter().map(|path| write(path))),
        ),
    ];
    let finding = |(name, what, layer, (result, detail))| Finding {
        name,
        what,
        layer,
        result,
        detail,
    };
    attempts.map(finding).into()
}

/// A verdict, and what the system reported.
type Judged = (Verdict, String);

/// Makes an attempt of several calls, each of which must be denied.
fn all(calls: impl Iterator<Item = Result<(), ToolError>>) -> Judged {
    let (mut result, mut detail) = (Verdict::Held, String::new());
    for (number, call) in calls.enumerate() {
        match call {
            Ok(()) => {
                (result, detail) = (Verdict::Leaked, format!("call {} was allowed", number + 1));
            }
            Err(error) if error.code.is_denial() || !error.needs_approval.is_empty() => {
                if detail.is_empty() {
                    detail = error.message;
                }
            }
            Err(error) if result == Verdict::Held => {
                (result, detail) = (Verdict::Untried, error.message);
            }
            Err(_) => {}
        }
    }
    (result, detail)
}

fn grants() -> Judged {
    let asked = match GREEDY.parse::<WorkspacePolicy>() {
        Ok(asked) => asked,
        Err(error) => return (Verdict::Untried, error.message),
    };
    let narrowed = SandboxPolicy::default().narrowed_by(&asked);
    let (held, usual) = (&narrowed.policy, SandboxPolicy::default());
    let same =
        held.sandbox == usual.sandbox && held.commands.is_empty() && held.files.allow.is_empty();
    if same && held.files.workspace_allow.is_empty() && held.preset.is_none() {
        let detail = format!("left out: {}", narrowed.left_out.len());
        (Verdict::Held, detail)
    } else {
        (Verdict::Leaked, String::new())
    }
}

fn spellings() -> Judged {
    let policy = match permission::Policy::parse(DENIES, "check", Trust::Full) {
        Ok(policy) => policy,
        Err(error) => return (Verdict::Untried, error.to_string()),
    };
    let is_denied = |line: &&&str| {
        let mut wants = ToolUse::new("Bash", ToolKind::Execute);
        wants.command = Some(permission::Command::Shell((**line).to_owned()));
        matches!(policy.decide(&wants, "/w").action, PolicyAction::Deny(_))
    };
    match SPELLINGS.iter().find(|line| !is_denied(line)) {
        None => (Verdict::Held, format!("{} spellings", SPELLINGS.len())),
        Some(line) => (Verdict::Leaked, (*line).to_owned()),
    }
}
