//! Several turns in one session, through the library, with any agent.

use std::sync::Arc;

use ostler::spec::AfterTurn;
use ostler::{Cause, EventKind};
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{Subject, Task, TestEnv};

use crate::driver::{agent, host, runtime, spec};

/// Several turns are one conversation, and one process where the agent is a process. Each turn has
/// its own answer and its own tokens, the second is interrupted, and the third still knows the
/// first. S2-10, P21, P36.
pub(crate) fn three_turns_are_one_conversation(subject: &'static Subject) {
    let script = Script::new()
        .rule(Rule::on_text("first").text("One."))
        // Before the second: the interrupted message and the next reach the model as one.
        .rule(Rule::on_text("third").text("Three."))
        .rule(Rule::on_text("second").answer(Answer::hang()));
    let place = Arc::new(TestEnv::new(subject, script));
    let spec = spec(&place, &Task::new("the first")).after_turn(AfterTurn::Wait);
    let (mut turns, mut pids) = (Vec::new(), Vec::new());
    runtime().block_on(async {
        let mut session = agent(subject).start(&host(&place), spec).unwrap();
        while let Some(event) = session.next().await {
            match event.kind {
                EventKind::TurnEnded(turn) => {
                    turns.push((
                        turn.outcome.cause,
                        turn.text,
                        turn.usage.and_then(|usage| usage.input),
                    ));
                    pids.push(session.remote().pid());
                    match turns.len() {
                        1 => {
                            session.remote().send("the second").unwrap();
                            let (server, remote) = (place.clone(), session.remote());
                            tokio::task::spawn_blocking(move || {
                                server.wait_for_calls(2);
                                remote.interrupt();
                            });
                        }
                        2 => session.remote().send("the third").unwrap(),
                        _ => session.remote().stop(),
                    }
                }
                EventKind::Ended(ended) => assert_eq!(ended.outcome.cause, Cause::Completed),
                _ => {}
            }
        }
    });
    // The interrupted turn neither swallows nor answers the next one.
    let served = place.server.served();
    let input = |answer: usize| Some(subject.numbers.sum(&served[answer..=answer])[0]);
    let expected = [
        (Cause::Completed, "One.".to_owned(), input(0)),
        (Cause::Interrupted, String::new(), None),
        (Cause::Completed, "Three.".to_owned(), input(2)),
    ];
    assert_eq!(turns, expected);
    assert_eq!(pids[0].is_some(), subject.pinned().is_some());
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    let messages = place.server.requests()[2].body["messages"].to_string();
    assert!(
        messages.contains("the first") && messages.contains("One."),
        "{messages}"
    );
    assert_eq!(place.processes(), []);
}
