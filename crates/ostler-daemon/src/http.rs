//! HTTP: routes, who may use them, and how a connection is served.

mod approvals;
mod body;
mod events;
mod idempotency;
mod info;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::manager::Manager;
use crate::problem::{Problem, ProblemKind};
use crate::scope::{self, Caller, Scope};
use crate::token::Secret;

/// How long a client may take to send the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of the head of a request.
const MAX_HEAD: usize = 64 * 1024;

/// Maximum number of headers.
const MAX_HEADERS: usize = 64;

/// Header that carries the approval code.
const CODE_HEADER: &str = "ostler-approval-code";

/// Result of a handler.
type Reply = Result<Response, Problem>;

/// How a client reached the daemon.
#[derive(Debug, Clone)]
pub(crate) enum Channel {
    /// The Unix socket, and who the kernel says connected.
    Socket(Caller),
    /// A TCP listener on this port of the loopback interface.
    Tcp(u16),
}

/// Secrets of the TCP listener.
#[derive(Debug, Clone)]
pub(crate) struct Secrets {
    pub(crate) token: Secret,
    pub(crate) code: Secret,
}

/// What every connection needs.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) manager: Arc<Manager>,
    /// Without them, no TCP connection is accepted.
    pub(crate) secrets: Option<Arc<Secrets>>,
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
    let needs = |scope: Scope| {
        from_fn_with_state(scope, move |State(scope), request, next| {
            require(scope, request, next)
        })
    };
    let read = Router::new()
        .route("/v1/sessions", get(sessions::list))
        .route("/v1/sessions/{id}", get(sessions::get))
        .route("/v1/sessions/{id}/events", get(events::session))
        .route("/v1/sessions/{id}/result", get(sessions::result))
        .route("/v1/events", get(events::all))
        .route("/v1/approvals", get(approvals::list))
        .route("/v1/approvals/{id}", get(approvals::get))
        .route("/v1/agents", get(info::agents))
        .route("/v1/search", get(info::search))
        .route("/v1/usage", get(info::usage))
        .route("/metrics", get(info::metrics))
        .route("/openapi.json", get(info::openapi))
        .route_layer(needs(Scope::Read));
    let prompt = Router::new()
        .route("/v1/sessions", post(sessions::create))
        .route("/v1/sessions/{id}/messages", post(sessions::send))
        .route("/v1/sessions/{id}/interrupt", post(sessions::interrupt))
        .route("/v1/sessions/{id}/pause", post(sessions::pause))
        .route("/v1/sessions/{id}/resume", post(sessions::resume))
        .route("/v1/sessions/{id}/stop", post(sessions::stop))
        .route("/v1/sessions/{id}/restart", post(sessions::restart))
        .route("/v1/sessions/{id}/fork", post(sessions::fork))
        .route_layer(needs(Scope::Prompt));
    let approve = Router::new()
        .route("/v1/approvals/{id}", post(approvals::answer))
        .route_layer(needs(Scope::Approve));
    let admin = Router::new()
        .route("/v1/approval-code", get(info::approval_code))
        .route("/v1/sessions/{id}", delete(sessions::delete))
        .route_layer(needs(Scope::Admin));
    Router::new()
        .merge(read)
        .merge(prompt)
        .merge(approve)
        .merge(admin)
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

