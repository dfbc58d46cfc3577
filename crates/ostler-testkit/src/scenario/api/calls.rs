//! Tool calls in every shape that servers stream them in, and malformed calls. P63.

use std::fs;

use serde_json::{Value, json};

use super::{answers, completes};
use crate::model::{Answer, Delivery, ServerStyle, Shape};
use crate::scenario::{Driver, Observed, Task};

/// The model writes two files in one message.
pub(super) fn two_files() -> Answer {
    let file = |name: &str, text: &str| json!({"path": name, "content": text});
    Answer::tool("write_file", file("one.txt", "eins \"zwei\"\n"))
        .and_tool("write_file", file("two.txt", "drei ü 🐎\n"))
}

/// Checks that both files are written and that each call has its own result, also in the next
/// model request.
fn both_are_written(driver: &dyn Driver, answer: Answer) -> Observed {
    let env = answers(driver, [answer, Answer::text("Done.")]);
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    seen.assert_usage(1..=2);
    let wrote = |name: &str| fs::read_to_string(env.work().join(name)).unwrap_or_default();
    assert_eq!(
        (wrote("one.txt"), wrote("two.txt")),
        ("eins \"zwei\"\n".to_owned(), "drei ü 🐎\n".to_owned())
    );
    let calls = seen.all("tool_call");
    let inputs: Vec<&Value> = calls.iter().map(|call| &call["input"]["path"]).collect();
    assert_eq!(inputs, ["one.txt", "two.txt"]);
    assert_eq!(seen.answer(), "Done.");
    let request = &env.server.requests()[1].body;
    let ids: Vec<&Value> = calls.iter().map(|call| &call["id"]).collect();
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let call_ids = messages
        .iter()
        .find(|message| message["role"] == "assistant")
        .expect("the model's message");
    let call_ids: Vec<&Value> = call_ids["tool_calls"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|call| &call["id"])
        .collect();
    let results: Vec<&Value> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| &message["tool_call_id"])
        .collect();
    assert_eq!(
        (&call_ids, &results),
        (&ids, &ids),
        "the ids agree: {request:#}"
    );
    assert!(
        ids[0] != ids[1]
            && ids
                .iter()
                .all(|id| id.as_str().is_some_and(|id| !id.is_empty())),
        "{ids:?}"
    );
    seen
}

/// Checks that two calls without arguments both run.
fn both_list(driver: &dyn Driver, shape: Shape) {
    let both = Answer::tool("list_files", json!({}))
        .and_tool("list_files", json!({}))
        .manner(shape);
    let env = answers(driver, [both, Answer::text("Done.")]);
    fs::write(env.work().join("here.txt"), "").expect("write a file");
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    let results = seen.all("tool_result");
    assert_eq!(results.len(), 2);
    for result in results {
        assert!(
            result["ok"] == true
                && result["output"]
                    .as_str()
                    .is_some_and(|o| o.contains("here.txt")),
            "{result}"
        );
    }
}

macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident $shape:ident;)*) => {
        $($(#[$doc])*
        pub fn $name(driver: &dyn Driver) {
            both_are_written(driver, two_files().manner(Shape::$shape));
        })*
    };
}

shapes! {
    /// As OpenAI streams them.
    usual Usual;
    /// No id: one is generated.
    without_id WithoutId;
    /// No index: a piece belongs to the previous call.
    without_index WithoutIndex;
    /// Neither: each piece is a call.
    without_id_and_index WithoutIdAndIndex;
    /// Every call has index 0: only the ids differ.
    colliding_index CollidingIndex;
    /// Each call in one piece.
    one_piece OnePiece;
    /// All calls in one chunk.
    one_chunk OneChunk;
    /// The calls arrive with the finish reason.
    with_the_end WithTheEnd;
    /// One character at a time.
    many_pieces ManyPieces;
    /// The pieces of both calls alternate.
    interleaved Interleaved;
    /// The id in every piece.
    id_repeated IdRepeated;
    /// The name in every piece: it must not be concatenated.
    name_repeated NameRepeated;
    /// Id and name are empty after the first piece: they must not overwrite anything.
    blanked_afterwards BlankedAfterwards;
    /// The arguments as an object instead of a string.
    object_arguments ObjectArguments;
}

