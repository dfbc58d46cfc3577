//! Commands from data: read by a program, or passed to it as arguments, instead of written in the
//! line.

use super::programs::{GIT_HARMLESS, GIT_RUNS, RUNNERS, Runner, SCRIPTED};
use crate::matching::{Word, matches_wildcard};

/// What a program does with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Takes {
    /// The arguments are only its own.
    Nothing,
    /// It runs these commands, each with arguments that may come from data.
    Commands(Vec<Vec<Word>>),
    /// It may run anything.
    Anything,
}

/// Returns what the program `words[0]` does with the rest. `is_fed` says that it has input.
pub(super) fn takes(words: &[Word], is_fed: bool) -> Takes {
    let Some((program, args)) = words.split_first() else {
        return Takes::Nothing;
    };
    match program.name.as_str() {
        "xargs" => xargs(args),
        "find" => find(args),
        "fd" | "fdfind" => fd(args),
        name => match is_anything(name, args, is_fed) {
            true => Takes::Anything,
            false => Takes::Nothing,
        },
    }
}

fn is_anything(name: &str, args: &[Word], is_fed: bool) -> bool {
    match name {
        "env" => {
            options(args).any(|option| has_letter(option, 'S') || is_long(option, "split-string"))
        }
        "git" => git(args),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => {
            script_is_read(args) || args.iter().any(|arg| awk(&arg.text))
        }
        "sed" | "gsed" => {
            script_is_read(args) || sed_scripts(args).iter().any(|script| !is_tame(script))
        }
        "make" | "gmake" if script_is_read(args) => true,
        "ssh" => ssh(args, is_fed),
        "source" | "." => args
            .first()
            .map_or(is_fed, |file| is_stdin(&file.text) || file.is_open),
        "su" | "runuser" | "sg" => {
            is_fed && !options(args).any(|arg| has_letter(arg, 'c') || is_long(arg, "command"))
        }
        "sudo" | "doas" => {
            options(args).any(|arg| "si".contains(arg.trim_start_matches('-')) && arg.len() == 2)
                && is_fed
        }
        name if name
            .split('.')
            .next()
            .is_some_and(|name| is_one_of(SCRIPTED, name)) =>
        {
            shell(args, is_fed)
        }
        name => RUNNERS
            .iter()
            .filter(|runner| is_one_like(runner.names, name))
            .any(|runner| runs(runner, args, is_fed)),
    }
}

/// Returns a word that could become any words, taken from data.
pub(super) fn open_word() -> Word {
    Word {
        is_open: true,
        ..Word::default()
    }
}

fn is_one_of(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

fn is_one_like(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| matches_wildcard(known, name))
}

fn options(args: &[Word]) -> impl Iterator<Item = &str> {
    args.iter()
        .map(|arg| arg.text.as_str())
        .filter(|text| text.starts_with('-'))
}

/// Returns true if an argument is a cluster of short options that contains this one.
fn has_letter(arg: &str, letter: char) -> bool {
    arg.strip_prefix('-')
        .is_some_and(|rest| !rest.starts_with('-') && rest.contains(letter))
}

/// Returns true if an argument is this long option, with one dash or two, possibly abbreviated.
fn is_long(arg: &str, name: &str) -> bool {
    let given = arg.trim_start_matches('-');
    let given = given.split('=').next().unwrap_or(given).to_lowercase();
    arg.starts_with('-') && given.len() > 1 && name.starts_with(&given)
}

/// Returns true if a path means stdin.
fn is_stdin(path: &str) -> bool {
    path == "-"
        || path.starts_with("/dev/stdin")
        || path.starts_with("/dev/fd/")
        || path.starts_with("/proc/")
}

