//! Rules as a whole: what is loaded, what is said about a call that no rule knows.

use super::*;

fn rule(text: &str) -> CommandRule {
    toml::from_str(text).unwrap()
}

// S2-26: a rule is checked against its own examples, and the error names both.
#[test]
fn examples_are_checked_and_named() {
    let ok = "name = \"cargo\"\nallow = [\"test\"]\nexamples = { allow = [\"cargo test -q\"], deny = [\"cargo run\"] }";
    rule(ok).check().unwrap();
    let wrong =
        rule("name = \"cargo\"\nallow = [\"test\"]\nexamples = { allow = [\"cargo run\"] }").check().unwrap_err();
    assert!(wrong.contains("cargo run") && wrong.contains("denies"), "{wrong}");
    let wrong = rule("name = \"cargo\"\nexamples = { deny = [\"cargo run\"] }").check().unwrap_err();
    assert!(wrong.contains("cargo run") && wrong.contains("allows"), "{wrong}");
    for (text, word) in [
        ("name = \"\"", "no name"),
        ("name = \"a/b\"", "slash"),
        ("name = \"../a\"", "slash"),
        ("name = \"-a\"", "slash"),
        ("name = \"a\"\nblock = [[]]", "no words"),
        ("name = \"a\"\nexamples = { allow = [\"b\"] }", "begin"),
        ("name = \"a\"\nexamples = { allow = [\"a 'b\"] }", "quote"),
    ] {
        let error = rule(text).check().unwrap_err();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn a_rule_of_the_same_name_replaces_the_default() {
    let commands = Commands::new(&[rule("name = \"git\"\nallow = [\"status\"]"), rule("name = \"cargo\"")]).unwrap();
    assert_eq!(commands.names().collect::<Vec<_>>(), ["camp", "cargo", "fest", "git", "just"]);
    assert_eq!(commands.added(), ["git", "cargo"]);
    let place = Place { root: Path::new("/"), path: OsStr::new("/usr/bin:/bin"), is_denied: &|_| false };
    assert_eq!(commands.check("git", &["log".into()], &place).unwrap_err().code, Code::DeniedByPolicy);
}

#[test]
fn the_description_names_what_is_allowed() {
    let text = describe(&Commands::new(&[]).unwrap());
    assert!(
        text.contains("- git: status, diff") && text.contains("not: push --force") && text.contains("- just"),
        "{text}"
    );
    assert!((RUN_COMMAND.schema)().contains("\"command\""));
}
