//! What a rule says to a list of arguments, whatever the order and the spelling of its options.

use super::CommandRule;
use super::words::is_like;

/// Whether the rule lets the arguments through; if not, why.
pub(super) fn judge(rule: &CommandRule, args: &[String]) -> Result<(), String> {
    let name = &rule.name;
    if let Some(allow) = &rule.allow {
        let (before, sub_command) = sub_command(args);
        if let Some(option) = before.iter().find(|option| !rule.before.contains(option)) {
            return Err(format!("{name}: the option {option} is not allowed before the sub-command"));
        }
        if let Some(word) = sub_command.filter(|word| !allow.iter().any(|known| known == word)) {
            return Err(format!("{name} {word} is not allowed. Allowed are: {}", allow.join(", ")));
        }
    }
    if let Some(words) = rule.block.iter().find(|words| is_blocked(rule, words, args)) {
        return Err(format!("{name} {} is blocked by the rule for {name}", words.join(" ")));
    }
    let forbidden = |arg: &&String| rule.block_args.iter().any(|pattern| matches(pattern, arg));
    match args.iter().find(forbidden) {
        Some(arg) => Err(format!("{name}: the argument {arg:?} is blocked by the rule for {name}")),
        None => Ok(()),
    }
}

/// The options in front of the first word that is none, and that word.
fn sub_command(args: &[String]) -> (&[String], Option<&str>) {
    let at = args.iter().position(|arg| !arg.starts_with('-')).unwrap_or(args.len());
    (&args[..at], args.get(at).map(String::as_str))
}

/// Whether all of `words` are there. Where the rule lists sub-commands, the first word is one; elsewhere it may be any argument,
/// since nobody knows which of the options before it take a value.
fn is_blocked(rule: &CommandRule, words: &[String], args: &[String]) -> bool {
    let Some((first, rest)) = words.split_first() else { return false };
    let is_sub_command = rule.allow.is_some() && !first.starts_with('-');
    if !is_sub_command {
        return words.iter().all(|word| args.iter().any(|arg| matches(word, arg)));
    }
    let (before, sub_command) = sub_command(args);
    let after = args.get(before.len() + 1..).unwrap_or_default();
    sub_command.is_some_and(|word| is_like(first, word))
        && rest.iter().all(|word| after.iter().any(|arg| matches(word, arg)))
}

/// Whether an argument is what a word of a rule means: a long option in any of its spellings, a short option on its own or
/// among others, or a pattern for what is no option.
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

/// `--force` is also `--force=x`, and `--forc`, which many programs take for it; `--force*` is also whatever begins so.
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

/// The letters of short options written as one: `fd` of `-fd`, `o` of `-o=x`.
pub(super) fn cluster(arg: &str) -> &str {
    match arg.strip_prefix('-') {
        Some(letters) if !letters.starts_with('-') => {
            let end = letters.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(letters.len());
            &letters[..end]
        }
        _ => "",
    }
}