/// Handles `xargs [options] command [arguments] < data`.
fn xargs(args: &[Word]) -> Takes {
    const VALUES: &str = "aIEdLnPsJRS";
    const LONG_VALUES: &str =
        "arg-file delimiter max-lines max-args max-procs max-chars process-slot-var";
    let mut replaced: Option<String> = None;
    let mut at = 0;
    while let Some(arg) = args
        .get(at)
        .filter(|arg| !arg.is_open && arg.text.len() > 1 && arg.text.starts_with('-'))
    {
        let text = arg.text.as_str();
        at += 1;
        if text == "--" {
            break;
        }
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = long
                .split_once('=')
                .map_or((long, None), |(name, value)| (name, Some(value)));
            if "replace".starts_with(name) {
                replaced = Some(value.unwrap_or("{}").to_owned());
            } else if value.is_none() && is_one_of(LONG_VALUES, name) {
                at += 1;
            }
            continue;
        }
        // The first letter that takes a value takes the rest of the word, or the next word.
        let Some((place, letter)) = text
            .char_indices()
            .skip(1)
            .find(|(_, c)| VALUES.contains(*c) || *c == 'i')
        else {
            continue;
        };
        let glued = &text[place + letter.len_utf8()..];
        match letter {
            'i' => replaced = Some(if glued.is_empty() { "{}" } else { glued }.to_owned()),
            'I' | 'J' if glued.is_empty() => replaced = args.get(at).map(|arg| arg.text.clone()),
            'I' | 'J' => replaced = Some(glued.to_owned()),
            _ => {}
        }
        at += usize::from(glued.is_empty() && letter != 'i');
    }
    let command = args.get(at..).unwrap_or_default();
    match command {
        [] => Takes::Nothing,
        _ => Takes::Commands(vec![with_data(command, replaced.as_deref())]),
    }
}

/// Returns a command with data in place of `replaced`, or at its end.
fn with_data(command: &[Word], replaced: Option<&str>) -> Vec<Word> {
    let mut words = command.to_vec();
    match replaced.filter(|text| !text.is_empty()) {
        Some(text) => {
            words
                .iter_mut()
                .for_each(|word| word.is_open |= word.text.contains(text));
        }
        None => words.push(open_word()),
    }
    words
}

/// Handles `find … -exec command … ;` and `-delete`.
fn find(args: &[Word]) -> Takes {
    let mut commands = Vec::new();
    for (at, arg) in args.iter().enumerate() {
        match arg.text.as_str() {
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let rest = &args[at + 1..];
                let end = rest
                    .iter()
                    .position(|word| word.text == ";" || word.text == "+")
                    .unwrap_or(rest.len());
                commands.push(with_data(&rest[..end], Some("{}")));
            }
            "-delete" => commands.push(words(&["rm", "-r", "-f"])),
            // An unquoted variable could be any of these.
            text if arg.is_open && text.contains(['$', '`']) => return Takes::Anything,
            _ => {}
        }
    }
    commands_or_nothing(commands)
}

/// Handles `fd … -x command …`, up to the end of the line or a semicolon.
fn fd(args: &[Word]) -> Takes {
    let is_exec = |text: &str| {
        let long = text.split('=').next().unwrap_or(text);
        ["--exec", "--exec-batch"].contains(&long) || has_letter(text, 'x') || has_letter(text, 'X')
    };
    let Some(at) = args.iter().position(|arg| is_exec(&arg.text)) else {
        return Takes::Nothing;
    };
    let glued = args[at]
        .text
        .split_once('=')
        .map(|(_, command)| words(&[command]));
    let rest = &args[at + 1..];
    let end = rest
        .iter()
        .position(|word| word.text == ";")
        .unwrap_or(rest.len());
    let mut command = glued.unwrap_or_default();
    command.extend_from_slice(&rest[..end]);
    let is_placed = command.iter().any(|word| word.text.contains('{'));
    commands_or_nothing(vec![with_data(&command, is_placed.then_some("{"))])
}

fn commands_or_nothing(commands: Vec<Vec<Word>>) -> Takes {
    let commands: Vec<_> = commands
        .into_iter()
        .filter(|command| !command.is_empty())
        .collect();
    if commands.is_empty() {
        Takes::Nothing
    } else {
        Takes::Commands(commands)
    }
}

fn words(texts: &[&str]) -> Vec<Word> {
    texts.iter().map(|text| Word::literal(text)).collect()
}

/// Returns true if a shell reads its script from stdin. A script in a file belongs to the file, and
/// text after `-c` is read as a separate line.
fn shell(args: &[Word], is_fed: bool) -> bool {
    for (at, arg) in args.iter().enumerate() {
        let text = arg.text.as_str();
        let is_long = text.starts_with("--") && text.len() > 2;
        if arg.is_open || has_letter(text, 's') || (text == "-" && is_fed) {
            return true;
        }
        if has_letter(text, 'c') || (is_long && "--command".starts_with(text)) {
            return args.get(at + 1).is_none_or(|text| text.is_open);
        }
        if !text.starts_with(['-', '+']) {
            let is_value = at > 0
                && ["-o", "+o", "-O", "+O", "--rcfile", "--init-file"]
                    .contains(&args[at - 1].text.as_str());
            if !is_value {
                return is_stdin(text);
            }
        }
    }
    is_fed
}

