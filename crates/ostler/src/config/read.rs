//! Parser of a configuration file: TOML into entries. All problems are reported at once.

use std::path::Path;
use std::sync::Arc;

use ostler_core::near::suggestion;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::entry::{Entry, Origin, Value};
use super::key::{Field, Key, Limit, Part};
use super::{Problem, Source, ValueError, WebhookField, reference};
use crate::host::RESERVED_PREFIX;

/// Maximum length of the name of an agent, variable, setting or model.
const MAX_NAME: usize = 100;

/// Maximum size of a file in bytes, far above any written by hand.
const MAX_FILE: usize = 1024 * 1024;

/// Maximum number of agents in one file.
const MAX_AGENTS: usize = 100;

/// Maximum number of values in one file: each is compared with the others.
const MAX_VALUES: usize = 2000;

type Item<'a> = (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>);

/// Parses a file.
pub(super) fn read(source: &Source) -> (Vec<Entry>, Vec<Problem>) {
    let name: Arc<str> = source.name.as_str().into();
    let line_ends = source.text.match_indices('\n').map(|(at, _)| at).collect();
    let mut reader = Reader {
        source,
        name,
        line_ends,
        entries: Vec::new(),
        problems: Vec::new(),
    };
    if source.text.len() > MAX_FILE {
        reader.wrong(0, format!("the file is larger than {MAX_FILE} bytes"));
        return (reader.entries, reader.problems);
    }
    let (document, faults) = DeTable::parse_recoverable(&source.text);
    if faults.is_empty() {
        document.get_ref().iter().for_each(|item| reader.top(item));
    }
    for fault in faults {
        reader.wrong(
            fault.span().map_or(0, |span| span.start),
            fault.message().to_owned(),
        );
    }
    (reader.entries, reader.problems)
}

