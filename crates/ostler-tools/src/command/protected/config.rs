//! Settings of a repository that git may change: the upstream of a branch, if it is a remote the
//! user set up.
//!
//! This parser understands less than git does. Anything it does not understand exactly counts as
//! changed, and is restored.

use crate::repository::config::{Setting, parse};

/// Keys in the settings of a new repository.
const NEW_REPOSITORY_KEYS: [&str; 6] = [
    "repositoryformatversion",
    "filemode",
    "bare",
    "logallrefupdates",
    "ignorecase",
    "precomposeunicode",
];

/// Keys that git itself writes for a branch.
const BRANCH_KEYS: [&str; 3] = ["remote", "merge", "rebase"];

/// Settings, split into those of branches and all other lines.
struct Settings<'a> {
    branches: Vec<(&'a str, &'a str)>,
    others: Vec<&'a str>,
}

/// Returns true if these are the settings of a newly created repository.
pub(super) fn is_new(bytes: &[u8]) -> bool {
    let Some(settings) = read(bytes) else {
        return false;
    };
    let is_new_repository_key = |line: &&str| {
        line.split_once('=').is_some_and(|(key, value)| {
            let (key, value) = (key.trim(), value.trim());
            NEW_REPOSITORY_KEYS.contains(&key)
                && value.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    };
    settings.branches.is_empty()
        && settings.others.first().is_none_or(|line| *line == "[core]")
        && settings.others.iter().skip(1).all(is_new_repository_key)
}

/// Returns true if `new` differs from `old` only in settings that git writes for branches.
pub(super) fn is_allowed_change(old: &[u8], new: &[u8]) -> bool {
    let (Some(old), Some(new)) = (read(old), read(new)) else {
        return false;
    };
    let is_remote = |name: &str| {
        name == "."
            || (!name.contains(['"', '\\'])
                && old
                    .others
                    .contains(&format!("[remote \"{name}\"]").as_str()))
    };
    let is_allowed_change = |(key, value): &(&str, &str)| {
        let key_is = |known: &str| key.eq_ignore_ascii_case(known);
        // Existing settings may move to another name with their branch.
        old.branches.contains(&(*key, *value))
            || (BRANCH_KEYS.iter().any(|known| key_is(known))
                && (!key_is("remote") || is_remote(value)))
    };
    old.others == new.others && new.branches.iter().all(is_allowed_change)
}

/// Settings that make git run nothing and fetch from nowhere unusual, whoever wrote them.
const HARMLESS: &[(&str, &[&str])] = &[
    ("core", &NEW_REPOSITORY_KEYS),
    ("core", &["symlinks", "autocrlf", "eol"]),
    ("extensions", &["objectformat", "refstorage"]),
    ("remote", &["url", "fetch", "tagopt"]),
    ("branch", &BRANCH_KEYS),
    ("submodule", &["url", "active"]),
    ("user", &["name", "email"]),
    ("init", &["defaultbranch"]),
    ("pull", &["rebase"]),
    ("gc", &["auto"]),
    ("advice", &["detachedhead"]),
];

/// Returns the settings of a new repository without those that could make git run a program, or
/// `None` if there is nothing to remove.
pub(super) fn harmless(text: &str) -> Option<String> {
    let is_harmless = |setting: &Setting| {
        let is_known = HARMLESS
            .iter()
            .any(|(section, keys)| *section == setting.section && keys.contains(&&*setting.key));
        // A transport can be a program.
        is_known
            && !(setting.key == "url"
                && (setting.text().contains("::") || setting.text().starts_with('-')))
    };
    let settings = parse(text);
    if settings.iter().all(is_harmless) {
        return None;
    }
    let quoted = |text: &str| {
        format!(
            "\"{}\"",
            text.replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n")
        )
    };
    let line = |setting: &Setting| {
        let sub = setting
            .subsection
            .as_deref()
            .map(|sub| format!(" {}", quoted(sub)))
            .unwrap_or_default();
        let value = setting
            .value
            .as_deref()
            .map(|value| format!(" = {}", quoted(value)))
            .unwrap_or_default();
        format!("[{}{sub}]\n\t{}{value}\n", setting.section, setting.key)
    };
    Some(
        settings
            .iter()
            .filter(|setting| is_harmless(setting))
            .map(line)
            .collect(),
    )
}

fn read(bytes: &[u8]) -> Option<Settings<'_>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut settings = Settings {
        branches: Vec::new(),
        others: Vec::new(),
    };
    let mut in_branch = false;
    for line in text.split('\n') {
        // A continuation line could change the meaning of the next one.
        if line.trim_end_matches('\r').ends_with('\\') {
            return None;
        }
        let line = line.trim_matches([' ', '\t', '\r']);
        if line.starts_with('[') {
            in_branch = is_branch(line)?;
            if in_branch {
                continue;
            }
        }
        match in_branch {
            _ if line.is_empty() => {}
            false => settings.others.push(line),
            true if line.starts_with(['#', ';']) => {}
            true => {
                let (key, value) = line.split_once('=')?;
                settings.branches.push((key.trim(), value.trim()));
            }
        }
    }
    Some(settings)
}

