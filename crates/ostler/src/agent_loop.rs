//! The agent loop: a model, tools and instructions, run until the task is done or a condition stops
//! it.
//!
//! ```
//! use ostler::adapter::ApiModel;
//! use ostler::agent_loop::{Ending, Loop};
//! use ostler::Host;
//! use ostler::testing::Script;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let replies = "[[reply]]\ntext = \"Forty.\"\n[[reply]]\ntext = \"Forty-two.\"";
//! let model = ApiModel::scripted("scripted", Script::parse(replies).expect("a valid script"));
//! let agent = Loop::new(model).bare().max_iterations(5).verify(|answer: String| async move {
//!     if answer.contains("two") { Ok(()) } else { Err(format!("{answer} is not enough").into()) }
//! });
//! let task = "What is six times seven?";
//! let result = agent.run(&Host::default(), task).await.expect("valid settings");
//! assert!(matches!(result.ending, Ending::Completed));
//! assert_eq!((&*result.text, result.iterations), ("Forty-two.", 2));
//! # });
//! ```
//!
//! A loop is an [`Agent`]: its sessions have the same events, limits, permissions and log.

mod command;
mod result;

use std::sync::Arc;
use std::time::Duration;

use ostler_core::dialect::Dialect;
use ostler_core::names::named;
use ostler_core::spec::{AfterTurn, Denials, Settings, Spec, SpecError, keys};
use ostler_dialects::tool_loop::ToolLoop;

use crate::adapter::{AdapterModel, ModelAdapter};
use crate::agent::{Agent, ApiAgent, ProbeFuture};
use crate::hooks::{Hooks, Middleware, Person, Verify};
use crate::host::Host;
use crate::probe::Probed;
use crate::session::Session;
use crate::tools::Tool;

pub use command::{CommandCheck, MissingProgram};
pub use ostler_model::AWAITING_APPROVAL;
pub use result::{ApprovalError, Condition, Ending, LoopResult, Waiting};

named! {
    /// How much a loop does without approval.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum Mode {
        /// Everything that the policy allows.
        #[default]
        Auto = "auto",
        /// Reads only, and describes what it would do.
        Plan = "plan",
        /// Reads freely. A person approves every change first, through the host's permission
        /// handler. Without a handler, the result [needs input](Ending::NeedsInput).
        Approve = "approve",
    }
}

/// A model, its tools, and the conditions under which it runs. See the [module](self).
#[must_use]
#[derive(Clone)]
pub struct Loop {
    model: Arc<dyn ModelAdapter>,
    tools: Vec<Arc<dyn Tool>>,
    bare: bool,
    around: Hooks,
    settings: Settings,
    time: Option<Duration>,
}

/// Declares methods that set a number.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $key:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(self, number: $type) -> Self {
            self.set($key, &number.to_string())
        }
    )*};
}

impl Loop {
    /// Creates a loop around a model, with the workspace tools: files, and commands in the sandbox.
    pub fn new(model: impl ModelAdapter + 'static) -> Self {
        Self::around(Arc::new(model))
    }

    /// Creates a loop around a shared model.
    pub fn around(model: Arc<dyn ModelAdapter>) -> Self {
        Self {
            model,
            tools: Vec::new(),
            bare: false,
            around: Hooks::default(),
            settings: Settings::default(),
            time: None,
        }
    }

    /// Removes the workspace tools.
    pub fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Sets the instructions for the model. They replace the default ones.
    pub fn instructions(self, text: &str) -> Self {
        self.set(keys::SYSTEM_PROMPT, text)
    }

    /// Adds a check of the result. If it fails, its reason goes back to the model.
    pub fn verify(mut self, check: impl Verify + 'static) -> Self {
        self.around.verify = Some(Arc::new(check));
        self
    }

    /// Adds a hook around each iteration.
    pub fn middleware(mut self, hook: impl Middleware + 'static) -> Self {
        self.around.middleware.push(Arc::new(hook));
        self
    }

    /// Lets the model ask a person. Without one, the result [needs input](Ending::NeedsInput).
    pub fn may_ask(mut self) -> Self {
        self.around.asks = true;
        self
    }

    /// Lets the model ask this person.
    pub fn person(mut self, person: impl Person + 'static) -> Self {
        self.around.person = Some(Arc::new(person));
        self.may_ask()
    }

