//! Matching of arguments against a rule, independent of the order and spelling of options.

use ostler_core::matching::{Spelling, WordSet, matches_wildcard};

use super::CommandRule;
use crate::ToolError;

/// Checks the arguments against the rule. The error gives the reason and, if the rule has one, a
/// hint about the alternative.
pub(super) fn judge(rule: &CommandRule, args: &[String]) -> Result<(), ToolError> {
    decide(rule, args).map_err(|error| {
        let (_, sub_command) = sub_command(args);
        let hint = rule
            .instead
            .iter()
            .find(|(known, _)| Some(known.as_str()) == sub_command);
        match hint {
            Some((_, instead)) => denied(format!("{}. {instead}", error.message)),
            None => error,
        }
    })
}

fn decide(rule: &CommandRule, args: &[String]) -> Result<(), ToolError> {
    let name = &rule.name;
    if let Some(allow) = &rule.allow {
        let (before, sub_command) = sub_command(args);
        if let Some(option) = before.iter().find(|option| !rule.before.contains(option)) {
            return Err(denied(format!(
                "{name}: the option {option} is not allowed before the sub-command"
            )));
        }
        if let Some(word) = sub_command.filter(|word| !allow.iter().any(|known| known == word)) {
            return Err(denied(format!(
                "{name} {word} is not allowed. Allowed sub-commands: {}",
                allow.join(", ")
            )));
        }
    }
    blocked(rule, args)
}

