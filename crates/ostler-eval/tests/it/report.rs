//! Reports: the contract as JSON, and hostile texts in every format.

use std::collections::BTreeMap;

use ostler_eval::report::{
    CompareError, IdentityField, RunReport, SafeHtml, TrialDetail, compare_runs, html, human,
    human_comparison, json, junit, markdown, markdown_comparison, result_line,
};
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::results::run;

fn demo() -> RunReport {
    run(&[
        ("fix-the-parser", "alpha/m1", "ppp"),
        ("fix-the-parser", "alpha/m2+careful", "pfp"),
        ("add-a-flag", "alpha/m1", "pfi"),
        ("add-a-flag", "alpha/m2+careful", "fft"),
        ("rename/everything", "alpha/m1", "pe."),
        ("rename/everything", "alpha/m2+careful", "ppp"),
    ])
}

const HOSTILE: &str = "<script>alert(1)</script>\u{1b}[31m|`x`\"'&\u{202e}![i](http://x)\n# h";

fn hostile() -> RunReport {
    let mut report = run(&[(HOSTILE, HOSTILE, "pf")]);
    report.suite = HOSTILE.to_owned();
    report.run = HOSTILE.to_owned();
    for trial in &mut report.trials {
        trial.message = Some(HOSTILE.to_owned());
        trial.identity.commit = HOSTILE.to_owned();
        for evaluation in &mut trial.evaluations {
            evaluation.name = HOSTILE.to_owned();
            evaluation.reason = Some(HOSTILE.to_owned());
            evaluation.metrics = BTreeMap::from([(HOSTILE.to_owned(), json!(HOSTILE))]);
        }
    }
    report
}

fn detail() -> TrialDetail {
    TrialDetail {
        diff: Some(format!(
            "diff --git a/x b/x\n@@ -1 +1 @@\n-old\n+{HOSTILE}\n"
        )),
        conversation: Some(SafeHtml::from_text(HOSTILE)),
        logs: vec![(HOSTILE.to_owned(), HOSTILE.to_owned())],
    }
}

