//! Tool calls as chat-completions servers stream them, in every shape seen in the wild.

use serde_json::{Value, json};

use super::request::plain;
use super::server_style::Shape;
use super::wire::cut;

/// A tool call of an answer.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: Value,
}

/// Renders the calls for a whole message.
pub(super) fn whole(calls: &[Call], shape: Shape) -> Vec<Value> {
    calls
        .iter()
        .enumerate()
        .map(|(index, call)| in_one_piece(index, call, shape))
        .collect()
}

/// Renders the calls as deltas, each the `tool_calls` list of one chunk.
pub(super) fn deltas(calls: &[Call], shape: Shape) -> Vec<Vec<Value>> {
    if calls.is_empty() {
        return Vec::new();
    }
    match shape {
        Shape::OneChunk | Shape::WithTheEnd => vec![whole(calls, shape)],
        Shape::WithoutIdAndIndex
        | Shape::OnePiece
        | Shape::EmptyArguments
        | Shape::NoArguments
        | Shape::ObjectArguments => whole(calls, shape)
            .into_iter()
            .map(|call| vec![call])
            .collect(),
        _ => {
            let pieces: Vec<Vec<Value>> = calls
                .iter()
                .enumerate()
                .map(|(index, call)| in_pieces(index, call, shape))
                .collect();
            let ordered = if shape == Shape::Interleaved {
                interleave(&pieces)
            } else {
                pieces.concat()
            };
            ordered.into_iter().map(|piece| vec![piece]).collect()
        }
    }
}

fn in_one_piece(index: usize, call: &Call, shape: Shape) -> Value {
    let mut piece = first(index, call, shape);
    match shape {
        Shape::EmptyArguments => {}
        Shape::NoArguments => piece["function"] = json!({"name": call.name}),
        Shape::ObjectArguments => piece["function"]["arguments"] = call.input.clone(),
        _ => piece["function"]["arguments"] = json!(plain(&call.input)),
    }
    piece
}

fn in_pieces(index: usize, call: &Call, shape: Shape) -> Vec<Value> {
    let arguments = plain(&call.input);
    let count = if shape == Shape::ManyPieces {
        arguments.chars().count()
    } else {
        2
    };
    let mut pieces = vec![first(index, call, shape)];
    for part in cut(&arguments, count) {
        let mut piece = json!({"index": index, "function": {"arguments": part}});
        match shape {
            Shape::WithoutIndex => piece = json!({"function": {"arguments": part}}),
            Shape::CollidingIndex => piece["index"] = json!(0),
            Shape::IdRepeated => piece["id"] = json!(call.id),
            Shape::NameRepeated => {
                piece["id"] = json!(call.id);
                piece["function"]["name"] = json!(call.name);
            }
            Shape::BlankedAfterwards => {
                piece["id"] = json!("");
                piece["function"]["name"] = json!("");
            }
            _ => {}
        }
        pieces.push(piece);
    }
    pieces
}

/// Renders the first piece, which names the tool, without arguments.
fn first(index: usize, call: &Call, shape: Shape) -> Value {
    let mut piece = json!({"index": index, "id": call.id, "type": "function",
        "function": {"name": call.name, "arguments": ""}});
    let mut drop = |key: &str| piece.as_object_mut().and_then(|piece| piece.remove(key));
    match shape {
        Shape::WithoutId => drop("id"),
        Shape::WithoutIndex => drop("index"),
        Shape::WithoutIdAndIndex => drop("id").and(drop("index")),
        Shape::CollidingIndex => {
            piece["index"] = json!(0);
            None
        }
        _ => None,
    };
    piece
}

/// Interleaves the lists: the first item of each, then the second of each, and so on.
fn interleave(lists: &[Vec<Value>]) -> Vec<Value> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or_default();
    (0..longest)
        .flat_map(|at| lists.iter().filter_map(move |list| list.get(at).cloned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Call, deltas};
    use crate::Shape;

    /// Renders the deltas of the calls `a{"x":1}` and `b{}` as `index:id:name(arguments)`.
    fn sent(shape: Shape) -> String {
        let call = |id: &str, name: &str, input| Call {
            id: id.to_owned(),
            name: name.to_owned(),
            input,
        };
        let calls = [call("i1", "a", json!({"x": 1})), call("i2", "b", json!({}))];
        let describe = |piece: &Value| {
            let part = |pointer: &str| {
                piece
                    .pointer(pointer)
                    .map_or("-".to_owned(), |value| match value {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    })
            };
            format!(
                "{}:{}:{}({})",
                part("/index"),
                part("/id"),
                part("/function/name"),
                part("/function/arguments")
            )
        };
        let chunk = |pieces: Vec<Value>| pieces.iter().map(describe).collect::<Vec<_>>().join("+");
        deltas(&calls, shape)
            .into_iter()
            .map(chunk)
            .collect::<Vec<_>>()
            .join(" ")
    }

    // P63
    #[test]
    fn every_shape_is_what_its_name_says() {
        let usual = [
            r#"0:i1:a() 0:-:-({"x") 0:-:-(:1})"#,
            "1:i2:b() 1:-:-({) 1:-:-(})",
        ];
        let [a, b] = usual;
        let table = [
            (Shape::Usual, usual.join(" ")),
            (Shape::WithoutId, usual.join(" ").replace("i1", "-").replace("i2", "-")),
            (Shape::WithoutIndex, usual.join(" ").replace("0:", "-:").replace("1:-", "-:-").replace("1:i2", "-:i2")),
            (Shape::WithoutIdAndIndex, r#"-:-:a({"x":1}) -:-:b({})"#.to_owned()),
            (Shape::CollidingIndex, format!("{a} {}", b.replace("1:", "0:"))),
            (Shape::OnePiece, r#"0:i1:a({"x":1}) 1:i2:b({})"#.to_owned()),
            (Shape::OneChunk, r#"0:i1:a({"x":1})+1:i2:b({})"#.to_owned()),
            (Shape::WithTheEnd, r#"0:i1:a({"x":1})+1:i2:b({})"#.to_owned()),
            (
                Shape::ManyPieces,
                r#"0:i1:a() 0:-:-({) 0:-:-(") 0:-:-(x) 0:-:-(") 0:-:-(:) 0:-:-(1) 0:-:-(}) 1:i2:b() 1:-:-({) 1:-:-(})"#
                    .to_owned(),
            ),
            (Shape::EmptyArguments, "0:i1:a() 1:i2:b()".to_owned()),
            (Shape::NoArguments, "0:i1:a(-) 1:i2:b(-)".to_owned()),
            (Shape::Interleaved, r#"0:i1:a() 1:i2:b() 0:-:-({"x") 1:-:-({) 0:-:-(:1}) 1:-:-(})"#.to_owned()),
            (Shape::IdRepeated, format!("{} {}", a.replace("0:-", "0:i1"), b.replace("1:-", "1:i2"))),
            (Shape::NameRepeated, format!("{} {}", a.replace("0:-:-", "0:i1:a"), b.replace("1:-:-", "1:i2:b"))),
            (Shape::BlankedAfterwards, format!("{} {}", a.replace("0:-:-", "0::"), b.replace("1:-:-", "1::"))),
            (Shape::ObjectArguments, r#"0:i1:a({"x":1}) 1:i2:b({})"#.to_owned()),
        ];
        for (shape, expected) in table {
            assert_eq!(sent(shape), expected, "{shape:?}");
        }
    }
}
