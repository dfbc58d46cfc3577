//! Tests of the conversation: when a turn is over, and what is held back until pi accepts it.

use ostler_core::dialect::{Action, Change, Conversation, Exit, FromConversation, Outbox, ToAgent};
use ostler_core::event::{EventKind, NoticeCode};
use ostler_core::outcome::Cause;
use ostler_core::spec::Spec;

use super::conversation::PiConversation;

/// A conversation with a prompt, and its output.
struct Rig {
    pi: PiConversation,
    out: Outbox,
}

const IDLE: &str = r#"{"id":"ostler-state","type":"response","command":"get_state","success":true,"data":{"sessionId":"s","model":{"id":"m","provider":"p"},"isStreaming":false,"isCompacting":false,"pendingMessageCount":0}}"#;
const ACCEPTED: &str =
    r#"{"id":"ostler-prompt","type":"response","command":"prompt","success":true}"#;
const START: &str = r#"{"type":"agent_start"}"#;
const END: &str = r#"{"type":"agent_end","messages":[]}"#;

/// Returns a `message_end` line with a complete model message.
fn message(reason: &str, more: &str) -> String {
    format!(
        r#"{{"type":"message_end","message":{{"role":"assistant","content":[{{"type":"text","text":"Hello"}}],"provider":"p","model":"m","stopReason":"{reason}"{more},"usage":{{"input":7,"output":2,"cacheRead":3,"cacheWrite":0,"cost":{{"total":0.5}}}}}}}}"#
    )
}

impl Rig {
    fn new() -> Self {
        let mut rig = Self::starting();
        rig.pi.on_line(IDLE, &mut rig.out);
        assert_eq!(rig.requests(), ["prompt"]);
        rig
    }

    /// Returns a conversation that holds its prompt, because pi has not started yet.
    fn starting() -> Self {
        let (mut pi, mut out) = (PiConversation::new(&Spec::default()), Outbox::default());
        pi.on_start(&mut out);
        pi.send(ToAgent::Prompt("hello".to_owned()), &mut out);
        let mut rig = Self { pi, out };
        assert_eq!(rig.requests(), ["get_state"]);
        rig
    }

    /// Passes lines to the conversation and returns the causes of turns that ended.
    fn lines(&mut self, lines: &[&str]) -> Vec<Cause> {
        for line in lines {
            self.pi.on_line(line, &mut self.out);
        }
        let ended = self.out.drain().filter_map(|out| match out {
            FromConversation::TurnEnded(result) => Some(result.outcome.cause),
            _ => None,
        });
        ended.collect()
    }

    /// Returns the types of the requests that were written.
    fn requests(&mut self) -> Vec<String> {
        let written = self.out.drain().filter_map(|out| match out {
            FromConversation::Do(Action::Write(line)) => {
                let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
                Some(line["type"].as_str().unwrap().to_owned())
            }
            _ => None,
        });
        written.collect()
    }

    /// Passes lines to the conversation and returns the codes of its notices.
    fn notices(&mut self, lines: &[&str]) -> Vec<NoticeCode> {
        lines
            .iter()
            .for_each(|line| self.pi.on_line(line, &mut self.out));
        let notices = self.out.drain().filter_map(|out| match out {
            FromConversation::Event(EventKind::Notice(notice)) => Some(notice.code),
            _ => None,
        });
        notices.collect()
    }
}

#[test]
fn a_turn_is_over_when_pi_is_idle_after_it_worked() {
    let mut rig = Rig::new();
    // The state at the start says nothing about the prompt.
    assert_eq!(rig.lines(&[IDLE]), []);
    assert_eq!(rig.lines(&[ACCEPTED, START, &message("stop", "")]), []);
    assert_eq!(rig.lines(&[END]), []);
    assert_eq!(rig.lines(&[IDLE]), [Cause::Completed]);
    assert_eq!(rig.lines(&[IDLE]), [], "only once");
}

#[test]
fn earlier_state_does_not_end_the_turn() {
    let mut rig = Rig::new();
    let working = IDLE.replace("\"isStreaming\":false", "\"isStreaming\":true");
    assert_eq!(rig.lines(&[ACCEPTED, &working, START, IDLE]), []);
    assert_eq!(
        rig.lines(&[&message("stop", ""), END, IDLE]),
        [Cause::Completed]
    );
}

