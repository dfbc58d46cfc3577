//! Reads YAML, TOML and JSON into one tree of values with places.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::Number;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::tree::{Data, Entry, Node, Position};

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML 1.2.
    Yaml,
    /// TOML 1.1.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// Returns the format that a file name ends with, or `None` for another ending.
    #[must_use]
    pub fn of_extension(extension: &str) -> Option<Self> {
        match extension {
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// A text that is not of its format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// Where.
    pub at: Position,
    /// What is wrong.
    pub message: String,
}

impl SyntaxError {
    fn new(at: Position, message: impl Into<String>) -> Self {
        Self {
            at,
            message: message.into(),
        }
    }
}

/// Maximum depth of nested values.
const MAX_DEPTH: usize = 64;

/// Maximum number of values in a file. Aliases count as often as they are used.
const MAX_NODES: usize = 100_000;

/// Parses a text.
///
/// # Errors
/// The text is not of this format, a key occurs twice, or the limits of depth and size are
/// exceeded.
pub fn parse(text: &str, format: Format) -> Result<Node, SyntaxError> {
    match format {
        Format::Yaml => yaml(text),
        Format::Toml => toml(text),
        Format::Json => json(text),
    }
}

fn yaml(text: &str) -> Result<Node, SyntaxError> {
    let mut reader = YamlReader {
        parser: Parser::new_from_str(text),
        anchors: Vec::new(),
        nodes: 0,
    };
    let mut root = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => break,
            Event::DocumentStart(_) if root.is_some() => {
                let message = "a file holds one document; write one case per file";
                return Err(SyntaxError::new(position(span), message));
            }
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            first => root = Some(reader.node(first, span, 0)?),
        }
    }
    Ok(root.unwrap_or(Node {
        at: Position { line: 1, column: 1 },
        data: Data::Null,
    }))
}

fn position(span: Span) -> Position {
    Position {
        line: span.start.line(),
        column: span.start.col() + 1,
    }
}

struct YamlReader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    anchors: Vec<(usize, Node)>,
    nodes: usize,
}

impl<'a> YamlReader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), SyntaxError> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => {
                let at = Position {
                    line: error.marker().line(),
                    column: error.marker().col() + 1,
                };
                Err(SyntaxError::new(at, error.info()))
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, SyntaxError> {
        let at = position(span);
        self.count(1, depth, at)?;
        let (data, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain
                    || tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
                let data = if is_text {
                    Data::Text(text.into_owned())
                } else {
                    plain_scalar(&text)
                };
                (data, anchor)
            }
            Event::SequenceStart(anchor, _) => (self.list(depth)?, anchor),
            Event::MappingStart(anchor, _) => (self.table(depth)?, anchor),
            Event::Alias(anchor) => return self.alias(anchor, at, depth),
            _ => return Err(SyntaxError::new(at, "a value is missing here")),
        };
        let node = Node { at, data };
        if anchor > 0 {
            self.anchors.push((anchor, node.clone()));
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, at: Position, depth: usize) -> Result<Node, SyntaxError> {
        let found = self.anchors.iter().rev().find(|(id, _)| *id == anchor);
        let Some((_, node)) = found else {
            let message = "an alias must come after its anchor, and outside of it";
            return Err(SyntaxError::new(at, message));
        };
        let node = node.clone();
        self.count(size(&node), depth, at)?;
        Ok(node)
    }

    fn count(&mut self, nodes: usize, depth: usize, at: Position) -> Result<(), SyntaxError> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            let message = format!("the file has more than {MAX_NODES} values");
            return Err(SyntaxError::new(at, message));
        }
        check_depth(depth, at)
    }

    fn list(&mut self, depth: usize) -> Result<Data, SyntaxError> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Data::List(items));
            }
            items.push(self.node(event, span, depth + 1)?);
        }
    }

    fn table(&mut self, depth: usize) -> Result<Data, SyntaxError> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(Data::Table(entries));
            }
            let at = position(span);
            let Event::Scalar(key, ..) = event else {
                return Err(SyntaxError::new(at, "a key must be a plain text"));
            };
            let key = key.into_owned();
            check_unique(&entries, &key, at)?;
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            entries.push(Entry { key, at, value });
        }
    }
}

fn size(node: &Node) -> usize {
    match &node.data {
        Data::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Data::Table(entries) => {
            1 + entries
                .iter()
                .map(|entry| size(&entry.value))
                .sum::<usize>()
        }
        _ => 1,
    }
}

fn check_depth(depth: usize, at: Position) -> Result<(), SyntaxError> {
    if depth > MAX_DEPTH {
        let message = format!("values are nested more than {MAX_DEPTH} levels deep");
        return Err(SyntaxError::new(at, message));
    }
    Ok(())
}

fn check_unique(entries: &[Entry], key: &str, at: Position) -> Result<(), SyntaxError> {
    match entries.iter().find(|entry| entry.key == key) {
        None => Ok(()),
        Some(first) => {
            let message = format!("`{key}` is already defined in line {}", first.at.line);
            Err(SyntaxError::new(at, message))
        }
    }
}

