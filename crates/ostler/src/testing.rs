//! Agents without a model, for tests: scripted replies, fixed events, and recordings.
//!
//! ```
//! use ostler::agent::ApiAgent;
//! use ostler::testing::Script;
//! use ostler::{Agent, Cause, Host, Spec};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let agent = ApiAgent::playing(Script::parse("[[reply]]\ntext = 'Hello.'").unwrap());
//! let run = agent.start(&Host::default(), Spec::new("hi")).unwrap().wait().await;
//! assert_eq!((run.text(), run.outcome().cause), ("Hello.", Cause::Completed));
//! # });
//! ```

pub use crate::agent::MockAgent;
pub use crate::mock::{Events, EventsError, Step};
pub use crate::model::{Script, ScriptError};
pub use crate::replay::Replay;