#[test]
fn a_prompt_that_an_extension_handled_is_a_turn_without_an_answer() {
    let mut rig = Rig::new();
    assert_eq!(rig.lines(&[IDLE, ACCEPTED, IDLE]), [Cause::Completed]);
}

#[test]
fn a_retry_continues_the_turn() {
    let failed = message("error", r#","errorMessage":"429 slow down""#);
    let retry = r#"{"type":"auto_retry_start","attempt":1,"maxAttempts":3,"delayMs":2000,"errorMessage":"429 slow down"}"#;
    let mut rig = Rig::new();
    assert_eq!(rig.lines(&[ACCEPTED, START, &failed, END, retry, IDLE]), []);
    assert_eq!(
        rig.lines(&[START, &message("stop", ""), END, IDLE]),
        [Cause::Completed]
    );
    let given_up = r#"{"type":"auto_retry_end","success":false,"attempt":3,"finalError":"429"}"#;
    let mut rig = Rig::new();
    assert_eq!(
        rig.lines(&[ACCEPTED, START, &failed, END, given_up, IDLE]),
        [Cause::RateLimit]
    );
    // Interrupted while pi waits before the retry.
    let mut rig = Rig::new();
    rig.lines(&[ACCEPTED, START, &failed, END, retry, IDLE]);
    rig.pi.send(ToAgent::Interrupt, &mut rig.out);
    assert_eq!(rig.requests(), ["abort"]);
    assert_eq!(rig.lines(&[given_up, IDLE]), [Cause::Interrupted]);
}

#[test]
fn a_compaction_belongs_to_the_turn() {
    let begun = r#"{"type":"compaction_start","reason":"threshold"}"#;
    let over = |will_retry| {
        format!(
            r#"{{"type":"compaction_end","result":{{"summary":"x"}},"aborted":false,"willRetry":{will_retry}}}"#
        )
    };
    let mut rig = Rig::new();
    rig.lines(&[ACCEPTED, START, &message("stop", ""), END]);
    assert_eq!(rig.lines(&[begun, IDLE]), []);
    assert_eq!(rig.lines(&[&over(false), IDLE]), [Cause::Completed]);
    // pi continues by itself after an overflow, or if a message is pending.
    let waiting = IDLE.replace("\"pendingMessageCount\":0", "\"pendingMessageCount\":1");
    for lines in [[&over(true), IDLE], [&over(false), &waiting]] {
        let mut rig = Rig::new();
        rig.lines(&[ACCEPTED, START, &message("stop", ""), END, begun]);
        assert_eq!(rig.lines(&lines), []);
        assert_eq!(
            rig.lines(&[START, &message("stop", ""), END, IDLE]),
            [Cause::Completed]
        );
    }
}

#[test]
fn an_interrupt_before_pi_has_started_sends_no_prompt() {
    let mut rig = Rig::starting();
    rig.pi.send(ToAgent::Interrupt, &mut rig.out);
    assert_eq!(rig.lines(&[]), [Cause::Interrupted]);
    rig.pi.on_line(IDLE, &mut rig.out);
    assert_eq!(rig.requests(), [""; 0]);
}

#[test]
fn interrupts_and_messages_wait_until_pi_works() {
    let mut rig = Rig::new();
    rig.pi.send(ToAgent::Steer("more".to_owned()), &mut rig.out);
    rig.pi.send(ToAgent::Interrupt, &mut rig.out);
    assert_eq!(rig.requests(), [""; 0]);
    rig.pi.on_line(ACCEPTED, &mut rig.out);
    rig.pi.on_line(START, &mut rig.out);
    assert_eq!(rig.requests(), ["get_state", "steer", "abort"]);
    let aborted = message("aborted", r#","errorMessage":"Request was aborted""#);
    assert_eq!(rig.lines(&[&aborted, END, IDLE]), [Cause::Interrupted]);
}

#[test]
fn a_late_message_is_kept_and_a_rejected_one_reported() {
    let waiting = IDLE.replace("\"pendingMessageCount\":0", "\"pendingMessageCount\":1");
    let mut rig = Rig::new();
    rig.lines(&[ACCEPTED, START, &message("stop", "")]);
    assert_eq!(rig.notices(&[END, &waiting]), [NoticeCode::SteerKept]);
    let rejected =
        r#"{"id":"ostler-steer","type":"response","command":"steer","success":false,"error":"no"}"#;
    assert_eq!(rig.notices(&[rejected]), [NoticeCode::SteerFailed]);
    // The response to a request that pi does not know lacks the request's id.
    let unknown =
        r#"{"type":"response","command":"x","success":false,"error":"Unknown command: x"}"#;
    assert_eq!(rig.notices(&[unknown]), [NoticeCode::ControlError]);
}

// pi passes a message to the model after an interrupted tool, and then aborts the call. P36
#[test]
fn a_message_whose_answer_was_interrupted_is_kept() {
    let user = r#"{"type":"message_end","message":{"role":"user","content":[]}}"#;
    let aborted = message("aborted", r#","errorMessage":"Request was aborted""#);
    let (tool, stop) = (message("toolUse", ""), message("stop", ""));
    for (lines, kept) in [
        ([user, &tool, user, &aborted], &[NoticeCode::SteerKept][..]),
        ([user, &tool, user, &stop], &[]),
        ([user, &tool, &tool, &aborted], &[]),
    ] {
        let mut rig = Rig::new();
        rig.lines(&[ACCEPTED, START]);
        rig.lines(&lines);
        assert_eq!(rig.notices(&[END, IDLE]), kept);
    }
}

#[test]
fn extension_dialog_is_dismissed() {
    let dialog = r#"{"type":"extension_ui_request","id":"u","method":"confirm","title":"Sure?"}"#;
    let mut rig = Rig::new();
    rig.pi.on_line(dialog, &mut rig.out);
    assert_eq!(rig.requests(), ["extension_ui_response"]);
    assert_eq!(rig.notices(&[dialog]), [NoticeCode::QuestionDeclined]);
    let note = r#"{"type":"extension_ui_request","id":"u","method":"notify","message":"hi"}"#;
    assert_eq!(rig.notices(&[note]), [NoticeCode::AgentInfo]);
}

#[test]
fn a_rejected_prompt_and_an_early_exit_end_the_turn() {
    let rejected = r#"{"id":"ostler-prompt","type":"response","command":"prompt","success":false,"error":"No API key found for openai.\n\nUse /login"}"#;
    assert_eq!(Rig::new().lines(&[IDLE, rejected]), [Cause::Auth]);
    let mut rig = Rig::starting();
    let exit = Exit {
        code: Some(1),
        signal: None,
        stderr: "No session found matching 'x'\n".to_owned(),
    };
    rig.pi.on_exit(&exit, &mut rig.out);
    assert_eq!(rig.lines(&[]), [Cause::BadRequest]);
}

#[test]
fn model_change_is_acknowledged() {
    let mut rig = Rig::new();
    rig.lines(&[IDLE]);
    for (id, change) in [
        (1, Change::Model("other".to_owned())),
        (2, Change::PermissionMode("x".to_owned())),
    ] {
        rig.pi.send(ToAgent::Change { id, change }, &mut rig.out);
    }
    let done = r#"{"id":"ostler-change-1","type":"response","command":"set_model","success":true}"#;
    rig.pi.on_line(done, &mut rig.out);
    let answers: Vec<(u64, bool)> = rig
        .out
        .drain()
        .filter_map(|out| match out {
            FromConversation::Changed { id, error } => Some((id, error.is_some())),
            _ => None,
        })
        .collect();
    assert_eq!(answers, [(2, true), (1, false)]);
}

#[test]
fn usage_is_the_sum_of_the_messages() {
    let mut rig = Rig::new();
    for line in [
        ACCEPTED,
        START,
        &message("toolUse", ""),
        &message("stop", ""),
        END,
        IDLE,
    ] {
        rig.pi.on_line(line, &mut rig.out);
    }
    let ended = rig.out.drain().find_map(|out| match out {
        FromConversation::TurnEnded(result) => Some(result),
        _ => None,
    });
    let result = ended.unwrap();
    assert_eq!(result.text.as_deref(), Some("Hello"));
    let [usage] = &result.usage[..] else {
        panic!("{:?}", result.usage)
    };
    assert_eq!(usage.model.as_deref(), Some("p/m"));
    assert_eq!(
        (usage.input, usage.cache_read, usage.output),
        (Some(14), Some(6), Some(4))
    );
    assert_eq!(usage.cost_usd, Some(1.0));
}
