//! Matching of arguments against a rule, independent of the order and spelling of options.

use ostler_core::permission::is_same_option;

use super::CommandRule;
use super::words::is_like;

/// Checks the arguments against the rule. The error gives the reason and, if the rule has one, a
/// hint about the alternative.
pub(super) fn judge(rule: &CommandRule, args: &[String]) -> Result<(), String> {
    decide(rule, args).map_err(|why| {
        let (_, sub_command) = sub_command(args);
        let hint = rule
            .instead
            .iter()
            .find(|(known, _)| Some(known.as_str()) == sub_command);
        hint.map_or_else(|| why.clone(), |(_, instead)| format!("{why}. {instead}"))
    })
}

fn decide(rule: &CommandRule, args: &[String]) -> Result<(), String> {
    let name = &rule.name;
    if let Some(allow) = &rule.allow {
        let (before, sub_command) = sub_command(args);
        if let Some(option) = before.iter().find(|option| !rule.before.contains(option)) {
            return Err(format!(
                "{name}: the option {option} is not allowed before the sub-command"
            ));
        }
        if let Some(word) = sub_command.filter(|word| !allow.iter().any(|known| known == word)) {
            return Err(format!(
                "{name} {word} is not allowed. Allowed sub-commands: {}",
                allow.join(", ")
            ));
        }
    }
    blocked(rule, args)
}

/// Checks the arguments against the rule's blocks only. The error gives the reason.
pub(super) fn blocked(rule: &CommandRule, args: &[String]) -> Result<(), String> {
    let name = &rule.name;
    if let Some(words) = rule
        .block
        .iter()
        .find(|words| is_blocked(rule, words, args))
    {
        return Err(format!(
            "{name} {} is blocked by the rule for {name}",
            words.join(" ")
        ));
    }
    if let Some(options) = rule
        .needs
        .iter()
        .find_map(|words| missing_option(words, args))
    {
        let word = sub_command(args).1.unwrap_or_default();
        return Err(format!(
            "{name} {word} is only allowed with one of: {}",
            options.join(", ")
        ));
    }
    match rule
        .block_args
        .iter()
        .find(|pattern| contains(rule, pattern, args))
    {
        Some(pattern) => {
            let arg = args
                .iter()
                .find(|arg| is_match(rule, &split(pattern)[0], arg))
                .unwrap_or(pattern);
            Err(format!(
                "{name}: the argument {arg:?} is blocked by the rule for {name}"
            ))
        }
        None => Ok(()),
    }
}

/// Returns the options before the first word that is not an option, and that word.
fn sub_command(args: &[String]) -> (&[String], Option<&str>) {
    let at = args
        .iter()
        .position(|arg| !arg.starts_with('-'))
        .unwrap_or(args.len());
    (&args[..at], args.get(at).map(String::as_str))
}

/// Returns the options of which the sub-command needs one but has none. An abbreviation, a cluster
/// or a word after `--` does not count: it may be the value of another option, or a path.
fn missing_option<'w>(words: &'w [String], args: &[String]) -> Option<&'w [String]> {
    let (needing, options) = words.split_first()?;
    let (before, sub_command) = sub_command(args);
    let mut given = args
        .get(before.len() + 1..)
        .unwrap_or_default()
        .iter()
        .take_while(|arg| *arg != "--");
    (sub_command == Some(needing) && !given.any(|arg| options.contains(arg))).then_some(options)
}

/// Returns true if all of `words` occur. If the rule lists sub-commands, the first word is one.
/// Otherwise it may be any argument, because it is unknown which options before it take a value.
fn is_blocked(rule: &CommandRule, words: &[String], args: &[String]) -> bool {
    let Some((first, rest)) = words.split_first() else {
        return false;
    };
    let is_sub_command = rule.allow.is_some() && !first.starts_with('-');
    if !is_sub_command {
        return words.iter().all(|word| contains(rule, word, args));
    }
    let (before, sub_command) = sub_command(args);
    let after = args.get(before.len() + 1..).unwrap_or_default();
    sub_command.is_some_and(|word| is_like(first, word))
        && rest.iter().all(|word| contains(rule, word, after))
}

/// Returns true if the arguments contain a word of a rule. The letters of `-rf` may be spread over
/// several arguments.
fn contains(rule: &CommandRule, word: &str, args: &[String]) -> bool {
    split(word)
        .iter()
        .all(|word| args.iter().any(|arg| is_match(rule, word, arg)))
}