// The contract of `ostler eval run --json`: these fields, with these types.
#[test]
fn json_has_the_fields_of_the_contract() {
    let value = json(&demo());
    assert_eq!(
        (&value["run"], &value["suite"]),
        (&json!("r1"), &json!("demo"))
    );
    let agent = &value["agents"][0];
    assert_eq!(
        (&agent["agent"], &agent["model"]),
        (&json!("alpha"), &json!("m1"))
    );
    for (key, expected) in [
        ("scored", 7),
        ("passed", 5),
        ("infrastructure", 1),
        ("timeouts", 0),
        ("cancelled", 0),
    ] {
        assert_eq!(agent[key], expected, "{key}");
    }
    assert_eq!(value["agents"][1]["timeouts"], 1);
    let rate = &agent["pass_at_1"];
    assert!((rate["value"].as_f64().unwrap() - 5.0 / 7.0).abs() < 1e-12);
    assert!(rate["low"].as_f64().unwrap() < rate["high"].as_f64().unwrap());
    assert!(agent["pass_hat_k"].is_number());
    assert!((agent["cost_usd"].as_f64().unwrap() - 0.16).abs() < 1e-12);
    assert_eq!(agent["tokens"]["input"], 8000);
    assert_eq!(agent["tokens"]["reasoning"], json!(null));
    assert_eq!(value["trials"].as_array().unwrap().len(), 17);
    let trial = &value["trials"][1];
    assert_eq!(
        (&trial["case"], &trial["repetition"]),
        (&json!("fix-the-parser"), &json!(2))
    );
    assert_eq!(
        (&trial["agent"], &trial["verdict"]),
        (&json!("alpha"), &json!("passed"))
    );
    assert_eq!(
        (&trial["cause"], &trial["attempts"]),
        (&json!("completed"), &json!(1))
    );
    assert_eq!(trial["diff_files"], 1);
    assert_eq!(trial["artifacts"], ".ostler/eval/r1/fix-the-parser");
    assert_eq!(trial["usage"]["output"], 50);
    let evaluator = &trial["evaluators"][0];
    assert_eq!(
        (&evaluator["name"], &evaluator["verdict"]),
        (&json!("command:tests"), &json!("passed"))
    );
    assert_eq!(evaluator["metrics"]["tests"], 5);
    let verdicts: Vec<&str> = value["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["verdict"].as_str().unwrap())
        .collect();
    assert!(
        verdicts
            .iter()
            .all(|it| ["passed", "failed", "errored", "skipped"].contains(it))
    );
}

#[test]
fn the_terminal_report_is_a_table() {
    insta::assert_snapshot!(human(&demo(), 120));
}

#[test]
fn the_terminal_report_fits_its_width() {
    for report in [demo(), hostile()] {
        for width in [40, 60, 80, 100, 200] {
            let text = human(&report, width);
            for line in text.lines().skip(2) {
                assert!(line.width() <= width, "{width}: {line}");
            }
            assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
        }
    }
}

#[test]
fn markdown_is_a_table() {
    insta::assert_snapshot!(markdown(&demo()));
}

#[test]
fn markdown_escapes_hostile_texts() {
    let text = markdown(&hostile());
    assert!(
        !text.contains("<script") && !text.contains("](http://"),
        "{text}"
    );
    assert!(!text.contains("\n# h"));
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
    let bars = |row: &str| row.replace("\\|", "").matches('|').count();
    assert_eq!(bars(rows[1]), 11, "{}", rows[1]);
}

#[test]
fn junit_counts_what_ci_shows() {
    let text = junit(&demo()).unwrap();
    assert!(
        text.contains("<testsuite name=\"alpha/m1\" tests=\"9\" "),
        "{text}"
    );
    for part in [
        "skipped=\"1\" errors=\"2\" failures=\"1\"",
        "name=\"fix-the-parser #1\" classname=\"alpha/m1\"",
        "type=\"infrastructure\"",
        "type=\"limit reached\"",
        "the trial has no result",
        "2 of 5 tests failed",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = junit(&hostile()).unwrap();
    assert!(!text.contains("<script"));
}

#[test]
fn html_is_one_file_without_script() {
    let page = html(&demo(), &|_| detail());
    for part in [
        "Content-Security-Policy",
        "default-src 'none'",
        "id=\"trial-0\"",
        "href=\"#trial-0\"",
        "Score against cost",
        "✓ 3/3",
        "color-scheme: light dark",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for part in [
        "<script", "<link", "<img", "src=", "url(", "http://", "https://", "@import",
    ] {
        let own = page.replace("http://x", "");
        assert!(!own.contains(part), "{part}");
    }
}

#[test]
fn html_escapes_hostile_texts() {
    let page = html(&hostile(), &|_| detail());
    assert!(!page.contains("<script") && !page.contains('\u{1b}') && !page.contains('\u{202e}'));
    // No text ends an attribute.
    assert!(!page.contains("\"'&\u{202e}") && !page.contains("`\"'"));
    let opened = page.matches("<details").count();
    assert_eq!(opened, page.matches("</details>").count());
    assert_eq!(page.matches("<td").count(), page.matches("</td>").count());
}

#[test]
fn without_a_result_there_is_still_a_report() {
    let report = run(&[("a", "x", "..")]);
    assert!(human(&report, 80).contains("incomplete: 2 of 2"));
    assert!(html(&report, &|_| TrialDetail::default()).contains("incomplete"));
    assert_eq!(json(&report)["agents"][0]["pass_at_1"], json!(null));
    assert!(markdown(&report).contains("incomplete"));
    assert!(junit(&report).unwrap().contains("no result"));
}

#[test]
fn compare_refuses_different_identities() {
    let before = run(&[("a", "x", "pp"), ("b", "x", "pf")]);
    let mut after = run(&[("a", "x", "pf"), ("b", "x", "pp")]);
    for trial in &mut after.trials {
        trial.identity.agent_version = Some("2.0".to_owned());
        trial.identity.prompt_hash = "other".to_owned();
    }
    let error = compare_runs(&before, &after, &[], &[]).unwrap_err();
    let CompareError::Mismatch(found) = &error else {
        panic!("{error}");
    };
    let fields: Vec<IdentityField> = found.iter().map(|it| it.field).collect();
    assert_eq!(
        fields,
        [IdentityField::AgentVersion, IdentityField::PromptHash]
    );
    let said = error.to_string();
    assert!(
        said.contains("agent_version in 2 tasks") && said.contains("1.2.3 → 2.0"),
        "{said}"
    );
    assert!(
        said.contains("--allow-difference agent_version,prompt_hash"),
        "{said}"
    );
    let one = [IdentityField::AgentVersion];
    assert!(compare_runs(&before, &after, &[], &one).is_err());
    let both = [IdentityField::AgentVersion, IdentityField::PromptHash];
    let compared = compare_runs(&before, &after, &[], &both).unwrap();
    assert_eq!(compared.contenders[0].1.gained[0].case, "b");
    assert_eq!(compared.mismatches.len(), 2);
    let text = human_comparison(&compared, 100);
    assert!(
        text.contains("x gained: b") && text.contains("differs: agent_version"),
        "{text}"
    );
    assert!(markdown_comparison(&compared).contains("| x | 75 % | 75 % | +0.0pp |"));
}

// A trial that was never set up has no commit; it is not scored, and hides no comparison.
#[test]
fn trials_that_are_not_scored_have_no_identity_to_compare() {
    let before = run(&[("a", "x", "pp")]);
    let mut after = run(&[("a", "x", "pi")]);
    let broken = &mut after.trials[1].identity;
    (broken.commit, broken.agent_version) = (String::new(), None);
    let compared = compare_runs(&before, &after, &[], &[]).unwrap();
    assert_eq!(compared.mismatches, []);
    let baseline = compare_runs(&after, &before, &[], &[]).unwrap();
    assert_eq!(baseline.mismatches, []);
}

// With an agent's default model, only what the agent reports tells that the model is another one.
#[test]
fn another_reported_model_is_another_identity() {
    let before = run(&[("a", "x", "pp")]);
    let mut after = run(&[("a", "x", "pp")]);
    after.trials[0].identity.reported_model = None;
    assert!(
        compare_runs(&before, &after, &[], &[]).is_ok(),
        "unknown is not different"
    );
    after.trials[1].identity.reported_model = Some("m1-2027".to_owned());
    let error = compare_runs(&before, &after, &[], &[]).unwrap_err();
    assert!(
        error.to_string().contains("reported_model in 1 task"),
        "{error}"
    );
    let allowed = [IdentityField::ReportedModel];
    assert!(compare_runs(&before, &after, &[], &allowed).is_ok());
}

// An agent that was upgraded before the run was resumed is named in every report.
#[test]
fn mixed_identities_are_reported() {
    let mut report = run(&[("a", "x", "pp"), ("b", "x", "ii"), ("a", "y", "pp")]);
    assert_eq!(report.mixed_identities(), []);
    report.trials[2].identity.agent_version = Some("9".to_owned());
    assert_eq!(report.mixed_identities(), [], "it is not scored");
    report.trials[1].identity.agent_version = Some("2.0".to_owned());
    let said = "x: its trials ran with more than one agent_version, such as a with 1.2.3 and 2.0";
    assert!(
        human(&report, 120).contains(said),
        "{}",
        human(&report, 120)
    );
    let plain = markdown(&report).replace('\\', "");
    assert!(plain.contains(said), "{plain}");
    assert!(html(&report, &|_| TrialDetail::default()).contains(said));
    let mixed = &json(&report)["mixed_identities"][0];
    assert_eq!(
        (&mixed["contender"], &mixed["field"]),
        (&json!("x"), &json!("agent_version"))
    );
}

#[test]
fn contenders_of_one_run_can_be_paired() {
    let report = run(&[
        ("a", "x", "p"),
        ("b", "x", "f"),
        ("a", "y", "p"),
        ("b", "y", "p"),
    ]);
    let pair = [("x".to_owned(), "y".to_owned())];
    let compared = compare_runs(&report, &report, &pair, &[]).unwrap();
    assert_eq!(compared.contenders[0].0, "x → y");
    assert_eq!(compared.contenders[0].1.gained.len(), 1);
    let none = run(&[("a", "z", "p")]);
    assert_eq!(
        compare_runs(&report, &none, &[], &[]),
        Err(CompareError::NothingInCommon)
    );
}

#[test]
fn a_result_is_one_line() {
    let trial = &demo().trials[0];
    for full in [true, false] {
        let line = result_line(trial, full);
        assert_eq!(line.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["verdict"], "passed");
        assert_eq!(value.get("evaluations").is_some(), full);
    }
}