/// Arguments that are the empty string mean no arguments.
pub fn empty_arguments(driver: &dyn Driver) {
    both_list(driver, Shape::EmptyArguments);
}

/// Absent arguments mean no arguments.
pub fn no_arguments(driver: &dyn Driver) {
    both_list(driver, Shape::NoArguments);
}

/// The calls count, not the finish reason: `stop`, with and without a stream.
pub fn calls_with_stop_reason(driver: &dyn Driver) {
    both_are_written(driver, two_files().stop_reason("stop"));
    both_are_written(
        driver,
        two_files()
            .stop_reason("stop")
            .manner(Delivery::AlwaysWhole),
    );
}

/// A finish reason that promises calls although there are none: the text is the answer.
pub fn calls_reason_without_calls(driver: &dyn Driver) {
    let env = answers(
        driver,
        [Answer::text("Just words.").stop_reason("tool_calls")],
    );
    assert_eq!(
        completes(driver, &env, &Task::new("PROMPT")).answer(),
        "Just words."
    );
}

/// An unknown finish reason is not a failure.
pub fn unknown_reason(driver: &dyn Driver) {
    let env = answers(
        driver,
        [
            two_files().stop_reason("eos_token"),
            Answer::text("Done.").stop_reason("eos_token"),
        ],
    );
    assert_eq!(
        completes(driver, &env, &Task::new("PROMPT")).answer(),
        "Done."
    );
}

/// The first call is wrong; the model gets the error and corrects the call.
fn corrected(driver: &dyn Driver, wrong: Answer, code: &str) {
    let better = Answer::tool("write_file", json!({"path": "made", "content": "42\n"}));
    let env = answers(driver, [wrong, better, Answer::text("Done.")]);
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    seen.assert_usage(1..=3);
    let results = seen.all("tool_result");
    let how: Vec<(&Value, &Value)> = results
        .iter()
        .map(|result| (&result["ok"], &result["denied"]))
        .collect();
    assert_eq!(
        how,
        [
            (&json!(false), &json!(false)),
            (&json!(true), &json!(false))
        ]
    );
    let result = &env.server.requests()[1].last_tool_results()[0];
    assert!(
        result.is_error && result.text.starts_with(code),
        "{result:?}"
    );
    assert_eq!(
        fs::read_to_string(env.work().join("made")).unwrap_or_default(),
        "42\n"
    );
}

/// A tool that does not exist.
pub fn unknown_tool_is_corrected(driver: &dyn Driver) {
    corrected(
        driver,
        Answer::tool("make_coffee", json!({"sugar": 2})),
        "unknown_tool",
    );
}

/// Arguments that the tool does not accept.
pub fn bad_arguments_are_corrected(driver: &dyn Driver) {
    corrected(
        driver,
        Answer::tool("write_file", json!({"file": "made"})),
        "bad_arguments",
    );
    corrected(
        driver,
        Answer::tool("write_file", json!({"path": 42, "content": "x"})),
        "bad_arguments",
    );
    corrected(
        driver,
        Answer::tool("write_file", json!(["made"])),
        "bad_arguments",
    );
}

/// Arguments that are not valid JSON, such as truncated ones.
pub fn truncated_arguments_are_corrected(driver: &dyn Driver) {
    let truncated = Answer::tool("write_file", json!(r#"{"path": "made", "cont"#));
    corrected(driver, truncated.clone(), "bad_arguments");
    corrected(
        driver,
        truncated.manner(ServerStyle {
            delivery: Delivery::AlwaysWhole,
            ..ServerStyle::default()
        }),
        "bad_arguments",
    );
}
