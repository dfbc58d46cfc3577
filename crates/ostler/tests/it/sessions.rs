//! Live sessions against the scripted model: scenarios written once, run with every capable agent.
//!
//! A scenario is an async function that takes a [`Subject`]. Some are rows of the conformance
//! suite. `shared_live_scenarios!` generates a test for each of the others that every agent passes.
//! `live_scenarios!` adds those that need an agent with its own process, modes and transcripts.

pub(crate) mod changes;
pub(crate) mod interrupts;
pub(crate) mod lasting;
pub(crate) mod log;
pub(crate) mod resume;
pub(crate) mod permissions;
pub(crate) mod sending;
pub(crate) mod tools;

use std::ops::Deref;

use ostler::event::{Started, TurnEnded};
use ostler::spec::AfterTurn;
use ostler::{Event, EventKind, Host, Session, Spec};
use ostler_testkit::model::{Request, Script};
use ostler_testkit::scenario::{Subject, Task, TestEnv};

use crate::driver::{agent, host, spec};
use crate::rig::{Seen, finish_after, read_until, until};

/// Generates a test of each scenario that every agent passes and that is not a row of the
/// conformance suite.
macro_rules! shared_live_scenarios {
    ($subject:expr) => {
        $crate::sessions::live_tests! { $subject;
            sending::three_turns_remember sending::pause_holds_messages
            sending::steered_between_tools sending::steered_in_the_last_words
            sending::a_budget_of_turns sending::a_budget_of_tokens
            interrupts::in_a_command interrupts::in_a_question
            interrupts::in_a_bound_tool interrupts::at_once interrupts::stopped_in_the_middle
            interrupts::with_a_message_under_way
            permissions::two_at_once permissions::denied_with_a_message permissions::rules_decide
            tools::a_tool_that_fails_or_panics tools::tool_progress_is_emitted
            tools::ten_megabytes tools::a_tool_that_the_caller_runs
            changes::another_model
            resume::in_use_by_another
        }

        /// Slow: run alone, because memory is measured.
        mod slow {
            $crate::sessions::live_tests! { $subject; lasting::fifty_turns }
        }
    };
}

/// Generates a test of each scenario.
macro_rules! live_scenarios {
    ($subject:expr) => {
        $crate::sessions::shared_live_scenarios!($subject);
        $crate::sessions::live_tests! { $subject;
            sending::freeze_stops_the_work
            permissions::commands_are_asked_about_one_by_one
            changes::another_permission_mode
            resume::an_unknown_session resume::from_another_directory
            lasting::killed_and_started_again lasting::restart_keeps_the_configuration
        }
    };
}

/// Generates a test of each named scenario.
macro_rules! live_tests {
    ($subject:expr; $($group:ident :: $name:ident)*) => {
        $(#[test]
        fn $name() {
            $crate::driver::runtime().block_on($crate::sessions::$group::$name(&$subject));
        })*
    };
}

pub(crate) use {live_scenarios, live_tests, shared_live_scenarios};

/// A place with a model, and the spec of the session to start there.
pub(crate) struct Scene {
    pub(crate) place: TestEnv,
    pub(crate) host: Host,
    pub(crate) spec: Spec,
}

impl Scene {
    /// Creates a scene whose session waits for messages after the task's own.
    pub(crate) fn new(subject: &'static Subject, script: Script, task: &Task) -> Self {
        let place = TestEnv::new(subject, script);
        let spec = spec(&place, task).after_turn(AfterTurn::Wait);
        Self {
            host: host(&place),
            spec,
            place,
        }
    }

    pub(crate) fn start(&self) -> Live {
        let session = agent(self.place.subject)
            .start(&self.host, self.spec.clone())
            .unwrap();
        Live {
            session,
            read: Vec::new(),
        }
    }

    /// Returns model call number `at`, counted from 0.
    pub(crate) fn call(&self, at: usize) -> Request {
        self.place.server.requests().swap_remove(at)
    }

