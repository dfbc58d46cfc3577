//! Permission requests: decided by rules, by a person, by the caller's handler, or unattended.

use std::time::Duration;

use ostler::event::{DecidedBy, Decision, EventKind};
use ostler::permission::{PermissionAnswer, Policy, Trust};
use ostler::session::RequestError;
use ostler::spec::Attendance;

use crate::rig::{Rig, Seen, finish_after, read_until};

/// An agent that asks about these commands at once, and ends its turn when all are answered.
fn asking(commands: &[&str]) -> Rig {
    let mut verbs = "read\ninit\n".to_owned();
    for (n, command) in commands.iter().enumerate() {
        verbs += &format!("control-request q{n} Bash {{\"command\":\"{command}\"}}\n");
    }
    verbs += &"wait-control\n".repeat(commands.len());
    Rig::new(verbs + "dump-stdin $DIR/stdin\ntext hi\nresult hi\nread-until-eof")
}

fn decisions(seen: &Seen) -> Vec<(String, Decision, DecidedBy)> {
    let permissions = seen.kinds().filter_map(|kind| {
        if let EventKind::Permission(it) = kind {
            Some(it)
        } else {
            None
        }
    });
    permissions
        .map(|it| (it.id.clone(), it.decision, it.by))
        .collect()
}

/// Returns the answers the agent received, by request.
fn answers(rig: &Rig) -> Vec<(String, bool)> {
    let text = rig.text("stdin");
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let answers = lines
        .filter(|line| line["type"] == "control_response")
        .map(|line| {
            let response = &line["response"];
            (
                response["request_id"].as_str().unwrap().to_owned(),
                response["response"]["behavior"] == "allow",
            )
        });
    let mut answers: Vec<_> = answers.collect();
    answers.sort();
    answers
}

// P44: five requests at once; any client answers, each once, in any order; a late answer is an
// error.
#[tokio::test]
async fn each_request_is_answered_once_by_any_client() {
    let mut rig = asking(&["a", "b", "c", "d", "e"]);
    rig.spec.attendance = Attendance::Attended;
    let mut session = rig.start();
    let mut read = Vec::new();
    for _ in 0..5 {
        read.extend(
            read_until(&mut session, |kind| {
                matches!(kind, EventKind::Permission(_))
            })
            .await,
        );
    }
    assert_eq!(session.status().pending.len(), 5);
    let dropped = session.remote();
    drop(dropped); // a client that disconnected without answering
    let other = session.remote();
    for (id, answer) in [
        ("toolu_q3", PermissionAnswer::Allow),
        ("toolu_q0", PermissionAnswer::Deny("no".into())),
        ("toolu_q4", PermissionAnswer::Allow),
        ("toolu_q1", PermissionAnswer::Allow),
    ] {
        assert_eq!(other.answer(id, answer).await, Ok(()));
    }
    let late = other
        .answer("toolu_q3", PermissionAnswer::Deny("changed my mind".into()))
        .await;
    assert!(
        matches!(late, Err(RequestError::Refused(refused)) if refused.code.as_str() == "decided")
    );
    assert_eq!(
        other.answer("toolu_q2", PermissionAnswer::Allow).await,
        Ok(())
    );
    read.extend(read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await);
    let seen = finish_after(read, session).await;
    let decided = decisions(&seen)
        .into_iter()
        .filter(|(_, decision, _)| *decision != Decision::Asked);
    assert!(
        decided.clone().count() == 5 && decided.clone().all(|(_, _, by)| by == DecidedBy::Person)
    );
    let expected = [
        ("q0", false),
        ("q1", true),
        ("q2", true),
        ("q3", true),
        ("q4", true),
    ];
    assert_eq!(
        answers(&rig),
        expected.map(|(id, allowed)| (id.to_owned(), allowed))
    );
}

// P50: unattended. The request is denied by default; the event says so and names the settings.
#[tokio::test]
async fn unattended_request_is_denied_and_reported() {
    let mut rig = asking(&["a"]);
    rig.spec.denials = ostler::spec::Denials::Tolerate;
    let seen = rig.run().await;
    assert_eq!(
        decisions(&seen),
        [("toolu_q0".to_owned(), Decision::Denied, DecidedBy::Default)]
    );
    let message = seen
        .kinds()
        .find_map(|kind| {
            if let EventKind::Permission(it) = kind {
                it.message.clone()
            } else {
                None
            }
        })
        .unwrap();
    assert!(
        message.contains("--permissions") && message.contains("permission_mode"),
        "{message}"
    );
}

