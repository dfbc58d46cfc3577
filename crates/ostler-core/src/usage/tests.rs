//! Tests of token usage: tables of every counter and cost source, and laws of sums.

use proptest::prelude::*;

use super::*;

/// Five different counters, so that none can stand in for another.
const PRIMES: Tokens = Tokens {
    input: 2,
    cache_read: 3,
    cache_write: 5,
    output: 7,
    reasoning: Some(11),
};

const LARGEST: Tokens = Tokens {
    input: u64::MAX,
    cache_read: u64::MAX,
    cache_write: u64::MAX,
    output: u64::MAX,
    reasoning: Some(u64::MAX),
};

fn counters(usage: &Usage) -> [Option<u64>; 5] {
    let Usage {
        input,
        cache_read,
        cache_write,
        output,
        reasoning,
        ..
    } = usage;
    [*input, *cache_read, *cache_write, *output, *reasoning]
}

fn tokens(input: u64, output: u64) -> Tokens {
    Tokens {
        input,
        output,
        ..Tokens::default()
    }
}

// P21
#[test]
fn a_repeated_message_counts_once_with_its_last_values() {
    let mut m = Messages::default();
    for output in [1, 1, 25, 1] {
        m.note("msg_1", tokens(100, output));
    }
    m.note("msg_2", tokens(100, 25));
    assert_eq!(m.total(), tokens(200, 50));
}

#[test]
fn an_unknown_part_makes_the_cost_a_lower_bound() {
    let mut unknown = Usage::for_turn(None, tokens(1, 2));
    unknown.add(&Usage::for_turn(None, tokens(1, 2)));
    assert_eq!(
        (unknown.cost_usd, unknown.cost_source),
        (None, CostSource::Unknown)
    );
    let mut sum = Usage::unknown(Scope::Session);
    sum.add(&Usage::for_turn(Some("m".into()), tokens(1, 2)).reported(0.5));
    assert_eq!(
        (sum.cost_usd, sum.cost_source),
        (Some(0.5), CostSource::Reported)
    );
    sum.add(&Usage::for_turn(Some("m".into()), tokens(1, 2)));
    assert_eq!(
        (sum.cost_usd, sum.cost_source),
        (Some(0.5), CostSource::Partial)
    );
    sum.add(&Usage::for_turn(Some("m".into()), tokens(1, 2)).estimated(0.25));
    assert_eq!(
        (sum.cost_usd, sum.cost_source),
        (Some(0.75), CostSource::Partial)
    );
    assert_eq!(
        (sum.input, sum.output, sum.model.as_deref()),
        (Some(3), Some(6), Some("m"))
    );
}

#[test]
fn a_sum_over_several_models_has_no_model() {
    let mut sum = Usage::unknown(Scope::Turn);
    sum.add(&Usage::for_turn(Some("a".into()), tokens(1, 1)));
    sum.add(&Usage::for_turn(Some("b".into()), tokens(1, 1)));
    assert_eq!(sum.model, None);
    assert_eq!(sum.total(), Some(4));
}

#[test]
fn an_unknown_usage_has_no_number_at_all() {
    let unknown = Usage::unknown(Scope::Session);
    assert_eq!(counters(&unknown), [None; 5]);
    assert_eq!(
        (unknown.scope, unknown.model.as_deref()),
        (Scope::Session, None)
    );
    assert_eq!(
        (unknown.cost_usd, unknown.cost_source),
        (None, CostSource::Unknown)
    );
    assert_eq!(unknown.total(), None);
}

#[test]
fn a_turn_has_the_counters_of_its_tokens_and_an_unknown_cost() {
    let turn = Usage::for_turn(Some("m".into()), PRIMES);
    assert_eq!(
        counters(&turn),
        [Some(2), Some(3), Some(5), Some(7), Some(11)]
    );
    assert_eq!(
        (turn.scope, turn.model.as_deref()),
        (Scope::Turn, Some("m"))
    );
    assert_eq!(
        (turn.cost_usd, turn.cost_source),
        (None, CostSource::Unknown)
    );
}

#[test]
fn a_cost_says_where_it_comes_from() {
    let turn = || Usage::for_turn(None, PRIMES);
    for (usage, source) in [
        (turn().reported(0.5), CostSource::Reported),
        (turn().estimated(0.5), CostSource::Estimated),
        (turn().partial(0.5), CostSource::Partial),
    ] {
        assert_eq!((usage.cost_usd, usage.cost_source), (Some(0.5), source));
        assert_eq!(counters(&usage), counters(&turn()), "{source:?}");
    }
}

#[test]
fn a_sum_adds_each_counter_and_takes_known_ones_over_unknown_ones() {
    let mut sum = Usage::for_turn(None, PRIMES);
    sum.add(&Usage::for_turn(
        None,
        Tokens {
            reasoning: None,
            ..PRIMES
        },
    ));
    assert_eq!(
        counters(&sum),
        [Some(4), Some(6), Some(10), Some(14), Some(11)]
    );
    sum.add(&Usage::unknown(Scope::Turn));
    assert_eq!(
        counters(&sum),
        [Some(4), Some(6), Some(10), Some(14), Some(11)]
    );
    sum.add(&Usage::for_turn(None, LARGEST));
    assert_eq!(
        counters(&sum),
        [Some(u64::MAX); 5],
        "a sum does not overflow"
    );
}

