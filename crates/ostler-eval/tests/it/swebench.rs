//! SWE-bench rows and predictions.

use std::path::Path;

use ostler_eval::case::Source;
use ostler_eval::load::swebench::{Prediction, parse_rows, write_predictions};

const ROW: &str = r#"{"instance_id":"org__proj-12","repo":"org/proj","base_commit":"0123456789abcdef","problem_statement":"It fails.","patch":"gold","test_patch":"t","FAIL_TO_PASS":"[\"a\"]","version":"1.2"}"#;

#[test]
fn a_row_becomes_a_case() {
    let cases = parse_rows(&format!("{ROW}\n\n"), Path::new("rows.jsonl")).unwrap();
    assert_eq!(cases[0].name, "org__proj-12");
    assert_eq!(cases[0].prompt, "It fails.");
    let Source::Repository { url, commit, .. } = &cases[0].source else {
        panic!("{:?}", cases[0].source);
    };
    assert_eq!(url, "https://github.com/org/proj.git");
    assert_eq!(commit.as_deref(), Some("0123456789abcdef"));
    // Neither the gold patch nor its tests reach the prompt.
    assert!(!format!("{:?}", cases[0]).contains("gold"));
}

#[test]
fn a_row_with_a_fault_names_line_and_key() {
    let bad = ROW.replace("org/proj\"", "org/../x\"");
    let problems = parse_rows(&format!("{ROW}\n{bad}\nnot json\n"), Path::new("r.jsonl"));
    let problems = problems.unwrap_err().0;
    let places: Vec<(usize, &str)> = problems
        .iter()
        .map(|it| (it.at.unwrap().line, it.key.as_str()))
        .collect();
    assert_eq!(places, [(2, "repo"), (3, "")]);
}

#[test]
fn predictions_have_the_fields_of_the_harness() {
    let text = write_predictions(&[Prediction {
        instance_id: "org__proj-12".into(),
        model_name_or_path: "alpha/m".into(),
        model_patch: "diff\n".into(),
    }]);
    let expected = "{\"instance_id\":\"org__proj-12\",\"model_name_or_path\":\"alpha/m\",\
                    \"model_patch\":\"diff\\n\"}\n";
    assert_eq!(text, expected);
}
