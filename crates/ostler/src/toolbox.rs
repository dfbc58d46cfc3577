//! Toolbox: the tools of an API agent, both the workspace's and the caller's.

use std::sync::Arc;

use ostler_tools::catalog::{FILE_TOOLS, ToolInfo, ToolOutput};
use ostler_tools::{Code, ToolError, Workspace};

use crate::command::CommandRunner;
use crate::tools::{Tool, ToolFuture};

/// The tools available to a model.
#[derive(Clone, Default)]
pub(crate) struct Toolbox(Vec<Arc<dyn Tool>>);

impl Toolbox {
    /// Creates the workspace's tools: file tools and commands.
    pub(crate) fn workspace(workspace: &Arc<Workspace>, runner: CommandRunner) -> Self {
        let files = FILE_TOOLS.iter().map(|info| {
            let tool: Arc<dyn Tool> = Arc::new(FileTool {
                info: info.clone(),
                workspace: workspace.clone(),
            });
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

    /// Retains only the tools for whose name `keep` returns true.
    pub(crate) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|tool| keep(tool.name()));
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.iter().find(|tool| tool.name() == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.0.iter()
    }

    /// Returns the error for an unknown tool name.
    pub(crate) fn unknown(&self, name: &str) -> ToolError {
        let names: Vec<&str> = self.0.iter().map(|tool| tool.name()).collect();
        let message = match &names[..] {
            [] => format!("there is no tool {name:?}; no tools are available"),
            names => format!(
                "there is no tool {name:?}; the tools are: {}",
                names.join(", ")
            ),
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
        self.call_approved(input, &[])
    }

    fn call_approved<'a>(&'a self, input: &'a str, approved: &'a [String]) -> ToolFuture<'a> {
        let (name, workspace, input) = (self.info.name, self.workspace.clone(), input.to_owned());
        let approved = approved.to_vec();
        // On a blocking thread: a search of a large tree takes long, and a network drive can hang.
        let work =
            tokio::task::spawn_blocking(move || workspace.call_approved(name, &input, &approved));
        Box::pin(async move {
            let panicked = |_| Err(ToolError::io("the tool panicked; this is a bug in Ostler"));
            work.await
                .unwrap_or_else(panicked)
                .map(|reply: ToolOutput| reply.text)
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