    /// Returns the conversation so far in model call number `at`, whichever API it uses.
    pub(crate) fn messages(&self, at: usize) -> String {
        let call = self.call(at);
        let said = ["messages", "input", "contents"]
            .iter()
            .find_map(|name| call.body.get(name));
        said.map_or_else(String::new, ToString::to_string)
    }

    /// Fails unless model call number `at` contains these parts, in this order.
    pub(crate) fn knows(&self, at: usize, parts: &[&str]) {
        let messages = self.messages(at);
        let mut rest = messages.as_str();
        for part in parts {
            let found = rest
                .find(part)
                .unwrap_or_else(|| panic!("call {at} lacks {part:?}: {messages}"));
            rest = &rest[found + part.len()..];
        }
    }

    /// Waits until a tool has written a line into this file.
    pub(crate) async fn file(&self, name: &str) {
        let path = self.place.work().join(name);
        until(name, || {
            std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n'))
        })
        .await;
    }

    /// Returns the processes started from here whose command line contains this text.
    pub(crate) fn running(&self, part: &str) -> Vec<u32> {
        self.place
            .processes()
            .into_iter()
            .filter(|(_, line)| line.contains(part))
            .map(|(pid, _)| pid)
            .collect()
    }
}

/// A running session and the events read so far.
pub(crate) struct Live {
    session: Session,
    read: Vec<Event>,
}

impl Deref for Live {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Live {
    /// Reads until an event yields a value.
    pub(crate) async fn find<T>(&mut self, look: impl Fn(&EventKind) -> Option<T>) -> T {
        self.read
            .extend(read_until(&mut self.session, |kind| look(kind).is_some()).await);
        self.read
            .last()
            .and_then(|event| look(&event.kind))
            .unwrap()
    }

    /// Reads until an event matches.
    pub(crate) async fn until(&mut self, fits: impl Fn(&EventKind) -> bool) {
        self.find(|kind| fits(kind).then_some(())).await;
    }

    /// Reads to the end of a turn.
    pub(crate) async fn turn(&mut self) -> TurnEnded {
        self.find(|kind| {
            if let EventKind::TurnEnded(turn) = kind {
                Some((**turn).clone())
            } else {
                None
            }
        })
        .await
    }

    /// Sends a message, and reads to the end of its turn.
    pub(crate) async fn ask(&mut self, message: &str) -> TurnEnded {
        self.send(message).unwrap();
        self.turn().await
    }

    /// Ends the session, and checks that its stream is valid, no process is left, and no message or
    /// model call was unknown.
    pub(crate) async fn end(self, scene: &Scene) -> Seen {
        self.stop();
        self.ended(scene).await
    }

    /// The same for a session that ends by itself.
    pub(crate) async fn ended(self, scene: &Scene) -> Seen {
        let seen = finish_after(self.read, self.session).await;
        assert_eq!(
            scene.place.processes(),
            [],
            "processes of the session are left"
        );
        let strange = seen.kinds().find(|kind| match kind {
            EventKind::Unreadable(_) => true,
            EventKind::Notice(notice) => notice.code.as_str() == "unknown_message",
            _ => false,
        });
        assert_eq!(strange, None, "the agent printed an unknown message");
        let unmatched: Vec<String> = scene
            .place
            .server
            .unmatched()
            .iter()
            .map(|call| call.body.to_string())
            .collect();
        assert_eq!(
            unmatched, [""; 0],
            "model calls without a rule in the script"
        );
        seen
    }
}

/// Returns the `started` event of each start of the agent.
pub(crate) fn started(seen: &Seen) -> Vec<&Started> {
    seen.kinds()
        .filter_map(|kind| {
            if let EventKind::Started(it) = kind {
                Some(&**it)
            } else {
                None
            }
        })
        .collect()
}

pub(crate) fn is_text(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Text(_))
}
