//! An agent with one process per turn: its caller sees the same session.

use ostler::agent::ProcessAgent;
use ostler::dialect::{
    About, Action, Capabilities, Conversation, Dialect, Exit, Launch, Launching, Outbox, ToAgent,
};
use ostler::spec::AfterTurn;
use ostler::{Agent, Agents, EventKind, SpecError};

use crate::rig::{Rig, finish_after, read_until};

/// The fake agent's dialect, spoken by an agent whose process exits when its input ends after one
/// prompt.
pub(super) struct OncePerTurn;

pub(super) fn claude() -> &'static dyn Dialect {
    Agents::builtin().get("claude").unwrap().dialect()
}

impl Dialect for OncePerTurn {
    fn about(&self) -> About {
        let claude = claude().about();
        About {
            capabilities: Capabilities {
                many_turns: false,
                ..claude.capabilities
            },
            settings: claude.settings,
            ..About::new("once")
        }
    }

    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        claude().launch(launching)
    }

    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
        Box::new(Once(claude().converse(launching)))
    }
}

/// The same, for an agent whose session ids Ostler assigns.
struct Named;

impl Dialect for Named {
    fn about(&self) -> About {
        let once = OncePerTurn.about();
        About {
            name: "named",
            capabilities: Capabilities {
                assigned_session_id: true,
                ..once.capabilities
            },
            ..once
        }
    }

    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        OncePerTurn.launch(launching)
    }

    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
        OncePerTurn.converse(launching)
    }
}

struct Once(Box<dyn Conversation>);

impl Conversation for Once {
    fn on_start(&mut self, out: &mut Outbox) {
        self.0.on_start(out);
    }

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        let is_prompt = matches!(message, ToAgent::Prompt(_));
        self.0.send(message, out);
        if is_prompt {
            out.push(Action::CloseInput);
        }
    }

    fn on_line(&mut self, line: &str, out: &mut Outbox) {
        self.0.on_line(line, out);
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        self.0.on_exit(exit, out);
    }
}

// Each message starts a process, and from the second on it resumes the agent's session. No notice
// reports that. A process that does not exit after its turn is ended.
#[tokio::test]
async fn each_turn_has_a_process_and_resumes_the_session() {
    for after in ["exit 0", "hang"] {
        let verbs = format!(
            "dump-args $DIR/args\npid-file $DIR/pid\nread-user\ninit\ntext hi\nresult hi\n{after}"
        );
        let mut rig = Rig::new(verbs).grace_ms(200);
        rig.spec.after_turn = AfterTurn::Wait;
        let mut session = ProcessAgent::new(&OncePerTurn)
            .start(&rig.host, rig.spec.clone())
            .unwrap();
        let (mut read, mut pids) = (Vec::new(), Vec::new());
        for turn in 0..3 {
            read.extend(
                read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await,
            );
            pids.push(rig.pid("pid"));
            assert_eq!(
                rig.text("args").contains("--resume="),
                turn > 0,
                "turn {turn}: {}",
                rig.text("args")
            );
            if turn < 2 {
                session.send("go on").unwrap();
            }
        }
        session.stop();
        let seen = finish_after(read, session).await;
        assert!(
            seen.turns().len() == 3
                && seen
                    .turns()
                    .iter()
                    .all(|turn| turn.outcome.is_success() && turn.text == "hi")
        );
        pids.dedup();
        assert_eq!(pids.len(), 3, "a separate process for each");
        assert_eq!(
            (
                seen.notices("agent_gone").len(),
                seen.notices("fresh_start").len()
            ),
            (0, 0)
        );
        assert!(seen.outcome().is_success(), "{:?}", seen.outcome());
    }
}

// An agent that exited before printing anything gets the same assigned id again, and no `--resume`:
// it may have stored something under that id.
#[tokio::test]
async fn assigned_session_id_is_reused() {
    let mut rig = Rig::new("dump-args $DIR/args\nread-user\nexit 3");
    rig.spec.after_turn = AfterTurn::Wait;
    let mut session = ProcessAgent::new(&Named)
        .start(&rig.host, rig.spec.clone())
        .unwrap();
    let (mut read, mut ids) = (Vec::new(), Vec::new());
    for turn in 0..2 {
        read.extend(read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await);
        let args = rig.text("args");
        let (_, id) = args
            .split_once("--session-id")
            .unwrap_or_else(|| panic!("turn {turn}: {args}"));
        ids.push(id.split_whitespace().next().unwrap().to_owned());
        assert!(!args.contains("--resume"), "{args}");
        if turn == 0 {
            session.send("go on").unwrap();
        }
    }
    session.stop();
    let seen = finish_after(read, session).await;
    assert_eq!(ids[0], ids[1]);
    assert_eq!(seen.notices("fresh_start").len(), 0);
}
