//! HTTP: routes, who may use them, and how a connection is served.

mod admit;
mod approvals;
mod body;
mod browser;
mod events;
mod history;
mod idempotency;
mod info;
mod listen;
mod page;
mod sessions;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use futures_util::StreamExt;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use self::listen::{ACCEPT_DELAY, Listening, MAX_CONNECTIONS};
use crate::browser::{Browser, Browsers};
use crate::manager::Manager;
use crate::problem::{Problem, ProblemKind};
use crate::scope::{self, Caller, Operation, Target};
use crate::token::Secret;

/// How long a client may take to send the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of the head of a request.
const MAX_HEAD: usize = 64 * 1024;

/// Maximum number of headers.
const MAX_HEADERS: usize = 64;

/// Header that carries the approval code.
const CODE_HEADER: &str = "ostler-approval-code";

/// Header that carries the page's key.
const KEY_HEADER: &str = "ostler-page-key";

/// Result of a handler.
type Reply = Result<Response, Problem>;

/// How a client reached the daemon.
#[derive(Debug, Clone)]
pub(crate) enum Channel {
    /// The Unix socket, and who the kernel says connected.
    Socket(Caller),
    /// A TCP listener on the loopback interface, and the agent at the other end, if it is one.
    Tcp(Endpoint, Option<Caller>),
}

/// A TCP listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint {
    address: SocketAddr,
}

/// Secrets of the daemon.
#[derive(Debug, Clone)]
pub(crate) struct Secrets {
    /// The token of TCP clients, if the user asked for a listener. Without it, only browsers can
    /// use the listener.
    pub(crate) token: Option<Secret>,
    /// The approval code.
    pub(crate) code: Secret,
}

/// What every connection needs.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) manager: Arc<Manager>,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) browsers: Arc<Browsers>,
    pub(crate) listening: Arc<Listening>,
}

/// State of the routes of one connection.
#[derive(Clone)]
struct Connection {
    app: App,
    channel: Channel,
}

/// Serves one connection until it is closed.
pub(crate) async fn serve_connection<S>(app: App, channel: Channel, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router(Connection { app, channel }));
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection ended");
    }
}

/// Routes by the scope that they need. `openapi` describes them, and a test compares the two.
fn router(connection: Connection) -> Router {
    let needs = |operation: Operation| {
        from_fn_with_state(operation, move |State(operation), request, next| {
            require(operation, request, next)
        })
    };
    let read = Router::new()
        .route("/v1/sessions", get(sessions::list))
        .route("/v1/sessions/{id}", get(sessions::get))
        .route("/v1/sessions/{id}/events", get(events::session))
        .route("/v1/sessions/{id}/history", get(history::history))
        .route("/v1/sessions/{id}/transcript", get(history::transcript))
        .route("/v1/sessions/{id}/changes", get(history::changes))
        .route("/v1/sessions/{id}/timeline", get(history::timeline))
        .route("/v1/sessions/{id}/export", get(history::export))
        .route("/v1/sessions/{id}/result", get(sessions::result))
        .route("/v1/events", get(events::all))
        .route("/v1/approvals", get(approvals::list))
        .route("/v1/approvals/{id}", get(approvals::get))
        .route("/v1/agents", get(info::agents))
        .route("/v1/search", get(info::search))
        .route("/v1/usage", get(info::usage))
        .route("/metrics", get(info::metrics))
        .route("/openapi.json", get(info::openapi))
        .route_layer(needs(Operation::Read));
    let create = Router::new()
        .route("/v1/sessions", post(sessions::create))
        .route_layer(needs(Operation::Create));
    let stop = Router::new()
        .route("/v1/sessions/{id}/stop", post(sessions::stop))
        .route_layer(needs(Operation::Stop));
    let report = Router::new()
        .route("/v1/sessions/{id}/report", post(sessions::report))
        .route_layer(needs(Operation::Report));
    let control = Router::new()
        .route("/v1/sessions/{id}/messages", post(sessions::send))
        .route("/v1/sessions/{id}/interrupt", post(sessions::interrupt))
        .route("/v1/sessions/{id}/pause", post(sessions::pause))
        .route("/v1/sessions/{id}/resume", post(sessions::resume))
        .route("/v1/sessions/{id}/restart", post(sessions::restart))
        .route("/v1/sessions/{id}/fork", post(sessions::fork))
        .route("/v1/browser-session/approve", post(browser::approve))
        .route_layer(needs(Operation::Control));
    let approve = Router::new()
        .route("/v1/approvals/{id}", post(approvals::answer))
        .route_layer(needs(Operation::Approve));
    let admin = Router::new()
        .route("/v1/approval-code", get(info::approval_code))
        .route("/v1/browser-links", post(browser::link))
        .route("/v1/sessions/{id}", delete(sessions::delete))
        .route_layer(needs(Operation::Delete));
    Router::new()
        .merge(read)
        .merge(create)
        .merge(stop)
        .merge(report)
        .merge(control)
        .merge(approve)
        .merge(admin)
        .route("/", get(page::index))
        .route("/assets/{name}", get(page::asset))
        .route("/assets/{version}/{name}", get(page::versioned_asset))
        .route("/v1/browser-session", get(browser::get))
        .route("/v1/browser-session", post(browser::login))
        .route("/v1/browser-session", delete(browser::logout))
        .route("/healthz", get(info::health))
        .route("/readyz", get(info::ready))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(connection.clone(), admit))
        .with_state(connection.app.manager)
}

