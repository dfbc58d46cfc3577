//! A tool: something a model can call. The workspace's own tools are made here, and users bring theirs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ostler_tools::catalog::{FILE_TOOLS, Reply, ToolInfo};
use ostler_tools::{Code, ToolError, Workspace};

use crate::command::CommandRunner;

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
}

/// The tools that a model has.
#[derive(Clone, Default)]
pub(crate) struct Toolbox(Vec<Arc<dyn Tool>>);

impl Toolbox {
    /// The tools of a workspace: its files, and commands.
    pub(crate) fn workspace(workspace: &Arc<Workspace>, runner: CommandRunner) -> Self {
        let files = FILE_TOOLS.iter().map(|info| {
            let tool: Arc<dyn Tool> = Arc::new(FileTool { info: info.clone(), workspace: workspace.clone() });
            tool
        });
        let mut tools: Vec<Arc<dyn Tool>> = files.collect();
        tools.push(Arc::new(CommandTool(runner)));
        Self(tools)
    }

    /// Adds a tool, or replaces the one of the same name.
    pub(crate) fn add(&mut self, tool: Arc<dyn Tool>) {
        self.0.retain(|known| known.name() != tool.name());
        self.0.push(tool);
    }

    /// Keeps the tools for which `keep` says so.
    pub(crate) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|tool| keep(tool.name()));
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.iter().find(|tool| tool.name() == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.0.iter()
    }

    /// The error for a name that no tool has.
    pub(crate) fn unknown(&self, name: &str) -> ToolError {
        let names: Vec<&str> = self.0.iter().map(|tool| tool.name()).collect();
        let message = match &names[..] {
            [] => format!("there is no tool {name:?}; there are no tools at all"),
            names => format!("there is no tool {name:?}; the tools are: {}", names.join(", ")),
        };
        ToolError::new(Code::UnknownTool, message)
    }
}

/// One of the workspace's file tools.
struct FileTool {
    info: ToolInfo,
    workspace: Arc<Workspace>,
}

impl Tool for FileTool {
    fn name(&self) -> &str {
        self.info.name
    }

    fn description(&self) -> &str {
        self.info.description
    }

    fn schema(&self) -> String {
        (self.info.schema)()
    }

    fn only_reads(&self) -> bool {
        self.info.only_reads
    }

    fn call<'a>(&'a self, input: &'a str) -> ToolFuture<'a> {
        let (name, workspace, input) = (self.info.name, self.workspace.clone(), input.to_owned());
        // A search of a large tree takes a while, and a network drive hangs: never on the thread that reads the model.
        let work = tokio::task::spawn_blocking(move || workspace.call(name, &input));
        Box::pin(async move {
            let lost = |_| Err(ToolError::new(Code::Io, "the tool broke down; this is a fault in Ostler"));
            work.await.unwrap_or_else(lost).map(|reply: Reply| reply.text)
        })
    }
}

/// The tool that runs commands.
struct CommandTool(CommandRunner);

impl Tool for CommandTool {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn description(&self) -> &str {
        self.0.description()
    }

    fn schema(&self) -> String {
        self.0.schema()
    }

    fn call<'a>(&'a self, input: &'a str) -> ToolFuture<'a> {
        Box::pin(async move { self.0.call(input).await.map(|reply| reply.text) })
    }
}