/// Finds out who the caller is. Runs before any route.
async fn admit(State(connection): State<Connection>, mut request: Request, next: Next) -> Response {
    let caller = match identify(&connection, &request) {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(connection.app.secrets);
    request.extensions_mut().insert(connection.app.manager);
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

fn identify(connection: &Connection, request: &Request) -> Result<Caller, Problem> {
    let headers = request.headers();
    check_origin(&connection.channel, headers)?;
    let query = request.uri().query().unwrap_or_default();
    let names = query.split('&').filter_map(|pair| pair.split('=').next());
    if names
        .into_iter()
        .any(|name| matches!(name, "token" | "access_token"))
    {
        let why = "credentials are not accepted in a URL";
        return Err(Problem::new(ProblemKind::Unauthenticated, why)
            .hint("send the token in the header `Authorization: Bearer …`"));
    }
    let path = request.uri().path();
    body::decode(path)?; // routes match decoded paths
    match &connection.channel {
        Channel::Socket(caller) => Ok(caller.clone()),
        // Says only that a daemon is there.
        Channel::Tcp(_) if path == "/healthz" && request.method() == Method::GET => {
            Ok(Caller::Token { approved: false })
        }
        Channel::Tcp(_) => authenticate(connection.app.secrets.as_deref(), headers),
    }
}

/// Rejects requests from web pages, and those to a name that may lead here by DNS rebinding.
fn check_origin(channel: &Channel, headers: &HeaderMap) -> Result<(), Problem> {
    let fail = |why: &str| Err(Problem::new(ProblemKind::CrossOrigin, why));
    if headers.contains_key(header::ORIGIN) {
        return fail("requests from web pages are not accepted");
    }
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if site.is_some_and(|site| site != b"none" && site != b"same-origin") {
        return fail("requests from other sites are not accepted");
    }
    if let Channel::Tcp(port) = channel {
        let mut hosts = headers.get_all(header::HOST).iter();
        let own = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
        let is_own = |host: &HeaderValue| own.iter().any(|own| own.as_bytes() == host.as_bytes());
        if !(hosts.next().is_some_and(is_own) && hosts.next().is_none()) {
            return fail("the header `Host` does not name this listener");
        }
    }
    Ok(())
}

/// Checks the token, and the approval code if there is one.
fn authenticate(secrets: Option<&Secrets>, headers: &HeaderMap) -> Result<Caller, Problem> {
    let fail = || {
        Problem::new(ProblemKind::Unauthenticated, "a valid token is required")
            .hint("print it with `ostler serve --print-token`")
    };
    // A listener without secrets accepts no one.
    let secrets = secrets.ok_or_else(fail)?;
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let given = match (given.next(), given.next()) {
        (Some(value), None) => value.as_bytes(),
        _ => return Err(fail()),
    };
    let token = given.strip_prefix(b"Bearer ").ok_or_else(fail)?;
    if !secrets.token.matches(token) {
        return Err(fail());
    }
    match headers.get(CODE_HEADER) {
        None => Ok(Caller::Token { approved: false }),
        Some(code) if secrets.code.matches(code.as_bytes()) => Ok(Caller::Token { approved: true }),
        Some(_) => Err(Problem::new(
            ProblemKind::Unauthenticated,
            "the approval code is not valid",
        )),
    }
}

/// Rejects callers without a scope, and agents that ask for anything but their own session.
async fn require(scope: Scope, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>().cloned();
    let Some(caller) = caller else {
        return Problem::new(ProblemKind::Internal, "the caller is unknown").into_response();
    };
    let path = request.uri().path();
    let mut parts = path.strip_prefix("/v1/sessions/").unwrap_or("").split('/');
    let is_own = parts.next().is_some_and(|id| scope::may_see(&caller, id));
    if scope::allows(&caller, scope) && is_own {
        return next.run(request).await;
    }
    if let (Caller::Agent { session: Some(id) }, Some(manager)) =
        (&caller, request.extensions().get::<Arc<Manager>>())
    {
        manager.report_denied(id, &format!("{} {path}", request.method()));
    }
    let why = match &caller {
        Caller::Agent { .. } => "an agent cannot control the daemon that runs it".to_owned(),
        Caller::Token { .. } => format!(
            "the token alone does not include the scope `{scope}`: use the Unix socket, or send \
             the approval code that `ostler serve` printed in the header `{CODE_HEADER}`"
        ),
        Caller::User { .. } => format!("the scope `{scope}` is required"),
    };
    Problem::new(ProblemKind::Forbidden, why).into_response()
}
