//! Parser for git's configuration files. Reads what git reads, and skips what git would reject.

/// A setting of a configuration file.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Section, in lower case.
    pub(crate) section: String,
    /// Quoted part of the section's name.
    pub(crate) subsection: Option<String>,
    /// Key, in lower case.
    pub(crate) key: String,
    /// Value; `None` for a key without one, which git treats as true.
    pub(crate) value: Option<String>,
}

impl Setting {
    /// Returns true if this is the given setting, in any subsection.
    pub(crate) fn is(&self, section: &str, key: &str) -> bool {
        self.section == section && self.key == key
    }

    /// Returns the value, or an empty string.
    pub(crate) fn text(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }
}

/// Parses a configuration file. Invalid lines are skipped: where git gives up, this reads on, so it
/// finds no less.
pub(crate) fn parse(text: &str) -> Vec<Setting> {
    let text = text
        .strip_prefix('\u{feff}')
        .unwrap_or(text)
        .replace("\r\n", "\n");
    let mut reader = Reader {
        rest: text.chars().collect(),
        at: 0,
    };
    let mut section: Option<(String, Option<String>)> = None;
    let mut settings = Vec::new();
    while let Some(char) = reader.peek() {
        match char {
            char if char.is_whitespace() => reader.at += 1,
            '#' | ';' => reader.skip_line(),
            '[' => {
                let start = reader.at;
                match reader.header() {
                    Some(header) => section = Some(header),
                    None => {
                        reader.at = start;
                        reader.skip_line();
                    }
                }
            }
            char if char.is_ascii_alphabetic() => {
                let key = reader.key();
                match (&section, reader.value()) {
                    (Some((section, subsection)), Some(value)) => {
                        let (section, subsection) = (section.clone(), subsection.clone());
                        settings.push(Setting {
                            section,
                            subsection,
                            key,
                            value,
                        });
                    }
                    (_, None) => reader.skip_line(),
                    (None, _) => {}
                }
            }
            _ => reader.skip_line(),
        }
    }
    settings
}

struct Reader {
    rest: Vec<char>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let char = self.peek();
        self.at += usize::from(char.is_some());
        char
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|char| char != '\n') {}
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|char| char == ' ' || char == '\t') {
            self.at += 1;
        }
    }

    /// Parses `[section]`, `[section.sub]` or `[section "sub"]`.
    fn header(&mut self) -> Option<(String, Option<String>)> {
        self.at += 1;
        let mut name = String::new();
        while let Some(char) = self
            .peek()
            .filter(|char| char.is_ascii_alphanumeric() || matches!(char, '-' | '.'))
        {
            name.push(char.to_ascii_lowercase());
            self.at += 1;
        }
        if self.peek() == Some(']') {
            self.at += 1;
            return Some(match name.split_once('.') {
                Some((section, sub)) => (section.to_owned(), Some(sub.to_owned())),
                None => (name, None),
            });
        }
        self.skip_blanks();
        if self.next() != Some('"') {
            return None;
        }
        let mut sub = String::new();
        loop {
            match self.next()? {
                '\n' => return None,
                '"' => break,
                '\\' => sub.push(self.next()?),
                char => sub.push(char),
            }
        }
        (self.next() == Some(']')).then_some((name, Some(sub)))
    }

    fn key(&mut self) -> String {
        let mut key = String::new();
        while let Some(char) = self
            .peek()
            .filter(|char| char.is_ascii_alphanumeric() || *char == '-')
        {
            key.push(char.to_ascii_lowercase());
            self.at += 1;
        }
        key
    }

    /// Parses the value after a key. The outer `None` means that the text is not a value.
    #[expect(
        clippy::option_option,
        reason = "a setting without a value is not a line without a setting"
    )]
    fn value(&mut self) -> Option<Option<String>> {
        self.skip_blanks();
        match self.peek() {
            None | Some('\n') => return Some(None),
            Some('#' | ';') => {
                self.skip_line();
                return Some(None);
            }
            Some('=') => self.at += 1,
            Some(_) => return None,
        }
        self.skip_blanks();
        let (mut value, mut is_quoted, mut blanks) = (String::new(), false, String::new());
        loop {
            match self.next() {
                None | Some('\n') => break,
                Some('#' | ';') if !is_quoted => {
                    self.skip_line();
                    break;
                }
                Some(blank @ (' ' | '\t')) if !is_quoted => {
                    blanks.push(blank);
                    continue;
                }
                Some('"') => is_quoted = !is_quoted,
                Some('\\') => match self.next() {
                    Some('\n') | None => continue,
                    Some('n') => push(&mut value, &mut blanks, '\n'),
                    Some('t') => push(&mut value, &mut blanks, '\t'),
                    Some('b') => push(&mut value, &mut blanks, '\u{8}'),
                    Some(char) => push(&mut value, &mut blanks, char),
                },
                Some(char) => push(&mut value, &mut blanks, char),
            }
        }
        Some(Some(value))
    }
}

