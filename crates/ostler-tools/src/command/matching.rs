//! What a rule says to a list of arguments, whatever the order and the spelling of its options.

use ostler_core::permission::is_same_option;

use super::CommandRule;
use super::words::is_like;

/// Whether the rule lets the arguments through; if not, why, and what to use instead where the rule says so.
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
                "{name} {word} is not allowed. Allowed are: {}",
                allow.join(", ")
            ));
        }
    }
    blocked(rule, args)
}

/// Whether the rule blocks the arguments, whatever it allows; if so, why.
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
    if let Some(options) = rule.needs.iter().find_map(|words| unmet(words, args)) {
        let word = sub_command(args).1.unwrap_or_default();
        return Err(format!(
            "{name} {word} is only allowed with one of: {}",
            options.join(", ")
        ));
    }
    match rule
        .block_args
        .iter()
        .find(|pattern| holds(rule, pattern, args))
    {
        Some(pattern) => {
            let arg = args
                .iter()
                .find(|arg| is(rule, &split(pattern)[0], arg))
                .unwrap_or(pattern);
            Err(format!(
                "{name}: the argument {arg:?} is blocked by the rule for {name}"
            ))
        }
        None => Ok(()),
    }
}

/// The options in front of the first word that is none, and that word.
fn sub_command(args: &[String]) -> (&[String], Option<&str>) {
    let at = args
        .iter()
        .position(|arg| !arg.starts_with('-'))
        .unwrap_or(args.len());
    (&args[..at], args.get(at).map(String::as_str))
}

/// The options of which the sub-command needs one and has none. An abbreviation, a cluster or a word after `--` does not count:
/// it may be the value of another option, or a path.
fn unmet<'w>(words: &'w [String], args: &[String]) -> Option<&'w [String]> {
    let (needing, options) = words.split_first()?;
    let (before, sub_command) = sub_command(args);
    let mut given = args
        .get(before.len() + 1..)
        .unwrap_or_default()
        .iter()
        .take_while(|arg| *arg != "--");
    (sub_command == Some(needing) && !given.any(|arg| options.contains(arg))).then_some(options)
}

/// Whether all of `words` are there. Where the rule lists sub-commands, the first word is one; elsewhere it may be any argument,
/// since nobody knows which of the options before it take a value.
fn is_blocked(rule: &CommandRule, words: &[String], args: &[String]) -> bool {
    let Some((first, rest)) = words.split_first() else {
        return false;
    };
    let is_sub_command = rule.allow.is_some() && !first.starts_with('-');
    if !is_sub_command {
        return words.iter().all(|word| holds(rule, word, args));
    }
    let (before, sub_command) = sub_command(args);
    let after = args.get(before.len() + 1..).unwrap_or_default();
    sub_command.is_some_and(|word| is_like(first, word))
        && rest.iter().all(|word| holds(rule, word, after))
}

/// Returns true if the arguments hold what a word of a rule means. The letters of `-rf` may be spread over several arguments.
fn holds(rule: &CommandRule, word: &str, args: &[String]) -> bool {
    split(word)
        .iter()
        .all(|word| args.iter().any(|arg| is(rule, word, arg)))
}

/// Returns true if an argument is what a word means, in any spelling that is known for the program.
fn is(rule: &CommandRule, word: &str, arg: &str) -> bool {
    // The rule for git lists its spellings itself: they differ from one sub-command to the next.
    let is_listed = rule.name == "git" || !word.starts_with('-');
    matches(word, arg) || (!is_listed && is_same_option(&rule.name, word, arg))
}

/// Short options written as one, each on its own. A letter that comes twice is a sign of a name, such as `-exec`.
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

    fn judged(name: &str, block: &[&[&str]], block_args: &[&str], args: &[&str]) -> bool {
        let own = |words: &[&str]| {
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        let rule = CommandRule {
            name: name.to_owned(),
            block: block.iter().map(|words| own(words)).collect(),
            block_args: own(block_args),
            ..CommandRule::default()
        };
        judge(&rule, &own(args)).is_ok()
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
            assert!(!judged("rm", &[&["-rf"]], &[], args), "{args:?}");
            assert!(!judged("rm", &[&["-r", "--force"]], &[], args), "{args:?}");
            assert!(!judged("rm", &[], &["-rf"], args), "{args:?}");
        }
        for args in [&["-r", "x"][..], &["-f"], &["x"], &["--force"]] {
            assert!(judged("rm", &[&["-rf"]], &["-fr"], args), "{args:?}");
        }
        assert!(!judged("find", &[], &["-exec"], &[".", "-exec", "x"]));
        assert!(judged("find", &[], &["-exec"], &[".", "-newerxy", "-cmin"]));
        assert!(!judged("frob", &[&["go", "-xy"]], &[], &["-y", "go", "-x"]));
        assert!(
            judged("frob", &[&["go", "-x"]], &[], &["go", "--extract"]),
            "nobody knows this program"
        );
    }
}
