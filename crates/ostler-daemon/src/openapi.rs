//! OpenAPI 3.1 description of the API, generated from its types and a table of routes.

use ostler_page::changes::Changes;
use ostler_page::page::TranscriptPage;
use ostler_page::timeline::Timeline;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::api;
use crate::problem::{ProblemBody, ProblemKind};
use crate::scope::Scope;

/// What a successful response contains.
enum Content {
    /// JSON with this schema.
    Json(Value),
    /// Text of this type.
    Text(&'static str),
    /// Nothing.
    Empty,
}

/// A route.
struct Route {
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    scope: Option<Scope>,
    query: &'static [(&'static str, &'static str)],
    body: Option<Value>,
    status: u16,
    content: Content,
}

impl Route {
    fn new(method: &'static str, path: &'static str, id: &'static str) -> Self {
        Self {
            method,
            path,
            id,
            summary: "",
            scope: Some(Scope::Read),
            query: &[],
            body: None,
            status: 200,
            content: Content::Empty,
        }
    }

    /// Says what it does.
    fn does(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    fn needs(self, scope: impl Into<Option<Scope>>) -> Self {
        Self {
            scope: scope.into(),
            ..self
        }
    }

    fn query(self, query: &'static [(&'static str, &'static str)]) -> Self {
        Self { query, ..self }
    }

    fn body(self, schema: Value) -> Self {
        Self {
            body: Some(schema),
            ..self
        }
    }

    fn returns(self, status: u16, content: Content) -> Self {
        Self {
            status,
            content,
            ..self
        }
    }
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

/// Returns the routes that create and control sessions.
fn control_routes(generator: &mut SchemaGenerator) -> Vec<Route> {
    let session = schema::<api::SessionView>(generator);
    let session = || Content::Json(session.clone());
    let create = schema::<api::CreateSession>(generator);
    let send = schema::<api::SendMessage>(generator);
    let report = schema::<api::Report>(generator);
    let mut json = |of: fn(&mut SchemaGenerator) -> Value| Content::Json(of(generator));
    vec![
        Route::new("post", "/v1/sessions", "createSession")
            .does("Create a session")
            .needs(Scope::Prompt)
            .body(create)
            .returns(201, session()),
        Route::new("get", "/v1/sessions", "listSessions")
            .does("List sessions, newest first")
            .query(&[
                ("state", "Only sessions in this state"),
                ("agent", "Only sessions of this agent"),
                ("dir", "Only sessions in this directory"),
                (
                    "label",
                    "Only sessions with this label: `NAME=VALUE`, repeatable",
                ),
                (
                    "dir_contains",
                    "Only sessions in a directory with this text in its path",
                ),
                (
                    "label_contains",
                    "Only sessions with a label that has this text in `NAME=VALUE`",
                ),
                ("all", "Whether sessions that have ended are listed too"),
                (
                    "q",
                    "Only sessions with this text in their title, name, directory, id or model",
                ),
                (
                    "waiting",
                    "Whether only sessions with a pending permission request are listed",
                ),
                (
                    "parent",
                    "Only sessions that the agent of this session started",
                ),
                ("limit", "Maximum number of sessions"),
                ("cursor", "`next` of the previous page"),
            ])
            .returns(200, json(schema::<api::SessionPage>)),
        Route::new("get", "/v1/sessions/{id}", "getSession")
            .does("Get a session")
            .returns(200, session()),
        Route::new("delete", "/v1/sessions/{id}", "deleteSession")
            .does("End a session, and delete its events and raw output")
            .needs(Scope::Admin)
            .returns(204, Content::Empty),
        Route::new("post", "/v1/sessions/{id}/messages", "sendMessage")
            .does("Send a message")
            .needs(Scope::Prompt)
            .body(send)
            .returns(202, session()),
        Route::new("post", "/v1/sessions/{id}/interrupt", "interruptSession")
            .does("Interrupt the current turn")
            .needs(Scope::Prompt)
            .returns(200, json(schema::<api::Interrupted>)),
        Route::new("post", "/v1/sessions/{id}/pause", "pauseSession")
            .does("Hold back messages")
            .needs(Scope::Prompt)
            .returns(200, session()),
        Route::new("post", "/v1/sessions/{id}/resume", "resumeSession")
            .does("Resume a paused session (200), or continue one that has ended in a new session (201)")
            .needs(Scope::Prompt)
            .returns(200, session()),
        Route::new("post", "/v1/sessions/{id}/stop", "stopSession")
            .does("Stop a session gracefully")
            .needs(Scope::Prompt)
            .returns(202, session()),
        Route::new("post", "/v1/sessions/{id}/report", "report")
            .does("Add a notice to a session; an agent can report to its own")
            .needs(Scope::Agent)
            .body(report)
            .returns(202, session()),
        Route::new("post", "/v1/sessions/{id}/restart", "restartSession")
            .does("Stop a session, and continue it in a new one")
            .needs(Scope::Prompt)
            .returns(201, session()),
        Route::new("post", "/v1/sessions/{id}/fork", "forkSession")
            .does("Continue a copy of a session")
            .needs(Scope::Prompt)
            .returns(201, session()),
    ]
}

/// Returns the routes that read the events of sessions.
fn event_routes(generator: &mut SchemaGenerator) -> Vec<Route> {
    let mut json = |of: fn(&mut SchemaGenerator) -> Value| Content::Json(of(generator));
    vec![
        Route::new("get", "/v1/sessions/{id}/events", "sessionEvents")
            .does("Stream the events of a session: history, then live")
            .query(&[("since", "The last event that the client has; 0 for all")])
            .returns(200, Content::Text("text/event-stream")),
        Route::new("get", "/v1/sessions/{id}/history", "sessionHistory")
            .does("Get a page of a session's events")
            .query(&[
                ("after", "Only events after this number"),
                ("before", "Only events before this number; the last of them"),
                (
                    "limit",
                    "Maximum number of events: 200 by default, at most 1000",
                ),
            ])
            .returns(200, json(schema::<api::HistoryPage>)),
        Route::new("get", "/v1/sessions/{id}/transcript", "sessionTranscript")
            .does("Get a page of a session's transcript: events condensed into items")
            .query(&[
                ("after", "The page starts after this event; 0 by default"),
                ("before", "The page ends before this event"),
                ("around", "The page contains this event"),
                (
                    "limit",
                    "Maximum number of items: 200 by default, at most 500",
                ),
            ])
            .returns(200, json(schema::<TranscriptPage>)),
        Route::new("get", "/v1/sessions/{id}/changes", "sessionChanges")
            .does("Get the files that a session changed, composed from its edits")
            .returns(200, json(schema::<Changes>)),
        Route::new("get", "/v1/sessions/{id}/timeline", "sessionTimeline")
            .does("Get turns, tools, waits and tokens of a session over time")
            .returns(200, json(schema::<Timeline>)),
        Route::new("get", "/v1/sessions/{id}/export", "exportSession")
            .does("Download a session as a document")
            .query(&[(
                "format",
                "`html` (one file that opens without a server), `md`, or `json` (JSON lines)",
            )])
            .returns(200, Content::Text("text/html")),
        Route::new("get", "/v1/sessions/{id}/result", "sessionResult")
            .does("Get the conclusion of the last turn; 202 if it has not ended in time")
            .query(&[("wait", "How long to wait for it: `60s`, at most 10 minutes")])
            .returns(200, json(schema::<api::SessionResult>)),
        Route::new("get", "/v1/events", "allEvents")
            .does("Stream the events of many sessions over one connection")
            .query(&[
                (
                    "since",
                    "The `id` of the last frame that the client has; from now on if none is given",
                ),
                ("session", "Only this session; repeatable"),
            ])
            .returns(200, Content::Text("text/event-stream")),
    ]
}

/// Returns the routes that answer permission requests, and inform.
fn other_routes(generator: &mut SchemaGenerator) -> Vec<Route> {
    let object = || Content::Json(json!({"type": "object"}));
    let answer = schema::<api::Answer>(generator);
    let mut json = |of: fn(&mut SchemaGenerator) -> Value| Content::Json(of(generator));
    vec![
        Route::new("get", "/v1/approvals", "listApprovals")
            .does("List permission requests, oldest first; decided ones, newest first")
            .query(&[
                ("state", "`all`, `decided`, or the state of the requests"),
                ("session", "Only requests of this session"),
                ("limit", "Maximum number of requests"),
                ("cursor", "`next` of the previous page"),
            ])
            .returns(200, json(schema::<api::ApprovalList>)),
        Route::new("get", "/v1/approvals/{id}", "getApproval")
            .does("Get a permission request")
            .returns(200, json(schema::<api::ApprovalView>)),
        Route::new("post", "/v1/approvals/{id}", "answerApproval")
            .does("Answer a permission request, once")
            .needs(Scope::Approve)
            .body(answer)
            .returns(200, json(schema::<api::ApprovalView>)),
        Route::new("get", "/v1/approval-code", "approvalCode")
            .does("Get the approval code for TCP clients; only on the Unix socket")
            .needs(Scope::Admin)
            .returns(200, json(schema::<api::ApprovalCode>)),
        Route::new("get", "/v1/agents", "listAgents")
            .does("List agents, and whether they are ready")
            .query(&[(
                "fresh",
                "Whether to probe them now; otherwise the result may be a minute old",
            )])
            .returns(200, json(schema::<api::AgentList>)),
        Route::new("get", "/v1/search", "search")
            .does("Search prompts, replies, reasoning, tool calls and their output, newest first")
            .query(&[
                (
                    "q",
                    "Words and `\"quoted phrases\"`, all of which are in the text",
                ),
                ("agent", "Only sessions of this agent"),
                ("dir", "Only sessions in this directory"),
                (
                    "speaker",
                    "Only texts of `user`, `agent`, `thinking`, `tool` or `result`",
                ),
                ("since", "Only texts since this time (RFC 3339)"),
                ("until", "Only texts before this time (RFC 3339)"),
                ("limit", "Maximum number of matches"),
                ("cursor", "`next` of the previous page"),
            ])
            .returns(200, json(schema::<api::SearchMatches>)),
        Route::new("get", "/v1/usage", "usage")
            .does("Sum up tokens and cost")
            .query(&[
                ("by", "`agent`, `model`, `day` or `dir`"),
                ("split", "Second key, by which each group is split"),
                ("since", "Only turns since this time (RFC 3339)"),
                ("until", "Only turns before this time (RFC 3339)"),
                (
                    "tz",
                    "Offset from UTC of the days: `+02:00`; UTC if none is given",
                ),
            ])
            .returns(200, json(schema::<api::UsageTable>)),
        Route::new("get", "/metrics", "metrics")
            .does("Metrics in the text format of Prometheus")
            .returns(200, Content::Text("text/plain")),
        Route::new("get", "/openapi.json", "openapi")
            .does("This description")
            .returns(200, object()),
        Route::new("get", "/healthz", "health")
            .does("Whether the daemon is running")
            .needs(None)
            .returns(200, Content::Text("text/plain")),
        Route::new("get", "/readyz", "ready")
            .does("Whether the store can be used")
            .needs(None)
            .returns(200, Content::Text("text/plain")),
    ]
}

/// Returns the routes that log a browser in.
fn browser_routes(generator: &mut SchemaGenerator) -> Vec<Route> {
    let login = schema::<api::BrowserLogin>(generator);
    let code = schema::<api::EnterCode>(generator);
    let mut json = |of: fn(&mut SchemaGenerator) -> Value| Content::Json(of(generator));
    vec![
        Route::new("post", "/v1/browser-links", "createBrowserLink")
            .does("Create a one-time link that logs a browser in; only on the Unix socket")
            .needs(Scope::Admin)
            .returns(201, json(schema::<api::BrowserLink>)),
        Route::new("get", "/v1/browser-session", "getBrowserSession")
            .does("What this browser may do")
            .needs(None)
            .returns(200, json(schema::<api::BrowserSessionView>)),
        Route::new("post", "/v1/browser-session", "createBrowserSession")
            .does("Log a browser in with the code of a link: sets a cookie")
            .needs(None)
            .body(login)
            .returns(200, json(schema::<api::PageKey>)),
        Route::new("delete", "/v1/browser-session", "deleteBrowserSession")
            .does("Log this browser out")
            .needs(None)
            .returns(204, Content::Empty),
        Route::new(
            "post",
            "/v1/browser-session/approve",
            "approveBrowserSession",
        )
        .does("Let this browser approve, with the approval code")
        .needs(Scope::Prompt)
        .body(code)
        .returns(204, Content::Empty),
    ]
}

/// Returns the description.
#[must_use]
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    let problem = schema::<ProblemBody>(&mut generator);
    let mut paths = Map::new();
    let control = control_routes(&mut generator);
    let events = event_routes(&mut generator);
    let other = other_routes(&mut generator);
    let browser = browser_routes(&mut generator);
    for route in control
        .into_iter()
        .chain(events)
        .chain(other)
        .chain(browser)
    {
        let operation = operation(&route, &problem);
        let entry = paths.entry(route.path).or_insert_with(|| json!({}));
        entry[route.method] = operation;
    }
    let causes: Vec<Value> = ProblemKind::ALL
        .into_iter()
        .map(|kind| {
            json!({"cause": kind.as_str(), "code": kind.code(), "status": kind.status().as_u16()})
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Ostler daemon",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Sessions of coding agents that outlive their client. See docs/daemon.md.",
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
        "x-problems": causes,
    })
}

fn operation(route: &Route, problem: &Value) -> Value {
    let path = route.path.contains("{id}").then(
        || json!({"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}),
    );
    let query = route.query.iter().map(|(name, description)| {
        json!({
            "name": name, "in": "query", "description": description,
            "schema": {"type": "string"},
        })
    });
    let parameters: Vec<Value> = path.into_iter().chain(query).collect();
    let content = match &route.content {
        Content::Json(schema) => json!({"application/json": {"schema": schema}}),
        Content::Text(kind) => json!({(*kind): {"schema": {"type": "string"}}}),
        Content::Empty => Value::Null,
    };
    let mut success = json!({"description": "Success"});
    if !content.is_null() {
        success["content"] = content;
    }
    let failure = json!({
        "description": "A problem (RFC 9457)",
        "content": {"application/problem+json": {"schema": problem}},
    });
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {(route.status.to_string()): success, "default": failure},
    });
    if let Some(scope) = route.scope {
        operation["x-scope"] = scope.as_str().into();
    }
    if let Some(body) = &route.body {
        operation["requestBody"] = json!({
            "required": true,
            "content": {"application/json": {"schema": body}},
        });
    }
    operation
}