#[test]
fn the_cost_of_a_sum_is_as_certain_as_its_least_certain_part() {
    use CostSource::{Estimated, Partial, Reported, Unknown};
    let with = |source| Usage {
        cost_usd: (source != Unknown).then_some(1.0),
        cost_source: source,
        ..Usage::for_turn(None, PRIMES)
    };
    for (first, second, expected) in [
        (Reported, Reported, Reported),
        (Reported, Estimated, Estimated),
        (Estimated, Reported, Estimated),
        (Estimated, Estimated, Estimated),
        (Reported, Unknown, Partial),
        (Unknown, Reported, Partial),
        (Estimated, Unknown, Partial),
        (Unknown, Estimated, Partial),
        (Partial, Reported, Partial),
        (Estimated, Partial, Partial),
        (Partial, Unknown, Partial),
        (Partial, Partial, Partial),
        (Unknown, Unknown, Unknown),
    ] {
        let mut sum = with(first);
        sum.add(&with(second));
        let known = [first, second]
            .into_iter()
            .filter(|source| *source != Unknown);
        let cost = known.map(|_| 1.0).reduce(|a: f64, b| a + b);
        assert_eq!(
            (sum.cost_usd, sum.cost_source),
            (cost, expected),
            "{first:?} + {second:?}"
        );
    }
}

#[test]
fn the_first_part_of_a_sum_decides_its_model_and_source() {
    let part = Usage::for_turn(Some("m".into()), PRIMES).estimated(0.5);
    let mut sum = Usage::unknown(Scope::Session);
    sum.add(&part);
    assert_eq!(
        sum,
        Usage {
            scope: Scope::Session,
            ..part.clone()
        }
    );
    sum.add(&part);
    assert_eq!(sum.model.as_deref(), Some("m"), "the same model again");
    sum.add(&Usage::for_turn(None, PRIMES));
    assert_eq!(sum.model, None, "a part without a model");
}

#[test]
fn the_total_counts_reasoning_once() {
    assert_eq!(Usage::for_turn(None, PRIMES).total(), Some(2 + 3 + 5 + 7));
    assert_eq!(Usage::for_turn(None, LARGEST).total(), Some(u64::MAX));
    let only_output = Usage {
        output: Some(7),
        ..Usage::unknown(Scope::Turn)
    };
    assert_eq!(only_output.total(), Some(7));
}

#[test]
fn counters_are_zero_only_if_all_are() {
    assert!(Tokens::default().is_zero());
    let zero = Tokens::default();
    for one in [
        Tokens { input: 1, ..zero },
        Tokens {
            cache_read: 1,
            ..zero
        },
        Tokens {
            cache_write: 1,
            ..zero
        },
        Tokens { output: 1, ..zero },
    ] {
        assert!(!one.is_zero(), "{one:?}");
    }
}

#[test]
fn a_difference_never_underflows_and_keeps_unknown_reasoning_unknown() {
    assert_eq!(PRIMES.since(&Tokens::default()), PRIMES);
    let unknown = Tokens {
        reasoning: None,
        ..PRIMES
    };
    assert_eq!(unknown.since(&PRIMES), Tokens::default());
    let nothing = Tokens {
        reasoning: Some(0),
        ..Tokens::default()
    };
    assert_eq!(PRIMES.since(&LARGEST), nothing, "a counter that was reset");
}

#[test]
fn reasoning_known_on_one_side_is_taken_over() {
    let unknown = Tokens {
        reasoning: None,
        ..PRIMES
    };
    for (a, b, reasoning) in [
        (PRIMES, PRIMES, Some(22)),
        (PRIMES, unknown, Some(11)),
        (unknown, PRIMES, Some(11)),
        (unknown, unknown, None),
    ] {
        let expected = Tokens {
            input: 4,
            cache_read: 6,
            cache_write: 10,
            output: 14,
            reasoning,
        };
        assert_eq!(a.plus(&b), expected);
    }
    assert_eq!(LARGEST.plus(&PRIMES), LARGEST);
}

#[test]
fn a_repeated_message_has_its_last_input_and_its_largest_output() {
    let mut messages = Messages::default();
    messages.note("a", PRIMES);
    messages.note(
        "a",
        Tokens {
            input: 1,
            cache_read: 0,
            output: 6,
            ..PRIMES
        },
    );
    let expected = Tokens {
        input: 1,
        cache_read: 0,
        ..PRIMES
    };
    assert_eq!(messages.total(), expected);
    messages.clear();
    assert_eq!(messages.total(), Tokens::default());
}

fn any_tokens() -> impl Strategy<Value = Tokens> {
    let count = || 0u64..1 << 40;
    let counts = (
        count(),
        count(),
        count(),
        count(),
        proptest::option::of(count()),
    );
    counts.prop_map(
        |(input, cache_read, cache_write, output, reasoning)| Tokens {
            input,
            cache_read,
            cache_write,
            output,
            reasoning,
        },
    )
}

proptest! {
    #[test]
    fn cumulative_counters_differ_by_what_was_added(first in any_tokens(), added in any_tokens()) {
        let second = first.plus(&added);
        let difference = second.since(&first);
        let reasoning = second.reasoning.map(|_| added.reasoning.unwrap_or(0));
        prop_assert_eq!(difference, Tokens { reasoning, ..added });
    }

    #[test]
    fn the_order_of_parts_makes_no_difference(
        parts in proptest::collection::vec(any_tokens(), 0..6),
    ) {
        let sum = |parts: &mut dyn Iterator<Item = &Tokens>| {
            let mut sum = Usage::unknown(Scope::Turn);
            parts.for_each(|part| sum.add(&Usage::for_turn(None, *part)));
            sum
        };
        let forwards = sum(&mut parts.iter());
        prop_assert_eq!(&forwards, &sum(&mut parts.iter().rev()));
        let added = parts.iter().fold(Tokens::default(), |sum, part| sum.plus(part));
        let whole = Usage::for_turn(None, added);
        prop_assert_eq!(forwards.total().unwrap_or(0), whole.total().unwrap());
    }
}
