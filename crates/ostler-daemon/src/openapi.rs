//! OpenAPI 3.1 description of the API, generated from its types and a table of routes.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::api;
use crate::problem::{ProblemBody, ProblemKind};
use crate::scope::Scope;

/// What a successful response contains.
enum Content {
    /// JSON of this type.
    Json(fn(&mut SchemaGenerator) -> Value),
    /// An event stream.
    Events,
    /// Text.
    Text,
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
    body: Option<fn(&mut SchemaGenerator) -> Value>,
    status: u16,
    content: Content,
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn anything(_: &mut SchemaGenerator) -> Value {
    json!({"type": "object"})
}

const NO_QUERY: &[(&str, &str)] = &[];

const SINCE: (&str, &str) = ("since", "The last event that the client has; 0 for all");

/// All routes, in the order of the documentation.
#[rustfmt::skip]
const ROUTES: &[Route] = &[
    Route { method: "post", path: "/v1/sessions", id: "createSession", summary: "Create a session", scope: Some(Scope::Prompt), query: NO_QUERY, body: Some(schema::<api::CreateSession>), status: 201, content: Content::Json(schema::<api::SessionView>) },
    Route { method: "get", path: "/v1/sessions", id: "listSessions", summary: "List sessions, newest first", scope: Some(Scope::Read), query: &[("state", "Only sessions in this state"), ("agent", "Only sessions of this agent"), ("dir", "Only sessions in this directory"), ("label", "Only sessions with this label: `NAME=VALUE`, repeatable"), ("all", "Whether sessions that have ended are listed too"), ("limit", "Maximum number of sessions"), ("cursor", "`next` of the previous page")], body: None, status: 200, content: Content::Json(schema::<api::SessionPage>) },
    Route { method: "get", path: "/v1/sessions/{id}", id: "getSession", summary: "Get a session", scope: Some(Scope::Read), query: NO_QUERY, body: None, status: 200, content: Content::Json(schema::<api::SessionView>) },
    Route { method: "delete", path: "/v1/sessions/{id}", id: "deleteSession", summary: "End a session, and delete its events and raw output", scope: Some(Scope::Admin), query: NO_QUERY, body: None, status: 204, content: Content::Empty },
    Route { method: "post", path: "/v1/sessions/{id}/messages", id: "sendMessage", summary: "Send a message", scope: Some(Scope::Prompt), query: NO_QUERY, body: Some(schema::<api::SendMessage>), status: 202, content: Content::Json(schema::<api::SessionView>) },
    Route { method: "post", path: "/v1/sessions/{id}/interrupt", id: "interruptSession", summary: "Interrupt the current turn", scope: Some(Scope::Prompt), query: NO_QUERY, body: None, status: 200, content: Content::Json(schema::<api::Interrupted>) },
    Route { method: "post", path: "/v1/sessions/{id}/pause", id: "pauseSession", summary: "Hold back messages", scope: Some(Scope::Prompt), query: NO_QUERY, body: None, status: 200, content: Content::Json(schema::<api::SessionView>) },
    Route { method: "post", path: "/v1/sessions/{id}/resume", id: "resumeSession", summary: "Resume a paused session (200), or continue one that has ended in a new session (201)", scope: Some(Scope::Prompt), query: NO_QUERY, body: None, status: 200, content: Content::Json(schema::<api::SessionView>) },
    Route { method: "post", path: "/v1/sessions/{id}/stop", id: "stopSession", summary: "Stop a session gracefully", scope: Some(Scope::Prompt), query: NO_QUERY, body: None, status: 202, content: Content::Json(schema::<api::SessionView>) },
    Route { method: "post", path: "/v1/sessions/{id}/restart", id: "restartSession", summary: "Stop a session, and continue it in a new one", scope: Some(Scope::Prompt), query: NO_QUERY, body: None, status: 201, content: Content::Json(schema::<api::SessionView>) },
    Route { method: "post", path: "/v1/sessions/{id}/fork", id: "forkSession", summary: "Continue a copy of a session", scope: Some(Scope::Prompt), query: NO_QUERY, body: None, status: 201, content: Content::Json(schema::<api::SessionView>) },
    Route { method: "get", path: "/v1/sessions/{id}/events", id: "sessionEvents", summary: "Stream the events of a session: history, then live", scope: Some(Scope::Read), query: &[SINCE], body: None, status: 200, content: Content::Events },
    Route { method: "get", path: "/v1/sessions/{id}/result", id: "sessionResult", summary: "Get the conclusion of the last turn; 202 if it has not ended in time", scope: Some(Scope::Read), query: &[("wait", "How long to wait for it: `60s`, at most 10 minutes")], body: None, status: 200, content: Content::Json(schema::<api::SessionResult>) },
    Route { method: "get", path: "/v1/events", id: "allEvents", summary: "Stream the events of many sessions over one connection", scope: Some(Scope::Read), query: &[("since", "The `id` of the last frame that the client has; from now on if none is given"), ("session", "Only this session; repeatable")], body: None, status: 200, content: Content::Events },
    Route { method: "get", path: "/v1/approvals", id: "listApprovals", summary: "List permission requests, oldest first", scope: Some(Scope::Read), query: &[("state", "Only requests in this state")], body: None, status: 200, content: Content::Json(schema::<api::ApprovalList>) },
    Route { method: "get", path: "/v1/approvals/{id}", id: "getApproval", summary: "Get a permission request", scope: Some(Scope::Read), query: NO_QUERY, body: None, status: 200, content: Content::Json(schema::<api::ApprovalView>) },
    Route { method: "post", path: "/v1/approvals/{id}", id: "answerApproval", summary: "Answer a permission request, once", scope: Some(Scope::Approve), query: NO_QUERY, body: Some(schema::<api::Answer>), status: 200, content: Content::Json(schema::<api::ApprovalView>) },
    Route { method: "get", path: "/v1/agents", id: "listAgents", summary: "List agents, and whether they are ready", scope: Some(Scope::Read), query: NO_QUERY, body: None, status: 200, content: Content::Json(schema::<api::AgentList>) },
    Route { method: "get", path: "/v1/search", id: "search", summary: "Search prompts, replies and tool calls", scope: Some(Scope::Read), query: &[("q", "The text"), ("agent", "Only sessions of this agent"), ("dir", "Only sessions in this directory"), ("limit", "Maximum number of matches")], body: None, status: 200, content: Content::Json(schema::<api::SearchMatches>) },
    Route { method: "get", path: "/v1/usage", id: "usage", summary: "Sum up tokens and cost", scope: Some(Scope::Read), query: &[("by", "`agent`, `model`, `day` or `dir`"), ("since", "Only turns since this time (RFC 3339)")], body: None, status: 200, content: Content::Json(anything) },
    Route { method: "get", path: "/metrics", id: "metrics", summary: "Metrics in the text format of Prometheus", scope: Some(Scope::Read), query: NO_QUERY, body: None, status: 200, content: Content::Text },
    Route { method: "get", path: "/openapi.json", id: "openapi", summary: "This description", scope: Some(Scope::Read), query: NO_QUERY, body: None, status: 200, content: Content::Json(anything) },
    Route { method: "get", path: "/healthz", id: "health", summary: "Whether the daemon is running", scope: None, query: NO_QUERY, body: None, status: 200, content: Content::Text },
    Route { method: "get", path: "/readyz", id: "ready", summary: "Whether the store can be used", scope: None, query: NO_QUERY, body: None, status: 200, content: Content::Text },
];

/// Returns the description.
#[must_use]
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    let problem = schema::<ProblemBody>(&mut generator);
    let mut paths = Map::new();
    for route in ROUTES {
        let operation = operation(route, &mut generator, &problem);
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

fn operation(route: &Route, generator: &mut SchemaGenerator, problem: &Value) -> Value {
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
    let content = match route.content {
        Content::Json(schema) => json!({"application/json": {"schema": schema(generator)}}),
        Content::Events => json!({"text/event-stream": {"schema": {"type": "string"}}}),
        Content::Text => json!({"text/plain": {"schema": {"type": "string"}}}),
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
    if let Some(body) = route.body {
        operation["requestBody"] = json!({
            "required": true,
            "content": {"application/json": {"schema": body(generator)}},
        });
    }
    operation
}