/// Returns true if an argument matches a word, in any spelling known for the program.
fn is_match(rule: &CommandRule, word: &str, arg: &str) -> bool {
    // The rule for git lists its spellings itself, because they differ between sub-commands.
    let is_listed = rule.name == "git" || !word.starts_with('-');
    matches(word, arg) || (!is_listed && is_same_option(&rule.name, word, arg))
}

/// Splits combined short options. A repeated letter indicates a name, such as `-exec`.
fn split(word: &str) -> Vec<String> {
    let letters = word.strip_prefix('-').unwrap_or_default();
    let is_repeated = |(at, letter): (usize, char)| letters[..at].contains(letter);
    let is_cluster = letters.chars().all(|c| c.is_ascii_alphanumeric())
        && !letters.char_indices().any(is_repeated);
    match letters.len() > 1 && is_cluster {
        true => letters.chars().map(|letter| format!("-{letter}")).collect(),
        false => vec![word.to_owned()],
    }
}

/// Returns true if an argument matches a word of a rule: a long option in any of its spellings, a
/// short option alone or combined, or a pattern for anything that is not an option.
pub(super) fn matches(word: &str, arg: &str) -> bool {
    if word.starts_with("--") {
        return is_long(word, arg);
    }
    match word.strip_prefix('-') {
        None | Some("") => !arg.starts_with('-') && is_like(word, arg),
        Some(letters) => match single(letters) {
            Some(letter) => cluster(arg).contains(letter),
            None => is_like(word, arg),
        },
    }
}

/// `--force` also matches `--force=x` and `--forc`, which many programs accept; `--force*` also
/// matches any option with that prefix.
fn is_long(word: &str, arg: &str) -> bool {
    let name = arg.split_once('=').map_or(arg, |(name, _)| name);
    if !name.starts_with("--") || name.len() < 3 {
        return false;
    }
    match word.strip_suffix('*') {
        Some(stem) => name.starts_with(stem) || stem.starts_with(name),
        None => word.starts_with(name),
    }
}

fn single(letters: &str) -> Option<char> {
    let mut chars = letters.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// Returns the letters of combined short options: `fd` of `-fd`, `o` of `-o=x`.
pub(super) fn cluster(arg: &str) -> &str {
    match arg.strip_prefix('-') {
        Some(letters) if !letters.starts_with('-') => {
            let end = letters
                .find(|c: char| !c.is_ascii_alphanumeric())
                .unwrap_or(letters.len());
            &letters[..end]
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(name: &str, block: &[&[&str]], block_args: &[&str], args: &[&str]) -> bool {
        let to_owned = |words: &[&str]| {
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        let rule = CommandRule {
            name: name.to_owned(),
            block: block.iter().map(|words| to_owned(words)).collect(),
            block_args: to_owned(block_args),
            ..CommandRule::default()
        };
        judge(&rule, &to_owned(args)).is_ok()
    }

    // Issue 14, break 10: the options of a blocked call are a set, too.
    #[test]
    fn blocked_options_are_a_set() {
        for args in [
            &["-rf", "x"][..],
            &["-fr", "x"],
            &["-r", "-f", "x"],
            &["-f", "x", "-r"],
            &["-rvf", "x"],
            &["-R", "--force"],
            &["--recursive", "--force", "x"],
            &["--rec", "-f"],
        ] {
            assert!(!is_allowed("rm", &[&["-rf"]], &[], args), "{args:?}");
            assert!(
                !is_allowed("rm", &[&["-r", "--force"]], &[], args),
                "{args:?}"
            );
            assert!(!is_allowed("rm", &[], &["-rf"], args), "{args:?}");
        }
        for args in [&["-r", "x"][..], &["-f"], &["x"], &["--force"]] {
            assert!(is_allowed("rm", &[&["-rf"]], &["-fr"], args), "{args:?}");
        }
        assert!(!is_allowed("find", &[], &["-exec"], &[".", "-exec", "x"]));
        assert!(is_allowed(
            "find",
            &[],
            &["-exec"],
            &[".", "-newerxy", "-cmin"]
        ));
        assert!(!is_allowed(
            "frob",
            &[&["go", "-xy"]],
            &[],
            &["-y", "go", "-x"]
        ));
        assert!(
            is_allowed("frob", &[&["go", "-x"]], &[], &["go", "--extract"]),
            "spellings of an unknown program are not guessed"
        );
    }
}
