//! An agent with two dialects: if its program does not know the first, the second is tried with the
//! same prompt.

use ostler::agent::ProcessAgent;
use ostler::dialect::{About, Arg, Conversation, Dialect, Exit, Launch, Launching};
use ostler::event::Notice;
use ostler::spec::AfterTurn;
use ostler::{Agent, EventKind, Session, SpecError};

use super::per_turn::{OncePerTurn, claude};
use crate::rig::{Rig, finish, finish_after, read_until, until};

/// The flag that only a program with the first dialect has.
const MODERN: &str = "--modern";

/// The fake agent's dialect with many turns per process; the fallback has one process per turn.
struct Modern;

/// The fallback dialect of an agent that cannot be started with it.
struct Refusing;

/// The first dialect of that agent.
struct ModernOrNothing;

macro_rules! same_as_claude {
    () => {
        fn about(&self) -> About {
            let claude = claude().about();
            About {
                capabilities: claude.capabilities,
                settings: claude.settings,
                ..About::new("modern")
            }
        }

        fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
            claude().converse(launching)
        }
    };
}

fn modern(launching: &Launching<'_>) -> Result<Launch, SpecError> {
    let mut launch = claude().launch(launching)?;
    launch.args.push(Arg::Plain(MODERN.to_owned()));
    Ok(launch)
}

fn is_unknown(exit: &Exit) -> bool {
    exit.code == Some(2) && exit.stderr.contains("unrecognized")
}

impl Dialect for Modern {
    same_as_claude!();

    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        modern(launching)
    }

    fn fallback_transport(&self, exit: &Exit) -> Option<&'static dyn Dialect> {
        is_unknown(exit).then_some(&OncePerTurn as &dyn Dialect)
    }
}

impl Dialect for ModernOrNothing {
    same_as_claude!();

    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        modern(launching)
    }

    fn fallback_transport(&self, exit: &Exit) -> Option<&'static dyn Dialect> {
        is_unknown(exit).then_some(&Refusing as &dyn Dialect)
    }
}

impl Dialect for Refusing {
    same_as_claude!();

    fn launch(&self, _: &Launching<'_>) -> Result<Launch, SpecError> {
        Err(SpecError::new(
            "policy",
            "x",
            "the fallback dialect does not support that",
        ))
    }
}

/// A program that knows only the second dialect.
const OLD: &str = r#"#!/bin/sh
case "$*" in
    *--modern*) echo "error: unrecognized subcommand" >&2; exit 2 ;;
esac
exec $FAKE "$@"
"#;

fn start(dialect: &'static dyn Dialect, rig: &Rig) -> Session {
    ProcessAgent::new(dialect)
        .start(&rig.host, rig.spec.clone())
        .unwrap()
}

fn tried_another(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Notice(Notice { code, .. }) if code.as_str() == "other_transport")
}

// S2-15: the caller sees one session; the second process gets the prompt, and its capabilities
// apply from then on.
#[tokio::test]
async fn fallback_dialect_gets_the_prompt_and_sets_the_capabilities() {
    let verbs = "dump-args $DIR/args\npid-file $DIR/pid\nread-user\ndump-stdin $DIR/stdin\ninit\ntext hi\nresult hi\nexit 0";
    let mut rig = Rig::new(verbs).behind(OLD).grace_ms(200);
    rig.spec.after_turn = AfterTurn::Wait;
    let mut session = start(&Modern, &rig);
    let mut read = read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await;
    assert!(
        rig.text("stdin").contains("Do it."),
        "{}",
        rig.text("stdin")
    );
    let first = rig.pid("pid");
    session.send("go on").unwrap();
    read.extend(read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await);
    assert!(
        rig.text("stdin").contains("go on") && rig.text("args").contains("--resume="),
        "{}",
        rig.text("args")
    );
    assert_ne!(
        rig.pid("pid"),
        first,
        "a process for each turn, as the second language has it"
    );
    session.stop();
    let seen = finish_after(read, session).await;
    assert_eq!(seen.notices("other_transport").len(), 1);
    assert!(seen.turns().len() == 2 && seen.turns().iter().all(|turn| turn.outcome.is_success()));
}

#[tokio::test]
async fn first_dialect_is_used_if_the_program_knows_it() {
    let rig = Rig::new("dump-args $DIR/args\nread-user\ninit\nresult hi\nread-until-eof\nexit 0");
    let seen = finish(start(&Modern, &rig)).await;
    assert!(
        seen.outcome().is_success() && seen.notices("other_transport").is_empty(),
        "{:?}",
        seen.outcome()
    );
    assert!(rig.text("args").contains(MODERN));
}

#[tokio::test]
async fn session_can_be_stopped_while_the_fallback_is_silent() {
    let rig = Rig::new("pid-file $DIR/pid\nhang")
        .behind(OLD)
        .grace_ms(200);
    let mut session = start(&Modern, &rig);
    let read = read_until(&mut session, tried_another).await;
    until("the second process is running", || rig.path("pid").exists()).await;
    session.stop();
    let seen = finish_after(read, session).await;
    assert_eq!(
        seen.outcome().cause,
        ostler::Cause::Stopped,
        "{:?}",
        seen.outcome()
    );
}

#[tokio::test]
async fn fallback_that_cannot_start_says_why() {
    let rig = Rig::new("exit 0").behind(OLD);
    let seen = finish(start(&ModernOrNothing, &rig)).await;
    assert_eq!(seen.turns().len(), 1);
    let outcome = seen.outcome();
    assert!(
        outcome
            .message
            .contains("the fallback dialect does not support that"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn fallback_is_tried_once_and_only_before_output() {
    let nothing = "#!/bin/sh\necho 'error: unrecognized subcommand' >&2\nexit 2\n";
    let seen = finish(start(&Modern, &Rig::new("exit 0").behind(nothing))).await;
    assert_eq!(
        (seen.notices("other_transport").len(), seen.turns().len()),
        (1, 1)
    );
    assert_eq!(
        seen.outcome().cause,
        ostler::Cause::AgentDied,
        "{:?}",
        seen.outcome()
    );
    // A program that has printed a line knows the dialect.
    let speaks = "#!/bin/sh\necho hello\necho 'error: unrecognized subcommand' >&2\nexit 2\n";
    let seen = finish(start(&Modern, &Rig::new("exit 0").behind(speaks))).await;
    assert_eq!(seen.notices("other_transport").len(), 0);
}