async fn not_found() -> Problem {
    Problem::new(ProblemKind::NotFound, "there is no such resource")
        .hint("`GET /openapi.json` describes all of them")
}

async fn method_not_allowed() -> Problem {
    Problem::new(
        ProblemKind::MethodNotAllowed,
        "this resource does not support the method",
    )
}

/// Policy of every response that is not a file of the page: it is data, never a document.
const DATA_POLICY: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";

/// Finds out who the caller is. Runs before any route.
async fn admit(State(connection): State<Connection>, mut request: Request, next: Next) -> Response {
    let admitted = match admit::identify(&connection, &request) {
        Ok(admitted) => admitted,
        Err(problem) => return protected(problem.into_response()),
    };
    let (app, browser) = (connection.app, admitted.browser);
    request.extensions_mut().insert(admitted.caller.clone());
    request.extensions_mut().insert(admitted);
    request.extensions_mut().insert(app.clone());
    let response = protected(next.run(request).await);
    match browser {
        Some(browser) => while_logged_in(app, browser, response),
        None => response,
    }
}

/// Adds headers that keep a browser from treating a response as anything but what it is.
fn protected(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, DATA_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Ends the stream of a browser that is logged out.
fn while_logged_in(app: App, browser: Browser, response: Response) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| kind.as_bytes() != b"text/event-stream") {
        return response;
    }
    let ended = async move {
        let now = || app.manager.embedder.now();
        app.browsers.ended(browser.id, now).await;
    };
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(ended))))
}

/// Rejects callers without a scope, and agents that ask for more than theirs.
async fn require(operation: Operation, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>().cloned();
    let app = request.extensions().get::<App>().cloned();
    let (Some(caller), Some(App { manager, .. })) = (caller, app) else {
        return Problem::new(ProblemKind::Internal, "the caller is unknown").into_response();
    };
    let path = request.uri().path();
    if is_allowed(&manager, &caller, operation, path).await {
        return next.run(request).await;
    }
    manager.report_refused(&caller, &format!("{} {path}", request.method()));
    let scope = operation.scope();
    let why = match &caller {
        Caller::Agent { .. } => "an agent cannot control the daemon that runs it".to_owned(),
        Caller::Token { .. } => format!(
            "the token alone does not include the scope `{scope}`: use the Unix socket, or send \
             the approval code that `ostler serve` printed in the header `{CODE_HEADER}`"
        ),
        Caller::Browser { has_key: false, .. } => {
            format!("the cookie alone does not include the scope `{scope}`: send the page's key")
        }
        Caller::Browser { .. } => format!(
            "the scope `{scope}` needs the approval code: enter the one of \
             `ostler serve --print-code`"
        ),
        Caller::User { .. } | Caller::Anonymous => format!("the scope `{scope}` is required"),
    };
    Problem::new(ProblemKind::Forbidden, why).into_response()
}

async fn is_allowed(manager: &Manager, caller: &Caller, operation: Operation, path: &str) -> bool {
    match caller {
        Caller::Agent {
            session: Some(own), ..
        } => {
            let rest = path.strip_prefix("/v1/sessions/");
            let named = rest.and_then(|rest| rest.split('/').next());
            let target = match (named, path) {
                (None, path) if path != "/v1/sessions" => Target::Other,
                (named, _) => manager.target(own, named).await,
            };
            scope::agent_may(operation, target)
        }
        Caller::Agent { session: None, .. } => false,
        caller => scope::allows(caller, operation.scope()),
    }
}