/// Checks the arguments against the rule's blocks only. The error gives the reason.
pub(super) fn blocked(rule: &CommandRule, args: &[String]) -> Result<(), ToolError> {
    let name = &rule.name;
    if let Some(words) = rule
        .block
        .iter()
        .find(|words| is_blocked(rule, words, args))
    {
        return Err(denied(format!(
            "{name} {} is blocked by the rule for {name}",
            words.join(" ")
        )));
    }
    if let Some(options) = rule
        .needs
        .iter()
        .find_map(|words| missing_option(words, args))
    {
        let word = sub_command(args).1.unwrap_or_default();
        return Err(denied(format!(
            "{name} {word} is only allowed with one of: {}",
            options.join(", ")
        )));
    }
    let mut patterns = rule.block_args.iter();
    match patterns.find(|pattern| contains(rule, pattern, args)) {
        Some(pattern) => {
            let arg = word_set(rule, pattern).first_match(args);
            let arg = arg.unwrap_or(pattern);
            Err(denied(format!(
                "{name}: the argument {arg:?} is blocked by the rule for {name}"
            )))
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
    sub_command.is_some_and(|word| matches_wildcard(first, word))
        && rest.iter().all(|word| contains(rule, word, after))
}

/// Returns true if the arguments contain a word of a rule. The letters of `-rf` may be spread over
/// several arguments.
fn contains(rule: &CommandRule, word: &str, args: &[String]) -> bool {
    word_set(rule, word).is_within(args)
}

fn word_set(rule: &CommandRule, word: &str) -> WordSet {
    // The rule for git lists its spellings itself, because they differ between sub-commands.
    let spelling = match rule.name.as_str() {
        "git" => Spelling::Listed,
        _ => Spelling::Known,
    };
    WordSet::new(&rule.name, spelling, [word])
}

fn denied(message: String) -> ToolError {
    ToolError::denied(message)
}

#[cfg(test)]
mod tests {
    use ostler_core::permission::{Command, Policy, PolicyAction, ToolKind, ToolUse, Trust};

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

    /// Returns whether a permission rule that denies a program with these words matches a call.
    fn is_denied(program: &str, words: &[&str], args: &[&str]) -> bool {
        let rule = format!("{program} {}", words.join(" "));
        let text = format!("[[rule]]\ncommand = {rule:?}\ndo = \"deny\"");
        let policy = Policy::parse(&text, "policy.toml", Trust::Full).unwrap();
        let call = std::iter::once(&program).chain(args);
        let call = call.map(|&word| word.to_owned()).collect();
        let wants = ToolUse {
            command: Some(Command::Words(call)),
            ..ToolUse::new("Shell", ToolKind::Execute)
        };
        matches!(
            policy.decide(&wants, "/workspace").action,
            PolicyAction::Deny(_)
        )
    }

    // Issue 17, item 7: one matcher, two syntaxes.
    #[test]
    fn both_policies_recognize_the_same_words() {
        for (program, words, args, expected) in [
            // Spellings of a known program.
            ("rm", &["-rf"][..], &["-fr", "x"][..], true),
            ("rm", &["-rf"], &["-r", "x", "-f"], true),
            ("rm", &["-rf"], &["--recursive", "--force"], true),
            ("rm", &["-rf"], &["-R", "--forc"], true),
            ("rm", &["-rf"], &["-r", "x"], false),
            ("rm", &["--force"], &["-vf"], true),
            ("rm", &["--force"], &["--fo"], true),
            ("kill", &["-KILL"], &["-9", "1"], true),
            ("kill", &["-9"], &["-KILL", "1"], true),
            ("chmod", &["-R"], &["--recursive", "777", "x"], true),
            ("tar", &["--extract"], &["-xf", "a.tar"], true),
            ("sed", &["-i"], &["--in-place=.bak", "x"], true),
            // Spellings that any program may accept.
            ("frob", &["--force"], &["--force"], true),
            ("frob", &["--force"], &["--force=x"], true),
            ("frob", &["--force"], &["--forc"], true),
            ("frob", &["--force"], &["--f"], true),
            ("frob", &["--force"], &["--frob"], false),
            ("frob", &["--force"], &["--forced"], false),
            ("frob", &["--force"], &["force"], false),
            ("frob", &["--del*"], &["--delete-all"], true),
            ("frob", &["--del*"], &["--delete=x"], true),
            ("frob", &["--del*"], &["--de"], true),
            ("frob", &["--del*"], &["--keep"], false),
            ("frob", &["--a*z"], &["--abcz"], true),
            ("frob", &["-x"], &["-axb"], true),
            ("frob", &["-xy"], &["-y", "a", "-x"], true),
            ("frob", &["-xy"], &["-y", "a"], false),
            ("frob", &["-*"], &["-q"], true),
            ("frob", &["-*"], &["q"], false),
            ("find", &["-exec"], &[".", "-exec", "ls"], true),
            ("find", &["-exec*"], &[".", "-execdir", "ls"], true),
            ("find", &["-exec"], &[".", "-newer", "x"], false),
            // Words that are not options.
            ("frob", &["go"], &["go"], true),
            ("frob", &["go"], &["-v", "go"], true),
            ("frob", &["go"], &["gone"], false),
            ("frob", &["*::*"], &["ext::sh"], true),
            ("frob", &["*::*"], &["a:b"], false),
            ("frob", &["go", "--now"], &["go", "-v", "--now"], true),
            ("frob", &["go", "--now"], &["go"], false),
        ] {
            let call = format!("{program} {words:?} {args:?}");
            assert_eq!(
                is_denied(program, words, args),
                expected,
                "permissions: {call}"
            );
            let is_blocked = !is_allowed(program, &[words], &[], args);
            assert_eq!(is_blocked, expected, "sandbox: {call}");
        }
    }

    // A permission rule may only lead to a prompt, so it also matches guesses. A sandbox rule
    // refuses outright, and has no order of words.
    #[test]
    fn each_policy_differs_on_purpose() {
        for (program, words, args, is_asked, is_refused) in [
            ("frob", &["-f"][..], &["--force"][..], true, false),
            ("frob", &["--force"], &["-f"], true, false),
            ("frob", &["-f"], &["-o=file"], true, false),
            ("frob", &["go", "on"], &["on", "go"], false, true),
            ("frob", &["go"], &["x", "go"], false, true),
            ("frob", &["--format=json"], &["--format=xml"], false, true),
            ("frob", &["-"], &["-"], true, false),
            ("git", &["-f"], &["--force"], true, false),
            ("git", &["-f"], &["+main"], true, false),
            ("find", &["-n"], &["-name", "x"], false, true),
        ] {
            let call = format!("{program} {words:?} {args:?}");
            assert_eq!(
                is_denied(program, words, args),
                is_asked,
                "permissions: {call}"
            );
            let is_blocked = !is_allowed(program, &[words], &[], args);
            assert_eq!(is_blocked, is_refused, "sandbox: {call}");
        }
    }

    // In time that grows exponentially with the number of stars, this would not end.
    #[test]
    fn many_stars_take_little_time() {
        let pattern = format!("{}b", "*a".repeat(200));
        let arg = "a".repeat(5_000);
        assert!(is_allowed("frob", &[], &[&pattern], &[&arg]));
    }
}