struct Reader<'a> {
    source: &'a Source,
    name: Arc<str>,
    /// Offsets of the line ends.
    line_ends: Vec<usize>,
    entries: Vec<Entry>,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn top(&mut self, (key, value): Item<'a>) {
        match key.get_ref().as_ref() {
            "agent" => self.put(Key::Agent, (key, value), text),
            "agents" => match value.get_ref() {
                DeValue::Table(items) if items.len() > MAX_AGENTS => {
                    let why = format!(
                        "agents: expected at most {MAX_AGENTS}, found {}",
                        items.len()
                    );
                    self.wrong(key.span().start, why);
                }
                _ => self.each("agents", value, Self::agent),
            },
            "limits" => self.each("limits", value, Self::limit),
            "daemon" => self.put(Key::Daemon, (key, value), boolean),
            "notify" => {
                let source = self.source;
                self.put(Key::Notify, (key, value), |value| {
                    command(&list(value)?, source)
                });
            }
            "webhooks" => self.each("webhooks", value, Self::webhook),
            other => {
                let known = ["agent", "agents", "limits", "daemon", "notify", "webhooks"];
                self.unknown(other, key, &known);
            }
        }
    }

    fn agent(&mut self, (key, value): Item<'a>) {
        let name = key.get_ref().as_ref();
        if name.len() > MAX_NAME || !Part(name).is_bare() {
            let why = "expected at most 100 letters, digits, dashes and underscores";
            return self.wrong(key.span().start, format!("agents.{}: {why}", Part(name)));
        }
        self.each(&format!("agents.{name}"), value, |reader, item| {
            reader.field(name, item);
        });
    }

    fn field(&mut self, agent: &str, item: Item<'a>) {
        let (key, value) = item;
        let source = self.source;
        let of = |field: Field| Key::AgentField(agent.to_owned(), field);
        let table = format!("agents.{agent}.{}", key.get_ref());
        match key.get_ref().as_ref() {
            "like" => self.put(of(Field::Like), item, text),
            "model" => self.put(of(Field::Model), item, text),
            "command" => self.put(of(Field::Command), item, |value| {
                Ok(Value::Text(program(text(value)?.text(), source)))
            }),
            "args" => self.put(of(Field::Args), item, list),
            "acp" => self.put(of(Field::Acp), item, |value| command(&list(value)?, source)),
            "env" => self.each(&table, value, |reader, item| {
                reader.put(
                    of(Field::Env(item.0.get_ref().to_string())),
                    item,
                    |value| variable(item.0.get_ref(), value),
                );
            }),
            "models" => self.each(&table, value, |reader, item| {
                reader.put(of(Field::Alias(item.0.get_ref().to_string())), item, text);
            }),
            "set" => self.each(&table, value, |reader, item| {
                reader.put(of(Field::Set(item.0.get_ref().to_string())), item, setting);
            }),
            other => {
                let known = [
                    "command", "args", "env", "model", "models", "set", "like", "acp",
                ];
                self.unknown(&format!("agents.{agent}.{}", Part(other)), key, &known);
            }
        }
    }

    fn limit(&mut self, (key, value): Item<'a>) {
        let word = key.get_ref().as_ref();
        let Some(limit) = Limit::ALL.into_iter().find(|limit| limit.as_str() == word) else {
            return self.unknown(
                &format!("limits.{}", Part(word)),
                key,
                &Limit::ALL.map(Limit::as_str),
            );
        };
        self.put(Key::Limit(limit), (key, value), |value| {
            let text =
                number(value).map_or_else(|| text(value), |number| Ok(Value::Text(number)))?;
            limit.measure(text.text()).map(|_| text)
        });
    }

    fn webhook(&mut self, (key, value): Item<'a>) {
        let name = key.get_ref().as_ref();
        if name.len() > MAX_NAME || !Part(name).is_bare() {
            let why = "expected at most 100 letters, digits, dashes and underscores";
            return self.wrong(key.span().start, format!("webhooks.{}: {why}", Part(name)));
        }
        self.each(&format!("webhooks.{name}"), value, |reader, item| {
            reader.webhook_field(name, item);
        });
    }

    fn webhook_field(&mut self, name: &str, item: Item<'a>) {
        let (key, source) = (item.0, self.source);
        let word = key.get_ref().as_ref();
        let known = WebhookField::ALL;
        let Some(field) = known.into_iter().find(|field| field.as_str() == word) else {
            let known = known.map(WebhookField::as_str);
            return self.unknown(&format!("webhooks.{name}.{}", Part(word)), key, &known);
        };
        let of = Key::Webhook(name.to_owned(), field);
        match field {
            WebhookField::Url | WebhookField::SecretEnv => self.put(of, item, text),
            // Always a path, also without a slash.
            WebhookField::SecretFile => self.put(of, item, |value| {
                let text = text(value)?;
                let text = text.text();
                let is_plain = !text.starts_with("~/") && !text.starts_with('.');
                let prefix = if is_plain { "./" } else { "" };
                let path = match Path::new(text).is_absolute() {
                    true => text.to_owned(),
                    false => program(&format!("{prefix}{text}"), source),
                };
                Ok(Value::Text(path))
            }),
            WebhookField::Events => self.put(of, item, list),
            WebhookField::AllowPrivate => self.put(of, item, boolean),
        }
    }

    /// Calls a function for each item of a table.
    fn each(
        &mut self,
        table: &str,
        value: &'a Spanned<DeValue<'a>>,
        mut read: impl FnMut(&mut Self, Item<'a>),
    ) {
        match value.get_ref() {
            DeValue::Table(items) => items.iter().for_each(|item| read(self, item)),
            other => {
                self.wrong(
                    value.span().start,
                    format!("{table}: expected a table, found {}", kind(other)),
                );
            }
        }
    }

    fn put(
        &mut self,
        key: Key,
        (at, value): Item<'a>,
        read: impl FnOnce(&DeValue<'a>) -> Result<Value, ValueError>,
    ) {
        if at.get_ref().len() > MAX_NAME {
            let why = format!("a name has at most {MAX_NAME} bytes");
            return self.wrong(at.span().start, format!("{key}: {why}"));
        }
        match read(value.get_ref()) {
            Ok(_) if self.entries.len() == MAX_VALUES => {
                let why = format!("a file has at most {MAX_VALUES} values");
                self.wrong(at.span().start, why);
            }
            Ok(value) => {
                let from = Origin::File {
                    name: self.name.clone(),
                    line: self.line(at.span().start),
                };
                self.entries.push(Entry { key, value, from });
            }
            Err(why) => self.wrong(at.span().start, format!("{key}: {why}")),
        }
    }

    fn unknown(&mut self, key: &str, at: &Spanned<DeString<'a>>, known: &[&str]) {
        let why = format!("{key}: unknown key; {}", suggestion(at.get_ref(), known));
        self.wrong(at.span().start, why);
    }

    fn wrong(&mut self, at: usize, message: String) {
        self.problems
            .push(Problem::new(&self.name, Some(self.line(at)), message));
    }

    fn line(&self, at: usize) -> usize {
        self.line_ends.partition_point(|end| *end < at) + 1
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn text(value: &DeValue<'_>) -> Result<Value, ValueError> {
    match value {
        DeValue::String(text) if text.trim().is_empty() => {
            Err(ValueError::new("expected a non-empty string"))
        }
        value => string(value, "a string").map(Value::Text),
    }
}

/// Reads a string that can be passed to a program; `expected` describes it in an error.
fn string(value: &DeValue<'_>, expected: &str) -> Result<String, ValueError> {
    match value {
        DeValue::String(text) if text.contains('\0') => Err(ValueError::new(
            "a NUL character cannot be passed to a program",
        )),
        DeValue::String(text) => Ok(text.to_string()),
        other => Err(unexpected(expected, other)),
    }
}

fn unexpected(expected: &str, found: &DeValue<'_>) -> ValueError {
    ValueError::new(format!("expected {expected}, found {}", kind(found)))
}

fn list(value: &DeValue<'_>) -> Result<Value, ValueError> {
    let DeValue::Array(items) = value else {
        let expected = "a list of strings, such as [\"--flag\"]";
        return Err(unexpected(expected, value));
    };
    let texts = items.iter().map(|item| match item.get_ref() {
        text @ DeValue::String(_) => string(text, "a string"),
        other => Err(ValueError::new(format!(
            "expected a list of strings, found {} in it",
            kind(other)
        ))),
    });
    texts.collect::<Result<_, _>>().map(Value::List)
}

/// Converts a number to a string, as settings and limits have it.
fn number(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix());
            Some(number.ok()?.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        _ => None,
    }
}

fn boolean(value: &DeValue<'_>) -> Result<Value, ValueError> {
    match value {
        DeValue::Boolean(on) => Ok(Value::Text(on.to_string())),
        other => Err(unexpected("true or false", other)),
    }
}

fn setting(value: &DeValue<'_>) -> Result<Value, ValueError> {
    match value {
        DeValue::String(text) => Ok(Value::Text(text.to_string())),
        DeValue::Boolean(on) => Ok(Value::Text(on.to_string())),
        DeValue::Array(_) => list(value),
        other => number(other).map(Value::Text).ok_or_else(|| {
            let expected = "a string, a number, true, false or a list of strings";
            unexpected(expected, other)
        }),
    }
}

fn variable(name: &str, value: &DeValue<'_>) -> Result<Value, ValueError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(ValueError::new("expected the name of a variable"));
    }
    if name.starts_with(RESERVED_PREFIX) {
        return Err(ValueError::new(format!(
            "names that start with {RESERVED_PREFIX} are reserved"
        )));
    }
    let text = string(value, "a string")?;
    reference::check(&text).map_err(ValueError::from_error)?;
    Ok(Value::Text(text))
}

fn command(value: &Value, source: &Source) -> Result<Value, ValueError> {
    match value.list() {
        [first, rest @ ..] if !first.trim().is_empty() => {
            Ok(Value::List([&[program(first, source)], rest].concat()))
        }
        _ => Err(ValueError::new(
            "expected a program and its arguments, such as [\"my-agent\", \"--acp\"]",
        )),
    }
}

/// Resolves a program: a name is searched for in PATH, a path is relative to the file's directory.
fn program(text: &str, source: &Source) -> String {
    let path = match (text.strip_prefix("~/"), &source.home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ if Path::new(text).components().count() > 1 || text.starts_with('.') => {
            source.dir.join(text)
        }
        _ => return text.to_owned(),
    };
    // Normalised, as a person would write it.
    path.components()
        .collect::<std::path::PathBuf>()
        .to_string_lossy()
        .into_owned()
}