// Requests that no rule decides go to the handler. If the handler panics, the request is denied.
#[tokio::test]
async fn rules_decide_before_the_handler() {
    let rules = r#"
        [[rule]]
        command = "git status"
        do = "allow"
        [[rule]]
        command = "rm"
        do = "deny"
        message = "nothing is removed here"
    "#;
    let mut rig = asking(&["git status", "rm -rf x", "ask yes", "ask no", "ask panic"]);
    rig.spec.policy = Some(Policy::parse(rules, "test", Trust::Full).unwrap());
    rig.host = rig
        .host
        .with_permission_handler(|question: ostler::event::Permission| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let input = question.input.unwrap().get().to_owned();
            assert!(!input.contains("panic"), "as it should");
            if input.contains("yes") {
                PermissionAnswer::Allow
            } else {
                PermissionAnswer::Deny("the function says no".into())
            }
        });
    let seen = rig.run().await;
    let decided = decisions(&seen)
        .into_iter()
        .filter(|(_, decision, _)| *decision != Decision::Asked);
    let mut decided: Vec<_> = decided.collect();
    decided.sort_by(|a, b| a.0.cmp(&b.0));
    use DecidedBy::{Person, Rule};
    use Decision::{Allowed, Denied};
    let expected = [
        ("toolu_q0", Allowed, Rule),
        ("toolu_q1", Denied, Rule),
        ("toolu_q2", Allowed, Person),
        ("toolu_q3", Denied, Person),
        ("toolu_q4", Denied, Person),
    ];
    assert_eq!(
        decided,
        expected.map(|(id, decision, by)| (id.to_owned(), decision, by))
    );
    assert_eq!(
        answers(&rig).iter().filter(|(_, allowed)| *allowed).count(),
        2
    );
}

// P48: a tool that ran without asking although a rule forbids it is reported as a bypass.
#[tokio::test]
async fn a_tool_that_ran_past_the_rules_is_a_bypass() {
    let rules = "[[rule]]\ncommand = \"rm\"\ndo = \"deny\"\n";
    for (command, bypasses) in [("rm -rf x", 1), ("ls", 0)] {
        let mut rig = Rig::new(format!(
            "read\ninit\ntool-use t1 Bash {{\"command\":\"{command}\"}}\ntool-result t1 done\ntext hi\nresult hi\nread-until-eof"
        ));
        rig.spec.policy = Some(Policy::parse(rules, "test", Trust::Full).unwrap());
        assert_eq!(
            rig.run().await.notices("policy_bypass").len(),
            bypasses,
            "{command}"
        );
    }
}

// The turn ends while a request is open: it is withdrawn with an event, and a late answer is an
// error.
#[tokio::test]
async fn request_is_withdrawn_when_its_turn_ends() {
    let mut rig = Rig::new(
        "read\ninit\ncontrol-request q1 Bash {\"command\":\"x\"}\nanswer-interrupt\nread-until-eof",
    );
    (rig.spec.attendance, rig.spec.after_turn) =
        (Attendance::Attended, ostler::spec::AfterTurn::Wait);
    let mut session = rig.start();
    let mut read = read_until(&mut session, |kind| {
        matches!(kind, EventKind::Permission(_))
    })
    .await;
    session.interrupt().await;
    let late = session.answer("toolu_q1", PermissionAnswer::Allow).await;
    assert!(
        matches!(late, Err(RequestError::Refused(refused)) if refused.code.as_str() == "decided")
    );
    read.extend(read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await);
    session.stop();
    let seen = finish_after(read, session).await;
    assert_eq!(
        decisions(&seen).last().map(|(_, decision, _)| *decision),
        Some(Decision::Denied)
    );
}

// An agent that cannot be told to ignore its settings in the project is refused where it has some.
#[test]
fn policy_is_refused_where_an_agent_cannot_ignore_its_project_settings() {
    for (name, file) in [
        ("gemini", ".gemini/settings.json"),
        ("copilot", ".github/hooks/x.json"),
        ("qwen", ".qwen/settings.json"),
        ("claude-agent-acp", ".mcp.json"),
        ("codex-acp", ".codex/config.toml"),
    ] {
        let repository = tempfile::tempdir().unwrap();
        let work = repository.path().join("sub");
        let file = repository.path().join(file);
        for dir in [
            &repository.path().join(".git"),
            &work,
            file.parent().unwrap(),
        ] {
            std::fs::create_dir_all(dir).unwrap();
        }
        std::fs::write(file, "{}").unwrap();
        let agent = ostler::Agents::builtin().get(name).unwrap();
        let host = ostler::Host::new([]);
        let spec = ostler::Spec::new("PROMPT")
            .dir(work)
            .policy(Policy::default());
        let error = agent.start(&host, spec.clone()).err().unwrap().to_string();
        assert!(error.contains("project settings"), "{name}: {error}");
        let about = agent.dialect().about();
        let trusted = spec.project_settings(ostler::spec::ProjectSettings::Trusted);
        let dir = trusted.dir.clone().unwrap();
        let ignored = ostler::trust::ignored_agent_files(&about, &trusted, &dir);
        assert!(ignored.is_empty(), "{name}: {ignored:?}");
    }
}
