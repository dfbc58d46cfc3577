//! Tests of lenient reading: every type against every kind of JSON value.

use proptest::prelude::*;

use super::*;

/// One value of each kind, and one that no type expects.
const VALUES: [&str; 8] = [
    "null",
    "\"t\"",
    "7",
    "-1.5",
    "true",
    "[\"t\", {\"a\": 1}]",
    "{\"a\": 1, \"b\": \"t\"}",
    "[]",
];

mod fields {
    crate::lenient::wire! {
        /// An object with one field.
        #[derive(PartialEq)]
        struct Inner { a, }
    }
}
use fields::Inner;

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> T {
    serde_json::from_str(text).unwrap()
}

/// Checks which values a type accepts. All others are read as the default.
fn check<'a, T>(accepted: &[(&str, T)])
where
    T: Deserialize<'a> + Default + fmt::Debug + PartialEq,
{
    for value in VALUES {
        let expected = accepted.iter().find(|(text, _)| *text == value);
        let read: T = read(value);
        match expected {
            Some((_, expected)) => assert_eq!(&read, expected, "{value}"),
            None => assert_eq!(read, T::default(), "{value}"),
        }
    }
}

fn inner() -> Inner<'static> {
    Inner {
        a: Scalar::Count(1),
    }
}

#[test]
fn a_value_of_another_kind_is_absent() {
    check(&[
        ("\"t\"", Scalar::Text("t".into())),
        ("7", Scalar::Count(7)),
        ("-1.5", Scalar::Amount(-1.5)),
        ("true", Scalar::Flag(true)),
    ]);
    check(&[
        ("\"t\"", Node::Text("t".into())),
        (VALUES[6], Node::Map(inner())),
    ]);
    check(&[(VALUES[6], Object(inner()))]);
    check(&[(VALUES[5], Objects(vec![inner()]))]);
    check(&[(
        VALUES[5],
        List(vec![Scalar::Text("t".into()), Scalar::None]),
    )]);
    check(&[
        ("\"t\"", Content::Text("t".into())),
        (
            VALUES[5],
            Content::Blocks(vec![Node::Text("t".into()), Node::Map(inner())]),
        ),
        ("[]", Content::Blocks(vec![])),
    ]);
    let rows = vec![
        ("a".into(), Scalar::Count(1)),
        ("b".into(), Scalar::Text("t".into())),
    ];
    check(&[(VALUES[6], Table(Some(rows)))]);
}

#[test]
fn a_scalar_answers_only_for_its_kind() {
    for (json, text, count, amount) in [
        ("\"t\"", Some("t"), None, None),
        ("7", None, Some(7), Some(7.0)),
        ("-7", None, None, Some(-7.0)),
        ("0.5", None, None, Some(0.5)),
        ("true", None, None, None),
        ("null", None, None, None),
    ] {
        let scalar: Scalar<'_> = read(json);
        assert_eq!(
            (scalar.text(), scalar.count(), scalar.amount()),
            (text, count, amount),
            "{json}"
        );
        assert_eq!(scalar.owned(), text.map(str::to_owned), "{json}");
        assert_eq!(scalar.or_empty(), text.unwrap_or_default(), "{json}");
        assert_eq!(
            (scalar.is_true(), scalar.is_false()),
            (json == "true", false),
            "{json}"
        );
    }
    assert!(read::<Scalar<'_>>("false").is_false() && !read::<Scalar<'_>>("false").is_true());
    assert_eq!(
        read::<Scalar<'_>>("\"a\\nb\"").text(),
        Some("a\nb"),
        "an escaped string"
    );
}

#[test]
fn a_node_is_an_object_or_a_string() {
    let node: Node<'_, Inner<'_>> = read(VALUES[6]);
    assert_eq!((node.map(), node.text()), (Some(&inner()), None));
    let node: Node<'_, Inner<'_>> = read("\"t\"");
    assert_eq!((node.map(), node.text()), (None, Some("t")));
}

// A rule that looks only at the first or the last of two equal keys could be evaded.
#[test]
fn a_table_finds_repeated_keys() {
    let table: Table<'_, Scalar<'_>> = read(r#"{"path": "a", "n": 1, "path": "b", "file": "c"}"#);
    assert_eq!(table.all(&["path"]), ["a", "b"]);
    assert_eq!(table.all(&["file", "path"]), ["a", "b", "c"]);
    assert_eq!(
        table.all(&["n", "other"]),
        [""; 0],
        "not a string, or absent"
    );
    assert!(table.has("n") && table.has("path") && !table.has("other"));
    assert!(!Table::default().has("n"));
}

#[test]
fn an_unreadable_raw_value_is_the_default() {
    let raw: &RawValue = read("7");
    assert_eq!(parse::<u64>(Some(raw)), 7);
    assert_eq!(parse::<String>(Some(raw)), "");
    assert_eq!(parse::<u64>(None), 0);
}

proptest! {
    // One field of a wrong type must not cost the others.
    #[test]
    fn no_field_spoils_its_neighbours(value in proptest::sample::select(VALUES.to_vec())) {
        let text = format!(r#"{{"b": {value}, "a": 1}}"#);
        prop_assert_eq!(read::<Object<Inner<'_>>>(&text), Object(inner()));
        let list = format!(r#"[{value}, {{"a": 1}}]"#);
        prop_assert!(read::<Objects<Inner<'_>>>(&list).contains(&inner()));
    }
}