    /// Sets how much the loop does without approval.
    pub fn mode(self, mode: Mode) -> Self {
        self.set("mode", mode.as_str())
    }

    /// Sets the maximum duration of a turn.
    pub fn max_time(mut self, most: Duration) -> Self {
        self.time = Some(most);
        self
    }

    /// Sets the maximum duration of one tool call.
    pub fn tool_timeout(mut self, longest: Duration) -> Self {
        self.around.tool_timeout = Some(longest);
        self
    }

    numbers! {
        /// Sets the maximum number of model replies in a turn. The default is 100.
        max_iterations: u32 = keys::MAX_TURNS;
        /// Sets the maximum number of tool calls in a turn.
        max_tool_calls: u32 = "max_tool_calls";
        /// Sets the maximum number of input tokens.
        max_input_tokens: u32 = "max_input_tokens";
        /// Sets the maximum number of output tokens.
        max_output_tokens: u32 = "max_output_tokens";
        /// Sets the maximum cost in US dollars. If the cost of the model is unknown, the loop
        /// stops.
        max_cost_usd: f64 = keys::MAX_BUDGET_USD;
        /// Sets the maximum number of consecutive failed steps. The default is 3.
        max_errors: u32 = "max_errors";
        /// Sets the size of the model's context window. Before it is full, old tool results are
        /// shortened and old messages are summarised.
        context_window: u32 = "context_window";
    }

    fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.set(key, value);
        self
    }

    /// Runs a task until it ends.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid; nothing was started then. A loop that fails is not
    /// an error: its result has the reason.
    pub async fn run(&self, host: &Host, task: &str) -> Result<LoopResult, SpecError> {
        self.run_with(host, Spec::new(task.to_owned())).await
    }

    /// Runs a task with a directory, a policy or other settings.
    ///
    /// # Errors
    /// The same as for [`Loop::run`].
    pub async fn run_with(&self, host: &Host, spec: Spec) -> Result<LoopResult, SpecError> {
        // The session waits for more, so that a question can be answered.
        let session = self.start(host, spec.after_turn(AfterTurn::Wait))?;
        Ok(result::of_turn(session, Vec::new()).await)
    }

    /// Returns the agent that runs the loop for this spec.
    fn agent(&self, spec: &Spec) -> ApiAgent {
        let limits = [
            keys::MAX_BUDGET_USD,
            "max_input_tokens",
            "max_output_tokens",
        ];
        let counted = spec.limits.budget_tokens.is_some()
            || spec.limits.budget_usd.is_some()
            || limits.iter().any(|key| spec.value(key).is_some());
        // Limits are enforced between two replies, so each reply must report its usage.
        let each = counted.then(|| self.model.with_usage_per_reply());
        let model = each.flatten().unwrap_or_else(|| self.model.clone());
        let mut around = self.around.clone();
        let seconds = spec.value("tool_timeout");
        let seconds = seconds.and_then(|seconds| seconds.parse().ok());
        around.tool_timeout = seconds.map(Duration::from_secs).or(around.tool_timeout);
        ApiAgent::around(&ToolLoop, Arc::new(AdapterModel::new(model)), around)
            .bare(self.bare)
            .with_tools(&self.tools)
    }
}

impl Agent for Loop {
    /// Always available, but only used when it is named.
    fn is_found(&self, _: &Host, _: &Spec) -> bool {
        false
    }

    fn probe<'a>(&'a self, _: &'a Host, _: &'a Spec) -> ProbeFuture<'a> {
        Box::pin(async { Probed::built_in() })
    }

    fn start(&self, host: &Host, mut spec: Spec) -> Result<Session, SpecError> {
        // Values in the spec win.
        for (key, values) in self.settings.iter() {
            if spec.values(key).is_none() {
                spec.set(key, values)?;
            }
        }
        spec.limits.wall = self.time.or(spec.limits.wall);
        // The model has its own timeouts. A tool or a check may take any time.
        spec.limits.idle = None;
        spec.denials = Denials::Tolerate;
        self.agent(&spec).start(host, spec)
    }

    fn dialect(&self) -> &'static dyn Dialect {
        &ToolLoop
    }
}