/// Returns true for the section of a branch, or `None` if it is written in a form that git does not
/// write.
fn is_branch(line: &str) -> Option<bool> {
    let begins = line
        .get(..7)
        .is_some_and(|start| start.eq_ignore_ascii_case("[branch"));
    if !begins
        || line
            .as_bytes()
            .get(7)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    {
        return Some(false);
    }
    if line == "[branch]" {
        return Some(false);
    }
    let name = line.strip_prefix("[branch \"")?.strip_suffix("\"]")?;
    (!name.contains(['"', '\\'])).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.org/x\n[branch \"main\"]\n\tremote = origin\n\tdescription = d\n";

    #[test]
    fn only_branch_settings_of_git_may_change() {
        let with =
            |more: &str| is_allowed_change(OLD.as_bytes(), format!("{OLD}{more}").as_bytes());
        for fine in [
            "",
            "[branch \"t\"]\n\tremote = origin\n\tmerge = refs/heads/t\n",
            "[branch \"t\"]\n\tremote = .\n\tmerge = refs/heads/main\n\trebase = true\n",
            "[branch \"moved\"]\n\tdescription = d\n",
        ] {
            assert!(with(fine), "{fine}");
        }
        for bad in [
            "[core]\n\tfsmonitor = ./x\n",
            "\tpushRemote = x\n",
            "[branch \"t\"]\n\tremote = ../evil\n",
            "[branch \"t\"]\n\tremote = https://example.com/x\n",
            "[branch \"t\"]\n\tRemote = other\n",
            "[branch \"t\"] remote = ../evil\n",
            "[BRANCH \"t\"]\n\tremote = ../evil\n",
            "[branch.t]\n\tremote = ../evil\n",
            "[branch \"t\"]\n\tmergeOptions = -s x\n",
            "[branch \"t\"]\n\tmerge = x \\\n[core]\n",
            "[remote \"evil\"]\n\turl = ../x\n[branch \"t\"]\n\tremote = evil\n",
            "[include]\n\tpath = x\n",
            "[branch \"t\"]\n\tmerge\n",
        ] {
            assert!(!with(bad), "{bad}");
        }
        assert!(
            is_allowed_change(
                OLD.as_bytes(),
                OLD.split("[branch").next().unwrap().as_bytes()
            ),
            "a branch was removed"
        );
        assert!(
            !is_allowed_change(OLD.as_bytes(), b"[core]\n"),
            "a remote was removed"
        );
        assert!(!is_allowed_change(OLD.as_bytes(), b"\xff"));
    }

    #[test]
    fn only_harmless_settings_remain() {
        assert_eq!(
            harmless(OLD.replace("\tdescription = d\n", "").as_str()),
            None
        );
        let left = harmless(
            "[core]\n\tbare = true\n\tfsmonitor = ./x\n\tworktree = ..\n[remote \"a\\\"b\"]\n\turl = https://x\n\tvcs = x\n\
             [remote \"e\"]\n\turl = ext::sh\n[user]\n\tname = A \\\"B\\\"\n[include]\n\tpath = x\n[url \"ext::x\"]\n\tinsteadOf = y\n",
        );
        let expected = "[core]\n\tbare = \"true\"\n[remote \"a\\\"b\"]\n\turl = \"https://x\"\n[user]\n\tname = \"A \\\"B\\\"\"\n";
        assert_eq!(left.as_deref(), Some(expected));
        assert_eq!(harmless(expected), None);
    }

    #[test]
    fn new_repository_has_only_the_usual_settings() {
        let usual = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n";
        assert!(is_new(usual.as_bytes()) && is_new(b""));
        for more in [
            "\tfsmonitor = x\n",
            "\tworktree = ..\n",
            "[alias]\n",
            "[branch \"x\"]\n\tremote = y\n",
            "[core] pager = x\n",
        ] {
            assert!(!is_new(format!("{usual}{more}").as_bytes()), "{more}");
        }
        assert!(!is_new(b"[core] pager = x\n"));
    }
}
