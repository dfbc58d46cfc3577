//! Words of a rule that a command must contain: a set, in any order and spelling.

use super::wildcard::matches_wildcard;

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

/// Spellings in which a word of a rule is recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// Abbreviated long options and combined short ones. The rule lists all others itself.
    Listed,
    /// The same, and synonyms if they are known for the program.
    Known,
    /// Everything that could mean the same: synonyms, or similar names if none are known for the
    /// program.
    Possible,
}

/// Words that a command must contain to match a rule.
#[derive(Debug, Clone)]
pub struct WordSet {
    program: String,
    spelling: Spelling,
    /// Groups of options that mean the same, if they are known for the program.
    synonyms: Option<&'static [&'static str]>,
    patterns: Vec<WordPattern>,
}

/// One word of a rule, or one letter of combined short options.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WordPattern {
    /// A short option, alone or in a cluster.
    Short(char),
    /// A long option, without its dashes.
    Long {
        /// The name of the option.
        name: String,
        /// The word as the rule has it.
        word: String,
    },
    /// An option with wildcards.
    Wildcard(String),
    /// Anything else, with wildcards: the value of an option, or a separate argument.
    Value(String),
}

impl WordSet {
    /// Creates a set from words of a rule for `program`.
    #[must_use]
    pub fn new<'a>(
        program: &str,
        spelling: Spelling,
        words: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known = SYNONYMS
            .iter()
            .find(|(programs, _)| programs.split(' ').any(|known| known == program));
        let mut set = Self {
            program: program.to_owned(),
            spelling,
            synonyms: known.map(|known| known.1),
            patterns: Vec::new(),
        };
        for word in words {
            match word.strip_prefix('-') {
                None | Some("" | "-") => set.patterns.push(WordPattern::Value(word.to_owned())),
                Some(_) if word.contains('*') => {
                    set.patterns.push(WordPattern::Wildcard(word.to_owned()));
                }
                Some(rest) => set.add_option(word, rest),
            }
        }
        set
    }

    /// Adds an option; `rest` is the word without its first dash.
    fn add_option(&mut self, word: &str, rest: &str) {
        let long = |name: &str| WordPattern::Long {
            name: name.to_owned(),
            word: word.to_owned(),
        };
        match rest.strip_prefix('-') {
            Some(name) => {
                let (name, value) = name
                    .split_once('=')
                    .map_or((name, None), |(name, value)| (name, Some(value)));
                self.patterns.push(long(name));
                // Otherwise the option counts with any value.
                let value = value.filter(|_| self.spelling == Spelling::Possible);
                let value = value.map(|value| WordPattern::Value(value.to_owned()));
                self.patterns.extend(value);
            }
            None if rest.chars().count() > 1 && !self.is_cluster(rest) => {
                self.patterns.push(long(rest));
            }
            None => {
                let parts = |letter: char| match (self.program.as_str(), letter) {
                    ("git", 'D') if self.spelling == Spelling::Possible => vec!['d', 'f'],
                    ("git", 'M') if self.spelling == Spelling::Possible => vec!['m', 'f'],
                    _ => vec![letter],
                };
                let letters = rest.chars().flat_map(parts).map(WordPattern::Short);
                self.patterns.extend(letters.collect::<Vec<_>>());
            }
        }
    }

    /// Returns true if letters after one dash are separate options. A repeated letter indicates a
    /// name, such as `-exec`.
    fn is_cluster(&self, letters: &str) -> bool {
        let is_repeated = |(at, letter): (usize, char)| letters[..at].contains(letter);
        letters.chars().all(|c| c.is_ascii_alphanumeric())
            && !letters.char_indices().any(is_repeated)
            && !(self.spelling == Spelling::Possible && self.is_single_dash())
    }

    fn is_single_dash(&self) -> bool {
        SINGLE_DASH.split(' ').any(|known| known == self.program)
    }

    /// Returns the number of words to find, with each letter of combined options counted.
    pub(super) fn len(&self) -> usize {
        self.patterns.len()
    }

    /// Returns true if each word of the set is among the arguments.
    #[must_use]
    pub fn is_within(&self, args: &[String]) -> bool {
        (0..self.len()).all(|nth| args.iter().any(|arg| self.matches(nth, arg)))
    }

    /// Returns the first argument that matches the first word of the set.
    #[must_use]
    pub fn first_match<'a>(&self, args: &'a [String]) -> Option<&'a str> {
        let is_first = |arg: &&String| self.len() > 0 && self.matches(0, arg);
        args.iter().find(is_first).map(String::as_str)
    }

    /// Returns true if an argument matches the word at this index.
    pub(super) fn matches(&self, nth: usize, arg: &str) -> bool {
        let pattern = &self.patterns[nth];
        let is_option = !matches!(pattern, WordPattern::Value(_));
        match self.spelling {
            Spelling::Listed => pattern.is_written(arg),
            Spelling::Known => {
                let is_known = self.synonyms.is_some() && is_option;
                pattern.is_written(arg) || (is_known && self.could_be(pattern, arg))
            }
            Spelling::Possible => self.could_be(pattern, arg),
        }
    }

    /// Returns true if an argument could mean the same as a word.
    fn could_be(&self, pattern: &WordPattern, arg: &str) -> bool {
        match pattern {
            WordPattern::Wildcard(word) => {
                matches_wildcard(word, arg) || (!word.contains('=') && is_long_option(word, arg))
            }
            WordPattern::Value(value) => {
                let is_glued =
                    arg.starts_with('-') && value.split('*').all(|piece| arg.contains(piece));
                matches_wildcard(value, arg) || is_glued
            }
            WordPattern::Short(letter) => self.means(letter.encode_utf8(&mut [0; 4]), arg),
            WordPattern::Long { name, .. } => self.means(name, arg),
        }
    }

    /// Returns true if an argument could be the option with this name.
    fn means(&self, name: &str, arg: &str) -> bool {
        let is_included = |given: &str| {
            INCLUDES
                .iter()
                .filter(|(program, option, _)| *program == self.program && *option == given)
                .any(|(_, _, more)| {
                    more.split(' ')
                        .any(|option| self.same(name).any(|same| same == option))
                })
        };
        let is_short_for = |given: &str| {
            !given.is_empty()
                && self
                    .same(name)
                    .any(|same| same.len() > 1 && same.starts_with(given))
        };
        let is = |given: &str| {
            self.same(name).any(|same| same == given)
                || (given.len() > 1 && is_short_for(given))
                || is_included(given)
        };
        let is_guessed = self.synonyms.is_none();
        match arg.strip_prefix('-') {
            Some(rest) => match rest.strip_prefix('-') {
                Some(long) => {
                    let given = long.split('=').next().unwrap_or(long);
                    is(given)
                        || is_short_for(given)
                        || (is_guessed && may_be_long_form(name, given))
                }
                None if self.is_single_dash() => is(rest.split('=').next().unwrap_or(rest)),
                None => {
                    let letters = || rest.chars().map(|c| c.to_string());
                    letters().any(|letter| is(&letter))
                        || is(rest.split('=').next().unwrap_or(rest))
                        || (is_guessed && letters().any(|letter| may_be_short_form(&letter, name)))
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
        let groups = self.synonyms.unwrap_or_default().iter();
        let group = groups.filter(move |group| group.split(' ').any(|one| one == name));
        std::iter::once(name).chain(group.flat_map(|group| group.split(' ')))
    }
}

impl WordPattern {
    /// Returns true if an argument is the word itself: a long option possibly abbreviated or with a
    /// value, a short option possibly in a cluster, anything else as a wildcard pattern.
    fn is_written(&self, arg: &str) -> bool {
        match self {
            Self::Short(letter) => short_options(arg).contains(*letter),
            Self::Long { word, .. } | Self::Wildcard(word) if word.starts_with("--") => {
                is_long_option(word, arg)
            }
            Self::Long { word, .. } | Self::Wildcard(word) => matches_wildcard(word, arg),
            Self::Value(value) => !arg.starts_with('-') && matches_wildcard(value, arg),
        }
    }
}

/// Returns true if an argument is the long option `word`: `--force` is also `--force=x` and
/// `--forc`, which many programs accept, and `--force*` any option that begins with it.
#[must_use]
pub fn is_long_option(word: &str, arg: &str) -> bool {
    let name = arg.split_once('=').map_or(arg, |(name, _)| name);
    name.starts_with("--")
        && name.len() > 2
        && (word.starts_with(name) || matches_wildcard(word, name))
}

/// Returns the letters of combined short options: `fd` of `-fd`, `o` of `-o=x`.
#[must_use]
pub fn short_options(arg: &str) -> &str {
    let letters = arg.strip_prefix('-').unwrap_or_default();
    let end = letters.find(|c: char| !c.is_ascii_alphanumeric());
    &letters[..end.unwrap_or(letters.len())]
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPELLINGS: [Spelling; 3] = [Spelling::Listed, Spelling::Known, Spelling::Possible];

    fn is_within(program: &str, spelling: Spelling, word: &str, args: &[&str]) -> bool {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        WordSet::new(program, spelling, [word]).is_within(&args)
    }

    #[test]
    fn spelling_decides_which_arguments_match() {
        for (program, word, args, spellings) in [
            // Long options.
            ("frob", "--force", &["--force"][..], [true, true, true]),
            ("frob", "--force", &["--force=x"], [true, true, true]),
            ("frob", "--force", &["--f"], [true, true, true]),
            ("frob", "--force", &["--"], [false, false, false]),
            ("frob", "--force", &["-"], [false, false, false]),
            ("frob", "--force", &["--=x"], [false, false, false]),
            ("frob", "--force", &["-force"], [false, false, true]),
            ("frob", "--force", &["-f"], [false, false, true]),
            ("frob", "--force", &["-F"], [false, false, true]),
            ("frob", "--force", &["-o"], [false, false, false]),
            ("frob", "--x=y", &["--x"], [true, true, false]),
            ("frob", "--x=y", &["--x=y"], [true, true, true]),
            ("frob", "--x=y", &["--x", "y"], [true, true, true]),
            ("frob", "--x=y", &["--x=z"], [true, true, false]),
            // Short options.
            ("frob", "-f", &["-f"], [true, true, true]),
            ("frob", "-f", &["-af"], [true, true, true]),
            ("frob", "-f", &["-o=f"], [false, false, true]),
            ("frob", "-f", &["--force"], [false, false, true]),
            ("frob", "-f", &["--stuff"], [false, false, true]),
            ("frob", "-f", &["--list"], [false, false, false]),
            ("frob", "-f", &["f"], [false, false, false]),
            ("frob", "-fx", &["-x", "-f"], [true, true, true]),
            ("frob", "-fx", &["-x"], [false, false, false]),
            ("frob", "-ff", &["-ff"], [true, true, true]),
            ("frob", "-ff", &["-f"], [false, false, true]),
            ("frob", "-a.b", &["-a.b"], [true, true, true]),
            // Synonyms.
            ("rm", "-r", &["--recursive"], [false, true, true]),
            ("rm", "-r", &["-vR"], [false, true, true]),
            ("rm", "-r", &["--rec"], [false, true, true]),
            ("rm", "-r", &["--force"], [false, false, false]),
            ("rm", "--recursive", &["-r"], [false, true, true]),
            ("rm", "--recursive", &["--r"], [true, true, true]),
            ("kill", "-KILL", &["-9"], [false, true, true]),
            ("kill", "-KILL", &["-KILL"], [true, true, true]),
            ("cp", "-r", &["-a"], [false, true, true]),
            ("cp", "-r", &["--archive"], [false, true, true]),
            ("cp", "-a", &["-r"], [false, false, false]),
            // Git.
            ("git", "-f", &["--force"], [false, true, true]),
            ("git", "-f", &["+main"], [false, true, true]),
            ("git", "-d", &[":main"], [false, true, true]),
            ("git", "-d", &[":"], [false, false, false]),
            ("git", "-D", &["-d", "-f"], [false, false, true]),
            ("git", "-D", &["-D"], [true, true, true]),
            ("git", "-D", &["-d"], [false, false, false]),
            ("git", "-M", &["-m", "-f"], [false, false, true]),
            ("git", "--delete", &["--mirror"], [false, true, true]),
            // Programs with long options after one dash.
            ("find", "-exec", &["-exec"], [true, true, true]),
            ("find", "-exec", &["-execdir"], [false, false, false]),
            ("find", "-name", &["-name"], [true, true, true]),
            ("find", "-name", &["-amen"], [true, true, false]),
            ("find", "-n", &["-name"], [true, true, false]),
            ("go", "-o", &["-o=x"], [true, true, true]),
            // Wildcards.
            ("frob", "--f*", &["--force=x"], [true, true, true]),
            ("frob", "--f*", &["--"], [false, false, false]),
            ("frob", "--fo*", &["--f"], [true, true, true]),
            ("frob", "-x*", &["-xyz"], [true, true, true]),
            ("frob", "-x*", &["-ax"], [false, false, false]),
            ("frob", "--x=a*", &["--x=abc"], [true, true, true]),
            ("frob", "--x=a*", &["--x=b"], [true, true, false]),
            // Anything else.
            ("frob", "go", &["go"], [true, true, true]),
            ("frob", "go", &["-ogo"], [false, false, true]),
            ("frob", "go", &["gone"], [false, false, false]),
            ("frob", "g*o", &["-o=gxo"], [false, false, true]),
            ("frob", "*", &["x"], [true, true, true]),
            ("frob", "*", &["-x"], [false, false, true]),
            ("frob", "-", &["-"], [false, false, true]),
            ("frob", "--", &["--"], [false, false, true]),
            ("rm", "--", &["--"], [false, false, true]),
        ] {
            for (spelling, expected) in SPELLINGS.into_iter().zip(spellings) {
                let found = is_within(program, spelling, word, args);
                assert_eq!(found, expected, "{spelling:?} {program} {word} {args:?}");
            }
        }
    }

    #[test]
    fn first_match_is_of_the_first_word() {
        let args: Vec<String> = ["x", "-b", "-a", "-ab"].map(str::to_owned).into();
        let first = |words: &[&str]| {
            let set = WordSet::new("frob", Spelling::Listed, words.iter().copied());
            set.first_match(&args).map(str::to_owned)
        };
        assert_eq!(first(&["-ab"]).as_deref(), Some("-a"));
        assert_eq!(first(&["-b", "x"]).as_deref(), Some("-b"));
        assert_eq!(first(&["-c"]), None);
        assert_eq!(first(&[]), None);
        assert!(WordSet::new("frob", Spelling::Listed, []).is_within(&args));
    }

    #[test]
    fn short_options_end_at_a_value() {
        for (arg, letters) in [
            ("-fd", "fd"),
            ("-o=x", "o"),
            ("-9", "9"),
            ("-", ""),
            ("--fd", ""),
            ("fd", ""),
            ("-ä", ""),
        ] {
            assert_eq!(short_options(arg), letters, "{arg}");
        }
    }

    proptest! {
        #[test]
        fn synonyms_only_add_matches(
            program in "rm|git|find|frob|tar",
            word in "-{0,2}[a-zD*=]{0,6}",
            args in prop::collection::vec("-{0,2}[a-zD=+:]{0,6}", 0..4),
        ) {
            let is_within = |spelling| WordSet::new(&program, spelling, [&*word]).is_within(&args);
            prop_assert!(!is_within(Spelling::Listed) || is_within(Spelling::Known));
            let _ = is_within(Spelling::Possible);
        }

        #[test]
        fn a_word_matches_itself(
            program in "rm|git|find|frob|tar",
            word in "--[a-z]{1,6}|-[a-z]{1,4}|[a-z]{1,6}",
        ) {
            for spelling in SPELLINGS {
                prop_assert!(is_within(&program, spelling, &word, &[&word]), "{spelling:?}");
            }
        }
    }
}
