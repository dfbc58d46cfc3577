//! Tools: the caller's own, and those that work on files and run commands in a workspace.
//!
//! A tool is defined once and offered to each agent in the way it supports. [`tool`] makes one out
//! of a function; the schema for the model comes from the type of its argument.
//!
//! ```
//! use ostler::{Host, tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Sum {
//!     a: i64,
//!     b: i64,
//! }
//!
//! let add = tool("add", "Adds two numbers.", |sum: Sum| async move {
//!     Ok((sum.a + sum.b).to_string())
//! });
//! let host = Host::default().with_tool(add);
//! ```

use std::sync::Arc;

use futures_util::future::BoxFuture;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::ToolOffer;
pub use ostler_tools::*;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// A future that resolves to the output of a tool.
pub type ToolFuture<'a> = BoxFuture<'a, Result<String, ToolError>>;

/// A tool that a model can call: a name, a description, a schema and an implementation.
///
/// ```
/// use ostler::Tool;
/// use ostler::tools::ToolFuture;
///
/// struct Dice;
///
/// impl Tool for Dice {
///     fn name(&self) -> &str {
///         "roll_dice"
///     }
///     fn description(&self) -> &str {
///         "Rolls a die with the given number of sides."
///     }
///     fn schema(&self) -> String {
///         r#"{"type":"object","properties":{"sides":{"type":"integer"}},"required":["sides"]}"#
///             .into()
///     }
///     fn call<'a>(&'a self, input: &'a str) -> ToolFuture<'a> {
///         Box::pin(async move { Ok(format!("You rolled a 4 with {input}.")) })
///     }
/// }
/// ```
pub trait Tool: Send + Sync {
    /// The name that the model uses.
    fn name(&self) -> &str;

    /// What the tool does and when to use it. This is all the model knows about it.
    fn description(&self) -> &str;

    /// The JSON schema of the arguments.
    fn schema(&self) -> String;

    /// Whether the tool changes nothing, so that several calls can run concurrently.
    fn only_reads(&self) -> bool {
        false
    }

    /// Runs the tool with the model's arguments, a JSON object. The output is sent to the model,
    /// and so is an error, so that the model can correct its call. Dropping the future cancels the
    /// call.
    fn call<'a>(&'a self, input: &'a str) -> ToolFuture<'a>;

    /// Runs the tool after a person has approved changes to these files, which an earlier error
    /// listed in [`ToolError::needs_approval`].
    fn call_approved<'a>(&'a self, input: &'a str, _approved: &'a [String]) -> ToolFuture<'a> {
        self.call(input)
    }

    /// Runs the tool and reports progress, for tools that take long.
    fn call_reporting<'a>(&'a self, input: &'a str, _progress: &'a Progress) -> ToolFuture<'a> {
        self.call(input)
    }
}

/// Reports the progress of a tool, as events of the session and, where supported, to the agent.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(String) + Send + Sync>);

impl Progress {
    pub(crate) fn new(report: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }

    /// Reports a progress message.
    pub fn report(&self, message: impl Into<String>) {
        (self.0)(message.into());
    }
}

/// Describes a tool as it is offered to a model.
#[must_use]
pub fn offer(tool: &dyn Tool) -> ToolOffer {
    ToolOffer {
        name: tool.name().to_owned(),
        description: tool.description().to_owned(),
        parameters: RawJson::parse(&tool.schema())
            .unwrap_or_else(|_| RawJson::of(&serde_json::Map::new())),
    }
}

/// Creates a tool from an async function. The schema is derived from the type of its arguments.
///
/// ```
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add {
///     /// The first number.
///     a: i64,
///     /// The second number.
///     b: i64,
/// }
///
/// let tool = ostler::tool("add", "Adds two numbers.", |Add { a, b }| async move {
///     Ok((a + b).to_string())
/// });
/// ```
pub fn tool<A, F, R>(name: &str, description: &str, function: F) -> impl Tool + 'static
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A) -> R + Send + Sync + 'static,
    R: Future<Output = Result<String, ToolError>> + Send + 'static,
{
    let schema = RawJson::of(&schemars::schema_for!(A)).get().to_owned();
    Function {
        name: name.to_owned(),
        description: description.to_owned(),
        schema,
        function,
        arguments: std::marker::PhantomData,
    }
}

struct Function<A, F> {
    name: String,
    description: String,
    schema: String,
    function: F,
    arguments: std::marker::PhantomData<fn(A)>,
}

impl<A, F, R> Tool for Function<A, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A) -> R + Send + Sync + 'static,
    R: Future<Output = Result<String, ToolError>> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn schema(&self) -> String {
        self.schema.clone()
    }

    fn call<'a>(&'a self, input: &'a str) -> ToolFuture<'a> {
        match serde_json::from_str::<A>(input) {
            Ok(arguments) => Box::pin((self.function)(arguments)),
            Err(error) => Box::pin(async move { Err(ToolError::bad_arguments(error.to_string())) }),
        }
    }
}
