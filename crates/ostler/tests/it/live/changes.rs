//! Requests of the caller complete by their own reply, whatever else the agent reports.

use ostler::agent::ProcessAgent;
use ostler::dialect::{
    About, Change, Conversation, Dialect, Exit, FromConversation, Launch, Launching, Outbox,
    ToAgent,
};
use ostler::event::{Level, Notice, NoticeCode, RefusalCode};
use ostler::session::RequestError;
use ostler::spec::AfterTurn;
use ostler::{Agent, EventKind, Session, SpecError};

use super::per_turn::claude;
use crate::rig::{Rig, finish_after, read_until};

/// The fake agent's dialect. Its agent only knows the model `known`, answers two changes in the
/// opposite order, and reports each as a notice of its own before it replies.
struct Backwards;

impl Dialect for Backwards {
    fn about(&self) -> About {
        claude().about()
    }

    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        claude().launch(launching)
    }

    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
        Box::new(BackwardsConversation {
            claude: claude().converse(launching),
            changes: Vec::new(),
        })
    }
}

struct BackwardsConversation {
    claude: Box<dyn Conversation>,
    changes: Vec<(u64, Change)>,
}

impl Conversation for BackwardsConversation {
    fn on_start(&mut self, out: &mut Outbox) {
        self.claude.on_start(out);
    }

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        let ToAgent::Change { id, change } = message else {
            return self.claude.send(message, out);
        };
        let message = format!("asked for {}", change.value());
        out.event(Notice::new(Level::Info, NoticeCode::ModelChanged, message));
        self.changes.push((id, change));
        if self.changes.len() == 2 {
            for (id, change) in self.changes.drain(..).rev() {
                let error = (change.value() != "known").then(|| "no such model".to_owned());
                out.push(FromConversation::Changed { id, error });
            }
        }
    }

    fn on_line(&mut self, line: &str, out: &mut Outbox) {
        self.claude.on_line(line, out);
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        self.claude.on_exit(exit, out);
    }
}

async fn idle_session(rig: &mut Rig) -> (Session, Vec<ostler::Event>) {
    rig.spec.after_turn = AfterTurn::Wait;
    let mut session = ProcessAgent::new(&Backwards)
        .start(&rig.host, rig.spec.clone())
        .unwrap();
    let read = read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await;
    (session, read)
}

// The first of two changes is rejected and the second accepted, in the opposite order.
#[tokio::test]
async fn concurrent_changes_each_get_their_own_reply() {
    let mut rig = Rig::new("read-user\ninit\ntext hi\nresult hi\nread-until-eof");
    let (session, read) = idle_session(&mut rig).await;
    let remote = session.remote();
    let (first, second) = tokio::join!(remote.set_model("unknown"), remote.set_model("known"));
    assert_eq!(second, Ok(()));
    let Err(RequestError::Refused(refused)) = first else {
        panic!("the unknown model was accepted: {first:?}");
    };
    assert_eq!(
        (refused.code, refused.why.as_str()),
        (RefusalCode::Rejected, "no such model")
    );
    remote.stop();
    finish_after(read, session).await;
}