/// Returns true if a program with options that run something was given one of them, or reads a
/// script.
fn runs(runner: &Runner, args: &[Word], is_fed: bool) -> bool {
    let long = |text: &str| {
        let bare = text.trim_start_matches('-');
        let name = bare.split('=').next().unwrap_or(bare).to_lowercase();
        !name.is_empty()
            && (text.starts_with('-') || text == "eval")
            && is_one_of(runner.long, &name)
    };
    if runner.long == "*" {
        return is_fed || !args.is_empty();
    }
    let Some(values) = runner.script else {
        let is_command = |arg: &Word| {
            let text = arg.text.as_str();
            let is_own = text.starts_with('+') && runner.names.starts_with("vim")
                || text.starts_with(".sh")
                || text.starts_with("\\!");
            long(text) || is_own || runner.short.chars().any(|letter| has_letter(text, letter))
        };
        return args.iter().any(is_command);
    };
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let text = arg.text.as_str();
        if arg.is_open && !text.starts_with(|c: char| c.is_alphanumeric() || c == '/' || c == '.') {
            return true;
        }
        if long(text) || (at == 0 && is_one_of(runner.long, text)) {
            return true;
        }
        if text == "-" || !text.starts_with('-') {
            return is_stdin(text);
        }
        let cluster = if text.starts_with("--") {
            ""
        } else {
            &text[1..]
        };
        // Python's `-m` module is its script.
        let end = cluster
            .find('m')
            .filter(|_| runner.names.starts_with("python"))
            .unwrap_or(cluster.len());
        if cluster[..end].contains(|c| runner.short.contains(c)) {
            return true;
        }
        if end < cluster.len() {
            return false;
        }
        at += if cluster.ends_with(|c| values.contains(c)) {
            2
        } else {
            1
        };
    }
    is_fed
}

/// Returns true if make, sed or awk reads its script from stdin.
fn script_is_read(args: &[Word]) -> bool {
    args.iter().enumerate().any(|(at, arg)| {
        let text = arg.text.as_str();
        let is_short = has_letter(text, 'f');
        let file = match text.split_once(if is_short { 'f' } else { '=' }) {
            Some((_, file)) => file,
            None => "",
        };
        let is_option = is_short || is_long(text, "file") || is_long(text, "makefile");
        let next = args.get(at + 1).filter(|_| is_option && file.is_empty());
        is_stdin(file) || next.is_some_and(|file| is_stdin(&file.text) || file.is_open)
    })
}

/// Handles `ssh host`, which reads its command from stdin if it has none. Some of its settings are
/// commands, too.
fn ssh(args: &[Word], is_fed: bool) -> bool {
    const VALUES: &str = "BbcDEeFIiJLlmOopQRSWw";
    let mut operands = 0;
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let text = arg.text.as_str();
        if text.to_lowercase().contains("command=") || text.to_lowercase().contains("command ") {
            return true;
        }
        let takes_next =
            text.len() == 2 && text.starts_with('-') && text.ends_with(|c| VALUES.contains(c));
        if takes_next
            && args
                .get(at + 1)
                .is_some_and(|next| next.text.to_lowercase().contains("command"))
        {
            return true;
        }
        operands += usize::from(!text.starts_with('-'));
        at += if takes_next { 2 } else { 1 };
    }
    operands < 2 && is_fed
}