/// Resolves a plain scalar by the core schema of YAML 1.2: `yes` and `on` are texts.
fn plain_scalar(text: &str) -> Data {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Data::Null,
        "true" | "True" | "TRUE" => return Data::Bool(true),
        "false" | "False" | "FALSE" => return Data::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return Data::Text(text.to_owned());
    }
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let radix = |digits: &str, radix| u64::from_str_radix(digits, radix).ok().map(Number::from);
    let number = if let Some(hex) = text.strip_prefix("0x") {
        radix(hex, 16)
    } else if let Some(octal) = text.strip_prefix("0o") {
        radix(octal, 8)
    } else if let Ok(number) = unsigned.parse::<i64>() {
        Some(Number::from(number))
    } else if let Ok(number) = unsigned.parse::<u64>() {
        Some(Number::from(number))
    } else {
        unsigned.parse().ok().and_then(Number::from_f64)
    };
    number.map_or_else(|| Data::Text(text.to_owned()), Data::Number)
}

fn toml(text: &str) -> Result<Node, SyntaxError> {
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        SyntaxError::new(Position::of_offset(text, offset), error.message())
    })?;
    let lines = Lines::of(text);
    let data = toml_table(table.get_ref(), &lines, 0)?;
    let at = Position { line: 1, column: 1 };
    Ok(Node { at, data })
}

fn toml_table(table: &DeTable<'_>, lines: &Lines<'_>, depth: usize) -> Result<Data, SyntaxError> {
    let mut entries = Vec::new();
    for (key, value) in table {
        entries.push(Entry {
            key: key.get_ref().to_string(),
            at: lines.position(key.span().start),
            value: toml_node(value, lines, depth + 1)?,
        });
    }
    entries.sort_by_key(|entry| entry.at);
    Ok(Data::Table(entries))
}

fn toml_node(
    value: &Spanned<DeValue<'_>>,
    lines: &Lines<'_>,
    depth: usize,
) -> Result<Node, SyntaxError> {
    let at = lines.position(value.span().start);
    check_depth(depth, at)?;
    let bad_number = || SyntaxError::new(at, "the number is too large");
    let data = match value.get_ref() {
        DeValue::String(text) => Data::Text(text.to_string()),
        DeValue::Boolean(value) => Data::Bool(*value),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            Data::Number(parsed.map_err(|_| bad_number())?.into())
        }
        DeValue::Float(number) => {
            let parsed = number.as_str().parse().ok().and_then(Number::from_f64);
            Data::Number(parsed.ok_or_else(bad_number)?)
        }
        DeValue::Datetime(time) => Data::Text(time.to_string()),
        DeValue::Array(items) => {
            let nodes = items.iter().map(|item| toml_node(item, lines, depth + 1));
            Data::List(nodes.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => toml_table(table, lines, depth)?,
    };
    Ok(Node { at, data })
}

fn json(text: &str) -> Result<Node, SyntaxError> {
    // Decides what is valid: the other parser is lenient, and only knows the places.
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        let at = Position {
            line: error.line(),
            column: error.column().max(1),
        };
        return Err(SyntaxError::new(at, error.to_string()));
    }
    let parsed = jsonc_parser::parse_to_ast(text, &Default::default(), &Default::default());
    let value = parsed.ok().and_then(|parsed| parsed.value);
    let Some(value) = value else {
        let at = Position { line: 1, column: 1 };
        return Err(SyntaxError::new(at, "the file cannot be read as JSON"));
    };
    json_node(&value, &Lines::of(text), 0)
}

fn json_node(value: &ast::Value<'_>, lines: &Lines<'_>, depth: usize) -> Result<Node, SyntaxError> {
    let at = lines.position(value.range().start);
    check_depth(depth, at)?;
    let data = match value {
        ast::Value::StringLit(text) => Data::Text(text.value.to_string()),
        ast::Value::NumberLit(number) => {
            let parsed = serde_json::from_str(number.value);
            Data::Number(parsed.map_err(|_| SyntaxError::new(at, "the number is too large"))?)
        }
        ast::Value::BooleanLit(value) => Data::Bool(value.value),
        ast::Value::NullKeyword(_) => Data::Null,
        ast::Value::Array(array) => {
            let items = array.elements.iter();
            let nodes = items.map(|item| json_node(item, lines, depth + 1));
            Data::List(nodes.collect::<Result<_, _>>()?)
        }
        ast::Value::Object(object) => {
            let mut entries: Vec<Entry> = Vec::new();
            for property in &object.properties {
                let at = lines.position(property.range.start);
                check_unique(&entries, property.name.as_str(), at)?;
                entries.push(Entry {
                    key: property.name.as_str().to_owned(),
                    at,
                    value: json_node(&property.value, lines, depth + 1)?,
                });
            }
            Data::Table(entries)
        }
    };
    Ok(Node { at, data })
}

/// Starts of lines, so that a place is found without counting from the start each time.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            starts: std::iter::once(0).chain(newlines).collect(),
        }
    }

    fn position(&self, offset: usize) -> Position {
        let offset = self.text.floor_char_boundary(offset.min(self.text.len()));
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        Position {
            line,
            column: self.text[self.starts[line - 1]..offset].chars().count() + 1,
        }
    }
}