/// Appends a character, preceded by the pending blanks: blanks only count if something follows
/// them.
fn push(value: &mut String, blanks: &mut String, char: char) {
    value.push_str(blanks);
    blanks.clear();
    value.push(char);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(text: &str) -> Vec<String> {
        let one = |setting: Setting| {
            let sub = setting
                .subsection
                .map(|sub| format!(".{sub}"))
                .unwrap_or_default();
            let value = setting
                .value
                .map(|value| format!("={value}"))
                .unwrap_or_default();
            format!("{}{sub}.{}{value}", setting.section, setting.key)
        };
        parse(text).into_iter().map(one).collect()
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        for (text, expected) in [
            (
                "[core]\n\thooksPath = .githooks\n",
                &["core.hookspath=.githooks"][..],
            ),
            ("[CORE] HOOKSPATH=a b ; x\n", &["core.hookspath=a b"]),
            ("[include]path = ../x # y\n", &["include.path=../x"]),
            (
                "[includeIf \"gitdir:~/w/\"]\n path = \"a # b\"\n",
                &["includeif.gitdir:~/w/.path=a # b"],
            ),
            ("[a.B]\nc\n[d \"E\\\"f\"]\ng", &["a.b.c", "d.E\"f.g"]),
            (
                "[a]\nb = x \\\n  y\nc = \"q\\\"r\\\\s\\tt\"\n",
                &["a.b=x   y", "a.c=q\"r\\s\tt"],
            ),
            ("\u{feff}[a]\r\nb = c\r\n", &["a.b=c"]),
            (
                "[a]\n; x\n# y\n=\n!\nb = 1\n[broken\nc = 2\n",
                &["a.b=1", "a.c=2"],
            ),
            ("key = before any section\n", &[]),
            ("[a]\nb = \"open\nc = 1\n", &["a.b=open", "a.c=1"]),
            ("[a]\nb=  lead\"  in  \"trail  \n", &["a.b=lead  in  trail"]),
        ] {
            assert_eq!(listing(text), expected, "{text:?}");
        }
    }

    // The parser agrees with git's own listing.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "git itself is the measure")]
    fn the_parser_agrees_with_git() {
        let text = "[core]\n\thooksPath = \"a b\"/c ; no\n[Include]\n  Path = x\\\\y\n[includeIf \"onbranch:m\"] path = \"#z\"\n\
                    [alias \"Q\"]\n  x = !sh -c \\\n 'y'\n[a.B]\nflag\n";
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("config");
        std::fs::write(&file, text).unwrap();
        let mut git = std::process::Command::new("git");
        let output = git
            .args(["config", "--no-includes", "--list", "-f"])
            .arg(&file)
            .output()
            .unwrap();
        let output_text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(listing(text), output_text.lines().collect::<Vec<_>>());
    }
}
