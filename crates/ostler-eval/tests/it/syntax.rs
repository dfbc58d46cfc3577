//! The three formats, and input that tries to exhaust the machine.

use ostler_eval::load::parse::{Format, parse};
use proptest::prelude::*;
use serde_json::json;

fn yaml(text: &str) -> serde_json::Value {
    parse(text, Format::Yaml).unwrap().to_json()
}

#[test]
fn plain_scalars_follow_yaml_1_2() {
    let text = "a: yes\nb: true\nc: 010\nd: 0x1F\ne: 1.5e3\nf: ~\ng: '1'\nh: -7\ni: 1.2.3\n\
                j: on\nk: 12:30\nl: .5\nm: !!str 5\nn: .inf\n";
    assert_eq!(
        yaml(text),
        json!({"a": "yes", "b": true, "c": 10, "d": 31, "e": 1500.0, "f": null, "g": "1", "h": -7,
               "i": "1.2.3", "j": "on", "k": "12:30", "l": 0.5, "m": "5", "n": ".inf"})
    );
}

#[test]
fn anchors_are_copied() {
    let text = "base: &b [1, 2]\none: *b\n";
    assert_eq!(yaml(text), json!({"base": [1, 2], "one": [1, 2]}));
}

#[test]
fn a_key_occurs_once() {
    let error = parse("a: 1\nb: 2\na: 3\n", Format::Yaml).unwrap_err();
    assert_eq!((error.at.line, error.at.column), (3, 1));
    assert_eq!(error.message, "`a` is already defined in line 1");
    assert!(parse("a = 1\na = 2\n", Format::Toml).is_err());
    let error = parse("{\"a\": 1,\n\"a\": 2}", Format::Json).unwrap_err();
    assert_eq!(error.at.line, 2);
}

#[test]
fn faults_have_places() {
    for (format, text, line) in [
        (Format::Yaml, "a: 1\nb: [1, 2\n", 3),
        (Format::Yaml, "a: 1\n---\nb: 2\n", 2),
        (Format::Toml, "a = 1\nb = \n", 2),
        (Format::Json, "{\"a\": 1,\n \"b\": }", 2),
        (Format::Json, "{\"a\": 1, // comment\n}", 1),
    ] {
        let error = parse(text, format).unwrap_err();
        assert_eq!(error.at.line, line, "{format:?} {text:?}: {error}");
    }
}

#[test]
fn a_file_cannot_exhaust_memory_or_stack() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = level - 1;
        let items = vec![format!("*a{before}"); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    assert!(
        parse(&bomb, Format::Yaml)
            .unwrap_err()
            .message
            .contains("values")
    );
    for format in [Format::Yaml, Format::Json] {
        let deep = "[".repeat(50_000) + &"]".repeat(50_000);
        assert!(parse(&deep, format).is_err());
    }
    let deep = format!("a = {}{}", "[".repeat(50_000), "]".repeat(50_000));
    assert!(parse(&deep, Format::Toml).is_err());
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "\\PC{0,200}", lines in "[a-z:\\-\\[\\]{}&*'\"| \n#>!%@,?]{0,200}") {
        for format in [Format::Yaml, Format::Toml, Format::Json] {
            let _ = parse(&text, format);
            let _ = parse(&lines, format);
        }
    }

    #[test]
    fn json_reads_as_itself(keys in proptest::collection::btree_map("[a-z]{1,8}", any::<i64>(), 0..8)) {
        let value = json!(keys);
        let node = parse(&value.to_string(), Format::Json).unwrap();
        prop_assert_eq!(&node.to_json(), &value);
        let node = parse(&serde_json::to_string_pretty(&value).unwrap(), Format::Yaml).unwrap();
        prop_assert_eq!(&node.to_json(), &value);
    }
}
