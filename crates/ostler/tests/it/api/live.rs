//! Live sessions with Ostler's own agent over a model's API.

use ostler::session::RequestError;
use ostler::spec::AfterTurn;
use ostler::{Agents, Host, Spec};

crate::sessions::shared_live_scenarios!(ostler_testkit::scenario::OPENAI_API);

/// An agent that cannot change its model reports that.
#[tokio::test]
async fn a_model_that_cannot_be_changed() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = Spec::new("hello").after_turn(AfterTurn::Wait);
    spec.dir = Some(dir.path().to_owned());
    let mut session = Agents::builtin()
        .get("scripted")
        .unwrap()
        .start(&Host::default(), spec)
        .unwrap();
    let refused = session.remote().set_model("another").await;
    assert!(
        matches!(&refused, Err(RequestError::Refused(it)) if it.code.as_str() == "unsupported"),
        "{refused:?}"
    );
    session.stop();
    while session.next().await.is_some() {}
}
