//! Options of denied commands: a set, in any order and spelling.

use super::super::pattern::matches_wildcard;
use super::Word;

/// Options that mean the same, by program. The first part of each entry lists programs, and each of
/// the others is a group: single characters are short options, longer names are long ones.
const SYNONYMS: &[(&str, &[&str])] = &[
    (
        "rm",
        &[
            "r R recursive",
            "f force",
            "d dir",
            "i I interactive",
            "v verbose",
        ],
    ),
    (
        "cp",
        &[
            "r R recursive",
            "f force remove-destination",
            "v verbose",
            "n no-clobber",
            "a archive",
        ],
    ),
    (
        "mv",
        &["f force", "v verbose", "n no-clobber", "i interactive"],
    ),
    ("ln", &["f force", "s symbolic"]),
    ("mkdir", &["p parents", "m mode"]),
    (
        "chmod chown chgrp setfacl chcon",
        &[
            "R recursive",
            "f silent quiet",
            "h no-dereference",
            "v verbose",
        ],
    ),
    (
        "git",
        &[
            "f force force-with-lease force-if-includes",
            "d delete",
            "n dry-run no-verify",
            "u set-upstream",
            "a all",
            "m message move",
            "x exec",
            "i interactive",
            "hard",
            "mirror",
            "prune",
            "tags",
            "follow-tags",
            "amend",
            "cached",
        ],
    ),
    ("kill pkill killall", &["9 KILL SIGKILL", "s signal"]),
    (
        "curl",
        &[
            "X request",
            "d data data-raw data-binary data-urlencode json",
            "T upload-file",
            "o output",
            "F form",
        ],
    ),
    (
        "wget",
        &[
            "O output-document",
            "method",
            "post-data post-file body-data body-file",
        ],
    ),
    (
        "tar",
        &[
            "x extract get",
            "c create",
            "f file",
            "C directory",
            "P absolute-names",
            "v verbose",
            "t list",
        ],
    ),
    (
        "apt apt-get dnf yum",
        &["y yes assume-yes assumeyes", "q quiet"],
    ),
    (
        "sed",
        &[
            "i in-place",
            "n quiet silent",
            "e expression",
            "E r regexp-extended",
        ],
    ),
];

/// Options that imply others.
const INCLUDES: &[(&str, &str, &str)] = &[
    ("git", "D", "d f"),
    ("git", "M", "m f"),
    ("git", "mirror", "f d"),
    ("cp", "a", "r"),
    ("cp", "archive", "r"),
];

/// Programs whose long options have a single dash.
const SINGLE_DASH: &str =
    "find java javac go terraform tofu openssl ffmpeg gcc clang rustc pwsh powershell xset";

/// One option of a rule, or its value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OptionPattern {
    /// A short option, alone or in a cluster.
    Short(char),
    /// A long option without its dashes, in any spelling.
    Long(String),
    /// An option as a wildcard pattern.
    Wildcard(String),
    /// A word after an option in the rule: its value, or a separate argument.
    Value(String),
}

/// The options of a rule: all must be present.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    wanted: Vec<OptionPattern>,
    groups: Option<&'static [&'static str]>,
    program: String,
}

/// Splits the words of a rule after its program into positional words and options.
pub(super) fn separate(program: &str, words: &[String]) -> (Vec<String>, Options) {
    let known = SYNONYMS
        .iter()
        .find(|(programs, _)| programs.split(' ').any(|known| known == program));
    let mut options = Options {
        groups: known.map(|known| known.1),
        program: program.to_owned(),
        wanted: Vec::new(),
    };
    let mut ordered = Vec::new();
    for word in words {
        match word.strip_prefix('-') {
            None | Some("" | "-") if options.wanted.is_empty() => ordered.push(word.clone()),
            None | Some("" | "-") => options.wanted.push(OptionPattern::Value(word.clone())),
            Some(_) if word.contains('*') => {
                options.wanted.push(OptionPattern::Wildcard(word.clone()));
            }
            Some(rest) => options.add(rest),
        }
    }
    (ordered, options)
}