/// Returns true if git's arguments make it run a program, or redefine its subcommand.
fn git(args: &[Word]) -> bool {
    let mut at = 0;
    let is_harmless = |setting: &str| {
        let key = setting.split('=').next().unwrap_or(setting).to_lowercase();
        is_one_like(GIT_HARMLESS, &key)
    };
    while let Some(arg) = args.get(at).filter(|arg| arg.text.starts_with('-')) {
        let text = arg.text.as_str();
        match text {
            "-c" if args
                .get(at + 1)
                .is_none_or(|setting| setting.is_open || !is_harmless(&setting.text)) =>
            {
                return true;
            }
            "-c" | "-C" | "--git-dir" | "--work-tree" | "--namespace" | "--super-prefix"
            | "--attr-source" => at += 2,
            _ if text.starts_with("--config-env") || text.starts_with("--exec-path=") => {
                return true;
            }
            _ => at += 1,
        }
    }
    let Some((sub_command, rest)) = args.get(at..).and_then(<[Word]>::split_first) else {
        return false;
    };
    if sub_command.text == "config" {
        let set = rest
            .iter()
            .filter(|arg| !arg.text.starts_with('-'))
            .map(|arg| arg.text.as_str());
        let keys: Vec<&str> = set
            .filter(|word| !["set", "get", "list", "unset"].contains(word))
            .collect();
        return keys.len() > 1 && !is_harmless(keys[0]);
    }
    if rest.iter().any(|arg| arg.text.starts_with("ext::")) {
        return true;
    }
    let entries = GIT_RUNS
        .iter()
        .filter(|(name, _, _)| *name == sub_command.text);
    entries.into_iter().any(|(_, short, long)| {
        *long == "*"
            || rest.iter().any(|arg| {
                let text = arg.text.as_str();
                let is_option = long
                    .split(' ')
                    .any(|name| is_long(text, name) || text == name);
                is_option || short.chars().any(|letter| has_letter(text, letter))
            })
    })
}

/// Returns true if an awk program runs commands.
fn awk(program: &str) -> bool {
    let pipes = program.replace("||", "");
    program.contains("system") || pipes.contains('|') || program.contains("@load")
}

/// Returns the scripts among sed's arguments.
fn sed_scripts(args: &[Word]) -> Vec<&str> {
    let texts: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
    let mut scripts = Vec::new();
    let mut is_certain = false;
    for (at, text) in texts.iter().enumerate() {
        // The letters before the option may be the value of another one, such as `-i.e`.
        let (before, glued) = match text.split_once('=') {
            _ if has_letter(text, 'e') => text.split_once('e').unwrap_or((text, "")),
            Some((_, script)) if is_long(text, "expression") => ("", script),
            None if is_long(text, "expression") => ("", ""),
            _ => continue,
        };
        is_certain |= !before.contains(['f', 'i', 'l']);
        let next = || texts.get(at + 1).copied();
        scripts.extend(Some(glued).filter(|glued| !glued.is_empty()).or_else(next));
    }
    if !is_certain {
        scripts.extend(texts.iter().find(|text| !text.starts_with('-')));
    }
    scripts
}

/// Returns true if a sed script certainly has neither the command `e` nor the flag `e`, which run a
/// shell.
fn is_tame(script: &str) -> bool {
    let mut rest = script.trim_start();
    while let Some(c) = rest.chars().next() {
        let tail = &rest[c.len_utf8()..];
        rest = match c {
            // Addresses, blocks, and commands without arguments.
            '0'..='9' | '$' | ',' | '~' | '+' | '!' | '{' | '}' | ';' | ' ' | '\t' | '\n' => tail,
            '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'l' | 'n' | 'N' | 'p' | 'P' | 'q' | 'Q'
            | 'x' | 'z' | 'F' => tail,
            '/' => match past(tail, '/') {
                Some(tail) => tail.trim_start_matches(['I', 'M']),
                None => return false,
            },
            's' | 'y' => {
                let Some(delimiter) = tail.chars().next() else {
                    return false;
                };
                let parts = past(&tail[delimiter.len_utf8()..], delimiter)
                    .and_then(|tail| past(tail, delimiter));
                let Some(tail) = parts else { return false };
                tail.trim_start_matches(|c: char| "gpIiMm".contains(c) || c.is_ascii_digit())
            }
            'a' | 'i' | 'c' | 'r' | 'R' | 'w' | 'W' | '#' => {
                tail.split_once('\n').map_or("", |(_, tail)| tail)
            }
            'b' | 't' | 'T' | ':' => tail.split_once(['\n', ';']).map_or("", |(_, tail)| tail),
            _ => return false,
        };
    }
    true
}

/// Returns the text after the next unescaped `end`.
fn past(text: &str, end: char) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == end => return Some(&text[at + c.len_utf8()..]),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
