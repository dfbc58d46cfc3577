//! Tests of Claude Code's usage: each source of numbers, and which one counts.

use ostler_core::dialect::Outbox;
use ostler_core::usage::CostSource;
use serde_json::{Value, json};

use super::*;

/// Input, cache read, cache write, output.
type Counts = [u64; 4];

fn counted(counts: Counts) -> Value {
    let [input, read, write, output] = counts;
    json!({"input_tokens": input, "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write, "output_tokens": output})
}

fn per_model(counts: Counts, cost: f64) -> Value {
    let [input, read, write, output] = counts;
    json!({"inputTokens": input, "cacheReadInputTokens": read, "cacheCreationInputTokens": write,
        "outputTokens": output, "costUSD": cost})
}

fn result(tracker: &mut UsageTracker, line: &Value) -> Vec<Usage> {
    let text = line.to_string();
    tracker.of_result(&serde_json::from_str(&text).unwrap())
}

fn update(tracker: &mut UsageTracker, id: &str, counts: &Value) {
    let text = counts.to_string();
    tracker.update(id, Some("m"), &serde_json::from_str(&text).unwrap());
}

fn ended(tracker: &mut UsageTracker, id: &str, counts: &Value) {
    let text = counts.to_string();
    tracker.ended(id, Some("m"), &serde_json::from_str(&text).unwrap());
}

fn tokens(counts: Counts) -> Tokens {
    let [input, cache_read, cache_write, output] = counts;
    Tokens {
        input,
        cache_read,
        cache_write,
        output,
        reasoning: None,
    }
}

fn usage(model: &str, counts: Counts) -> Usage {
    Usage::for_turn(Some(model.into()), tokens(counts))
}

#[test]
fn the_counters_of_the_turn_come_first() {
    let mut tracker = UsageTracker::new(false);
    update(&mut tracker, "1", &counted([1, 1, 1, 1]));
    let line = json!({
        "model_usage_since_last_result": {"m": per_model([2, 3, 5, 7], 0.5)},
        "modelUsage": {"m": per_model([20, 30, 50, 70], 5.0)},
        "usage": counted([9, 9, 9, 9]),
        "total_cost_usd": 5.0,
    });
    assert_eq!(
        result(&mut tracker, &line),
        [usage("m", [2, 3, 5, 7]).reported(0.5)]
    );
    assert_eq!(
        tracker.unfinished(),
        [],
        "the messages of the turn are settled"
    );
}

#[test]
fn session_counters_become_those_of_the_turn() {
    let mut tracker = UsageTracker::new(false);
    let line = |m: Value, other: Value| json!({"modelUsage": {"m": m, "other": other}});
    let unused = || per_model([0; 4], 0.0);
    let first = line(per_model([2, 3, 5, 7], 0.5), unused());
    assert_eq!(
        result(&mut tracker, &first),
        [usage("m", [2, 3, 5, 7]).reported(0.5)]
    );
    let second = line(per_model([2, 3, 5, 7], 0.5), per_model([1, 1, 1, 1], 0.25));
    assert_eq!(
        result(&mut tracker, &second),
        [usage("other", [1, 1, 1, 1]).reported(0.25)]
    );
    let third = line(
        per_model([12, 13, 15, 17], 2.0),
        per_model([1, 1, 1, 1], 0.25),
    );
    assert_eq!(
        result(&mut tracker, &third),
        [usage("m", [10; 4]).reported(1.5)]
    );
    let reset = line(per_model([0, 0, 0, 18], 0.0), unused());
    assert_eq!(
        result(&mut tracker, &reset),
        [usage("m", [0, 0, 0, 1]).reported(0.0)]
    );
}

#[test]
fn a_resumed_session_does_not_pay_for_an_earlier_process() {
    let mut tracker = UsageTracker::new(true);
    tracker.set_model(Some("m"));
    let line = |cost: f64, counts: Counts| {
        json!({"modelUsage": {"m": per_model(counts, cost)}, "usage": counted([1, 2, 3, 4]),
            "total_cost_usd": cost})
    };
    let first = result(&mut tracker, &line(5.0, [100; 4]));
    assert_eq!(
        first,
        [usage("m", [1, 2, 3, 4])],
        "the counters of the main loop, without a cost"
    );
    let second = result(&mut tracker, &line(5.5, [101, 102, 103, 104]));
    assert_eq!(second, [usage("m", [1, 2, 3, 4]).reported(0.5)]);
}

#[test]
fn the_main_loop_counts_if_there_are_no_counters_per_model() {
    let mut tracker = UsageTracker::new(false);
    tracker.set_model(Some("m"));
    let line = |cost: f64| json!({"usage": counted([2, 3, 5, 7]), "total_cost_usd": cost});
    assert_eq!(
        result(&mut tracker, &line(0.5)),
        [usage("m", [2, 3, 5, 7]).reported(0.5)]
    );
    assert_eq!(
        result(&mut tracker, &line(0.75)),
        [usage("m", [2, 3, 5, 7]).reported(0.25)]
    );
    let without_cost = json!({"usage": counted([2, 3, 5, 7])});
    assert_eq!(
        result(&mut tracker, &without_cost),
        [usage("m", [2, 3, 5, 7])]
    );
    assert_eq!(
        result(&mut tracker, &line(1.0)),
        [usage("m", [2, 3, 5, 7]).reported(0.25)],
        "the last known cost counts"
    );
    let reasoned = json!({"usage": {"output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 4}}});
    assert_eq!(result(&mut tracker, &reasoned)[0].reasoning, Some(4));
}

#[test]
fn messages_count_if_the_result_has_no_numbers() {
    let mut tracker = UsageTracker::new(false);
    ended(&mut tracker, "1", &counted([2, 3, 5, 7]));
    ended(&mut tracker, "2", &counted([1, 1, 1, 1]));
    let line = json!({"usage": counted([0; 4]), "modelUsage": {"m": per_model([0; 4], 0.0)}});
    let found = result(&mut tracker, &line);
    assert_eq!(found, [usage("m", [3, 4, 6, 8])]);
    assert_eq!(found[0].cost_source, CostSource::Unknown);
    assert_eq!(result(&mut tracker, &line), [], "only once");
}

#[test]
fn the_end_of_a_message_repeats_only_its_output() {
    let mut tracker = UsageTracker::new(false);
    update(&mut tracker, "1", &counted([2, 3, 5, 1]));
    let thinking = json!({"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 4}});
    update(&mut tracker, "1", &thinking);
    ended(&mut tracker, "1", &json!({}));
    let expected = Usage {
        reasoning: Some(4),
        ..usage("m", [2, 3, 5, 7])
    };
    assert_eq!(tracker.unfinished(), [expected]);
}

#[test]
fn the_output_of_a_turn_cut_short_is_unknown() {
    let mut tracker = UsageTracker::new(false);
    ended(&mut tracker, "1", &counted([2, 3, 5, 7]));
    update(&mut tracker, "2", &counted([1, 1, 1, 1]));
    let expected = Usage {
        output: None,
        ..usage("m", [3, 4, 6, 8])
    };
    assert_eq!(tracker.unfinished(), [expected]);
    assert_eq!(tracker.unfinished(), [], "taken");
    update(&mut tracker, "3", &counted([0; 4]));
    assert_eq!(tracker.unfinished(), [], "nothing was used");
}

#[test]
fn live_usage_is_the_sum_of_the_messages_of_a_model() {
    let mut tracker = UsageTracker::new(false);
    update(&mut tracker, "1", &counted([2, 3, 5, 7]));
    update(&mut tracker, "2", &counted([1, 1, 1, 1]));
    let live = |model: Option<&str>| {
        let mut out = Outbox::default();
        tracker.emit_live(model, &mut out);
        format!("{out:?}")
    };
    let mut expected = Outbox::default();
    expected.event(usage("m", [3, 4, 6, 8]));
    assert_eq!(live(Some("m")), format!("{expected:?}"));
    assert_eq!(live(Some("other")), format!("{:?}", Outbox::default()));
}