impl Options {
    fn add(&mut self, rest: &str) {
        let is_word = |letters: &str| {
            let mut seen: Vec<char> = letters.chars().collect();
            seen.sort_unstable();
            seen.windows(2).any(|pair| pair[0] == pair[1])
                || letters.chars().any(|c| !c.is_ascii_alphanumeric())
                || self.is_single_dash()
        };
        match rest.strip_prefix('-') {
            Some(long) => {
                let (name, value) = long
                    .split_once('=')
                    .map_or((long, None), |(name, value)| (name, Some(value)));
                self.wanted.push(OptionPattern::Long(name.to_owned()));
                self.wanted
                    .extend(value.map(|value| OptionPattern::Value(value.to_owned())));
            }
            None if rest.chars().count() > 1 && is_word(rest) => {
                self.wanted.push(OptionPattern::Long(rest.to_owned()));
            }
            None => {
                let parts = |letter: char| match (self.program.as_str(), letter) {
                    ("git", 'D') => vec!['d', 'f'],
                    ("git", 'M') => vec!['m', 'f'],
                    _ => vec![letter],
                };
                self.wanted
                    .extend(rest.chars().flat_map(parts).map(OptionPattern::Short));
            }
        }
    }

    fn is_single_dash(&self) -> bool {
        SINGLE_DASH.split(' ').any(|known| known == self.program)
    }

    pub(super) fn len(&self) -> usize {
        self.wanted.len()
    }

    /// Returns true if a word of a command could be the option at this index.
    pub(super) fn could_be(&self, nth: usize, word: &Word) -> bool {
        if word.is_open {
            return true;
        }
        let text = word.text.as_str();
        match &self.wanted[nth] {
            OptionPattern::Wildcard(pattern) => matches_wildcard(pattern, text),
            OptionPattern::Value(value) => {
                let glued =
                    text.starts_with('-') && value.split('*').all(|piece| text.contains(piece));
                matches_wildcard(value, text) || glued
            }
            OptionPattern::Short(letter) => self.means(letter.encode_utf8(&mut [0; 4]), text),
            OptionPattern::Long(name) => self.means(name, text),
        }
    }

    /// Returns true if an argument could be the option with this name.
    fn means(&self, name: &str, arg: &str) -> bool {
        let named = |given: &str| {
            self.same(name).any(|same| {
                same == given || (given.len() > 1 && same.len() > 1 && same.starts_with(given))
            })
        };
        let included = |given: &str| {
            INCLUDES
                .iter()
                .filter(|(program, option, _)| *program == self.program && *option == given)
                .any(|(_, _, more)| {
                    more.split(' ')
                        .any(|option| self.same(name).any(|same| same == option))
                })
        };
        let is = |given: &str| named(given) || included(given);
        match arg.strip_prefix('-') {
            Some(rest) => match rest.strip_prefix('-') {
                Some(long) => {
                    let given = long.split('=').next().unwrap_or(long);
                    is(given) || (self.groups.is_none() && may_be_long_form(name, given))
                }
                None if self.is_single_dash() => is(rest.split('=').next().unwrap_or(rest)),
                None => {
                    let letters = || rest.chars().map(|c| c.to_string());
                    letters().any(|letter| is(&letter))
                        || is(rest.split('=').next().unwrap_or(rest))
                        || (self.groups.is_none()
                            && letters().any(|letter| may_be_short_form(&letter, name)))
                }
            },
            // A refspec can mean the same as an option.
            None if self.program == "git" => {
                (arg.starts_with('+') && is("f"))
                    || (arg.starts_with(':') && arg.len() > 1 && is("d"))
            }
            None => false,
        }
    }

    /// Returns the names that mean the same, including the given one.
    fn same<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let groups = self.groups.unwrap_or_default().iter();
        let group = groups.filter(move |group| group.split(' ').any(|one| one == name));
        std::iter::once(name).chain(group.flat_map(|group| group.split(' ')))
    }
}

/// Returns true if an argument is known to contain an option of a program in any spelling: `-r`, a
/// cluster, `--recursive`, a shortened long name. Programs missing from the table of synonyms have
/// no known spellings.
#[must_use]
pub fn is_same_option(program: &str, option: &str, arg: &str) -> bool {
    let (_, options) = separate(program, &[option.to_owned()]);
    let word = Word::literal(arg);
    options.groups.is_some()
        && options.len() > 0
        && (0..options.len()).all(|nth| options.could_be(nth, &word))
}

/// Returns true if a long option could be the long form of a short one. Not every program is known,
/// so a letter of its name is enough.
fn may_be_long_form(short: &str, long: &str) -> bool {
    short.chars().count() == 1 && long.to_lowercase().contains(&short.to_lowercase())
}

/// Returns true if a letter could be the short form of a long option.
fn may_be_short_form(letter: &str, long: &str) -> bool {
    long.chars().count() > 1 && long.to_lowercase().starts_with(&letter.to_lowercase())
}
