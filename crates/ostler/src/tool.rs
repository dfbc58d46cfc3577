//! A tool: something a model can call. It is defined once and bound to every agent in that agent's best way.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ostler_core::raw_json::RawJson;
use ostler_core::spec::ToolOffer;
use ostler_tools::{Code, ToolError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// What a tool came to.
pub type ToolFuture<'a> = Pin<Box<dyn Future<Output = Result<String, ToolError>> + Send + 'a>>;

/// Something a model can call: a name, a description, a schema, and what it does.
///
/// ```
/// use ostler::{Tool, ToolFuture};
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
///         r#"{"type":"object","properties":{"sides":{"type":"integer"}},"required":["sides"]}"#.into()
///     }
///     fn call<'a>(&'a self, input: &'a str) -> ToolFuture<'a> {
///         Box::pin(async move { Ok(format!("You rolled a 4 with {input}.")) })
///     }
/// }
/// ```
pub trait Tool: Send + Sync {
    /// Its name, as the model calls it.
    fn name(&self) -> &str;

    /// What it does and when to use it: all that the model knows about it.
    fn description(&self) -> &str;

    /// The JSON schema of its arguments.
    fn schema(&self) -> String;

    /// Whether it changes nothing, so that several calls can run at once.
    fn only_reads(&self) -> bool {
        false
    }

    /// Runs it with the model's arguments, a JSON object. The text goes to the model; an error does too, so that it can
    /// mend its call. Dropping the future calls it off.
    fn call<'a>(&'a self, input: &'a str) -> ToolFuture<'a>;

    /// The same after a person has approved the change of these files: those that an error of the tool named in
    /// [`ToolError::needs_approval`].
    fn call_approved<'a>(&'a self, input: &'a str, _approved: &'a [String]) -> ToolFuture<'a> {
        self.call(input)
    }

    /// The same for a tool that takes long and can say how far it is.
    fn call_reporting<'a>(&'a self, input: &'a str, _progress: &'a Progress) -> ToolFuture<'a> {
        self.call(input)
    }
}

/// Says how far a tool is. Whoever follows the session sees it, and the agent knows that the tool is alive.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(String) + Send + Sync>);

impl Progress {
    pub(crate) fn new(tell: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Says something about the work under way.
    pub fn report(&self, message: impl Into<String>) {
        (self.0)(message.into());
    }
}

/// A tool as it is described to a model.
pub(crate) fn offer(tool: &dyn Tool) -> ToolOffer {
    ToolOffer {
        name: tool.name().to_owned(),
        description: tool.description().to_owned(),
        parameters: RawJson::parse(&tool.schema())
            .unwrap_or_else(|_| RawJson::of(&serde_json::Map::new())),
    }
}

/// A tool from an async function; the schema of its arguments comes from their type.
///
/// ```
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add {
///     /// The first number.
///     a: i64,
///     /// The second one.
///     b: i64,
/// }
///
/// let tool = ostler::tool("add", "Adds two numbers.", |Add { a, b }| async move { Ok((a + b).to_string()) });
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
        takes: std::marker::PhantomData,
    }
}

struct Function<A, F> {
    name: String,
    description: String,
    schema: String,
    function: F,
    takes: std::marker::PhantomData<fn(A)>,
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
            Err(error) => {
                Box::pin(async move { Err(ToolError::new(Code::BadArguments, error.to_string())) })
            }
        }
    }
}
