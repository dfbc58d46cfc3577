//! Tests of the usage of a turn: what is known, what is missing, and what that means for the cost.

use ostler_core::usage::Scope;

use super::*;

const TOKENS: Tokens = Tokens {
    input: 2_000_000,
    cache_read: 3_000_000,
    cache_write: 5_000_000,
    output: 7_000_000,
    reasoning: None,
};

fn counted(model: Option<&str>) -> Usage {
    Usage::for_turn(model.map(str::to_owned), TOKENS)
}

fn without_tokens() -> Usage {
    Usage::unknown(Scope::Turn)
}

fn turn(answers: &[Usage], price: Option<Price>) -> TurnUsage {
    let mut turn = TurnUsage::default();
    for answer in answers {
        turn.add(std::slice::from_ref(answer), "default", price);
    }
    turn
}

fn one_dollar() -> Option<Price> {
    Some(Price::parse("1/1/1").unwrap())
}

#[test]
fn answers_are_added_up_per_model() {
    let answers = [
        counted(None),
        counted(Some("other")),
        counted(Some("default")),
    ];
    let usage = turn(&answers, None).usage();
    let models: Vec<_> = usage.iter().map(|usage| usage.model.as_deref()).collect();
    assert_eq!(models, [Some("default"), Some("other")]);
    assert_eq!(
        (usage[0].input, usage[1].input),
        (Some(4_000_000), Some(2_000_000))
    );
}

#[test]
fn the_limits_of_a_turn_count_cached_input_too() {
    let CountedTokens { input, output } = turn(&[counted(None), counted(Some("b"))], None).tokens();
    assert_eq!((input, output), (20_000_000, 14_000_000));
    assert_eq!(input_tokens(&counted(None)), Some(10_000_000));
    assert_eq!(input_tokens(&without_tokens()), None);
}

#[test]
fn a_cost_is_known_only_if_every_answer_has_one() {
    let reported = || counted(None).reported(0.5);
    for (name, turn, cost, source) in [
        (
            "reported",
            turn(&[reported(), reported()], None),
            Some(1.0),
            CostSource::Reported,
        ),
        (
            "estimated",
            turn(&[counted(None)], one_dollar()),
            Some(17.0),
            CostSource::Estimated,
        ),
        (
            "no price",
            turn(&[counted(None)], None),
            None,
            CostSource::Unknown,
        ),
        (
            "one has none",
            turn(&[reported(), counted(None)], None),
            None,
            CostSource::Partial,
        ),
        (
            "a part",
            turn(&[counted(None).partial(0.5)], None),
            None,
            CostSource::Partial,
        ),
    ] {
        assert_eq!(turn.cost(), cost, "{name}");
        assert_eq!(turn.is_priced(), cost.is_some(), "{name}");
        assert_eq!(turn.usage()[0].cost_source, source, "{name}");
        assert!(!turn.is_uncounted(), "{name}");
    }
}

#[test]
fn an_answer_without_any_number_leaves_lower_bounds() {
    let reported = counted(None).reported(0.5);
    let mut empty = turn(std::slice::from_ref(&reported), None);
    empty.add(&[], "default", one_dollar());
    let unknown = turn(&[reported, without_tokens()], one_dollar());
    for turn in [empty, unknown] {
        assert!(turn.is_uncounted() && !turn.is_priced());
        assert_eq!(turn.cost(), None);
        let usage = turn.usage();
        assert_eq!(usage.len(), 1);
        assert_eq!(
            (usage[0].cost_usd, usage[0].cost_source),
            (Some(0.5), CostSource::Partial)
        );
    }
}

#[test]
fn a_cost_without_tokens_is_priced_but_not_counted() {
    let turn = turn(
        &[without_tokens().reported(0.5), counted(None).reported(0.5)],
        None,
    );
    assert_eq!((turn.cost(), turn.is_uncounted()), (Some(1.0), true));
    assert_eq!(turn.usage()[0].cost_source, CostSource::Reported);
}

#[test]
fn usage_that_is_still_to_come_is_missing_until_the_next_answer() {
    let mut turn = turn(&[counted(None).reported(0.5)], None);
    turn.open = true;
    assert!(turn.is_uncounted() && !turn.is_priced());
    assert_eq!(turn.usage()[0].cost_source, CostSource::Partial);
    turn.add(&[], "default", None);
    assert!(turn.open, "an answer without usage closes nothing");
    turn.incomplete = false;
    turn.add(&[counted(None).reported(0.5)], "default", None);
    assert_eq!((turn.cost(), turn.is_uncounted()), (Some(1.0), false));
}

#[test]
fn a_price_applies_only_where_the_cost_is_unknown_and_the_tokens_are_not() {
    for usage in [
        counted(None).reported(0.5),
        counted(None).estimated(0.5),
        counted(None).partial(0.5),
        without_tokens(),
    ] {
        assert_eq!(priced(usage.clone(), one_dollar()), usage);
    }
    let input = Usage {
        input: Some(3_000_000),
        ..without_tokens()
    };
    assert_eq!(
        priced(input.clone(), one_dollar()),
        input.clone().estimated(3.0)
    );
    assert_eq!(priced(input.clone(), None), input);
}

#[test]
fn absurd_counts_do_not_overflow() {
    let most = Tokens {
        input: u64::MAX,
        output: u64::MAX,
        ..Tokens::default()
    };
    let of = |model: &str| Usage::for_turn(Some(model.into()), most);
    let CountedTokens { input, output } = turn(&[of("a"), of("b")], None).tokens();
    assert_eq!((input, output), (u64::MAX, u64::MAX));
}
