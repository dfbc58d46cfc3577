//! Variables in files: `${NAME}`, defaults and the allow-list of the environment.

use ostler_eval::load::{Variables, load, parse_variables};

use crate::load::{files, options};

fn variables() -> Variables {
    Variables {
        given: parse_variables("# a file\nNAME = demo\nQUOTED=\"a b\"\n").unwrap(),
        environment: [("HOME_X".to_owned(), "home".to_owned())].into(),
        allowed: ["HOME_X".to_owned(), "UNSET".to_owned()].into(),
    }
}

fn prompt(text: &str) -> Result<String, String> {
    let dir = files(&[(
        "c.yaml",
        &format!("prompt: '{text}'\nevaluators: [git-diff]\n"),
    )]);
    let variables = variables();
    let loaded = load(&[dir.path().join("c.yaml")], &options(&variables));
    match loaded {
        Ok(mut suite) => Ok(suite.cases.remove(0).prompt),
        Err(problems) => Err(problems.0[0].message.clone()),
    }
}

#[test]
fn values_are_replaced() {
    for (text, expected) in [
        ("a ${NAME} b", "a demo b"),
        ("${QUOTED}${HOME_X}", "a bhome"),
        ("${OTHER:-x y}", "x y"),
        ("${NAME:-x}", "demo"),
        ("$${NAME} $NAME $", "${NAME} $NAME $"),
    ] {
        assert_eq!(prompt(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn the_environment_is_only_read_by_allowed_names() {
    let error = prompt("${PATH}").unwrap_err();
    assert!(error.contains("--allow-env PATH"), "{error}");
    let error = prompt("${UNSET}").unwrap_err();
    assert!(error.contains("is allowed, but not set"), "{error}");
    assert!(prompt("${a b}").unwrap_err().contains("is not a variable"));
    assert!(prompt("${NAME").unwrap_err().contains("without `}`"));
}

#[test]
fn runtime_variables_belong_to_commands() {
    assert!(prompt("${WORKSPACE_DIR}").is_err());
}

#[test]
fn a_file_of_variables_has_names() {
    assert!(
        parse_variables("x\n")
            .unwrap_err()
            .to_string()
            .contains("line 1")
    );
    assert!(
        parse_variables("\n1x=2\n")
            .unwrap_err()
            .to_string()
            .contains("line 2")
    );
}
