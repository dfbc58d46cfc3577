//! HTTP server of the scripted model: listens on loopback and records every request.

use std::collections::VecDeque;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{Request as HttpRequest, StatusCode};
use axum::response::Response;
use axum::serve::ListenerExt;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use super::answer::{Answer, Ending, Usage};
use super::request::Request;
use super::script::Script;
use super::server_style::{Delivery, Framing};
use super::wire::{Frame, Wire};
use super::{anthropic, gemini, openai, responses, side_calls};

const JSON: &str = "application/json";

/// A running scripted model, stopped on drop. Works in sync and async tests.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    // An `Option` because shutting down a runtime consumes it.
    runtime: Option<Runtime>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    script: Script,
    requests: Vec<Request>,
    side_calls: Vec<Request>,
    unmatched: Vec<Request>,
    served: Vec<Usage>,
}

impl State {
    /// Returns the model calls, without side calls.
    fn calls(&self) -> impl Iterator<Item = &Request> {
        self.requests
            .iter()
            .filter(|request| request.is_model_call() && !side_calls::is_side_call(request))
    }

    /// Assigns distinct token counts to an answer, and records them.
    fn count(&mut self, mut answer: Answer) -> Answer {
        if answer.error.is_none() {
            let nth = self.served.len() as u64 + 1;
            self.served
                .push(*answer.usage.get_or_insert(Usage::of_nth(nth)));
        }
        answer
    }
}

impl ModelServer {
    /// Starts a server on a free loopback port.
    ///
    /// # Panics
    /// If the port cannot be bound or the runtime cannot be started.
    #[must_use]
    pub fn start(script: Script) -> Self {
        let shared = Arc::new(Shared::default());
        shared.lock().script = script;
        // A separate runtime, so that the server answers while a test blocks its only thread.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("model-server")
            .enable_all()
            .build()
            .expect("start the model server's runtime");
        let listener =
            std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind loopback");
        let address = listener.local_addr().expect("read the bound address");
        listener
            .set_nonblocking(true)
            .expect("make the listener non-blocking");
        let for_requests = Arc::clone(&shared);
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("adopt the listener");
            // Otherwise the kernel delays small frames, and delta delays differ from the script.
            let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap_or_default());
            let router = axum::Router::new().fallback(move |request: HttpRequest<Body>| {
                let shared = Arc::clone(&for_requests);
                async move { shared.serve(request).await }
            });
            axum::serve(listener, router).await.expect("serve");
        });
        Self {
            address,
            shared,
            runtime: Some(runtime),
        }
    }

    /// Returns the base URL of the provider, `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the listening address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the model calls so far, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().calls().cloned().collect()
    }

    /// Returns all requests so far, including titles, token counts, health checks and unknown
    /// paths.
    #[must_use]
    pub fn all_requests(&self) -> Vec<Request> {
        let state = self.shared.lock();
        state
            .requests
            .iter()
            .chain(&state.side_calls)
            .cloned()
            .collect()
    }

    /// Returns the model calls that no rule matched. They were answered with status 400.
    #[must_use]
    pub fn unmatched(&self) -> Vec<Request> {
        self.shared.lock().unmatched.clone()
    }

    /// Returns the token counts of each scripted answer so far, oldest first, without errors.
    #[must_use]
    pub fn served(&self) -> Vec<Usage> {
        self.shared.lock().served.clone()
    }

    /// Replaces the script.
    pub fn set_script(&self, script: Script) {
        self.shared.lock().script = script;
    }

    /// Deletes the recorded requests, for tests that measure the memory of this process.
    pub fn clear_requests(&self) {
        self.shared.lock().requests.clear();
    }

    /// Blocks until `count` model calls have arrived. Returns false on timeout.
    #[must_use]
    pub fn wait_for_requests(&self, count: usize, timeout: Duration) -> bool {
        let is_missing = |state: &mut State| state.calls().count() < count;
        let state = self.shared.lock();
        let waited = self
            .shared
            .arrived
            .wait_timeout_while(state, timeout, is_missing)
            .unwrap_or_else(PoisonError::into_inner);
        !waited.1.timed_out()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        // In the background, since an async test may drop the server where blocking is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(&self, http: HttpRequest<Body>) -> Response {
        let request = read(http).await;
        if request.is_model_call() {
            let answer = self.choose(&request);
            return respond(&answer, &request).await;
        }
        let body = match (request.method.as_str(), request.bare_path()) {
            ("GET", path) if path.ends_with("/models") => {
                Some(openai::models(self.lock().script.models()))
            }
            ("POST", path) if path.ends_with(":countTokens") => Some(gemini::token_count()),
            ("POST", path) if path.ends_with("mbedContent") || path.ends_with("mbedContents") => {
                Some(gemini::embeddings(&request))
            }
            ("POST", "/v1/messages/count_tokens") => Some(anthropic::token_count()),
            // Claude Code warms up its connection with HEAD /api/hello, unless that is disabled.
            ("GET" | "HEAD", "/" | "/api/hello") => Some(json!({"ok": true})),
            _ => None,
        };
        let status = if body.is_some() { 200 } else { 404 };
        let body = body.unwrap_or_else(|| {
            let message = format!("the scripted model server does not serve {}", request.path);
            let error = json!({"type": "not_found_error", "message": message});
            json!({"type": "error", "error": error})
        });
        self.record(&mut self.lock(), request);
        reply(status, JSON, Body::from(body.to_string()))
    }

    fn choose(&self, request: &Request) -> Answer {
        let mut state = self.lock();
        if state.script.is_side_call(request) {
            state.side_calls.push(request.clone());
            return Answer::text("aside").usage(Usage::SIDE_CALL);
        }
        self.record(&mut state, request.clone());
        if let Some(answer) = side_calls::answer(request) {
            return answer;
        }
        let nth = state.calls().count();
        if let Some(answer) = state.script.answer(request, nth) {
            return state.count(answer);
        }
        state.unmatched.push(request.clone());
        // 400, because agents retry server errors but not client errors: the test fails at once.
        let text = request.last_user_text();
        let message = format!("no rule of the script matches call {nth}, user text {text:?}");
        Answer::error(400, "invalid_request_error", message)
    }

    fn record(&self, state: &mut State, request: Request) {
        state.requests.push(request);
        self.arrived.notify_all();
    }
}

async fn read(http: HttpRequest<Body>) -> Request {
    let (head, body) = http.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    Request {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        headers: head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
            .collect(),
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    }
}

/// Returns the wire format of the provider that the request is for.
fn wire(request: &Request) -> Wire {
    match request {
        _ if request.gemini().is_some() => gemini::WIRE,
        _ if request.is_chat() => openai::WIRE,
        _ if request.is_responses() => responses::WIRE,
        _ => anthropic::WIRE,
    }
}

async fn respond(answer: &Answer, request: &Request) -> Response {
    sleep(Duration::from_millis(answer.delay_ms)).await;
    if answer.ending == Ending::Silent {
        std::future::pending::<()>().await;
    }
    let wire = wire(request);
    if let Some(failure) = &answer.error
        && !matches!(answer.ending, Ending::ErrorAfter(_))
    {
        let body = failure.body.clone();
        let body = body.unwrap_or_else(|| (wire.error)(failure).to_string());
        let mut response = reply(failure.status, JSON, Body::from(body));
        for (name, value) in &failure.headers {
            let name: HeaderName = name.parse().expect("parse a header name of the script");
            let value = value.parse().expect("parse a header value of the script");
            response.headers_mut().insert(name, value);
        }
        return response;
    }
    if request.wants_stream() && answer.manner.delivery == Delivery::AsAsked {
        let steps = steps(answer, (wire.stream)(answer, request), wire);
        return reply(200, "text/event-stream; charset=utf-8", body(steps));
    }
    let whole = (wire.whole)(answer, request).to_string();
    if answer.ending == Ending::Complete {
        return reply(200, JSON, Body::from(whole));
    }
    // Agents fall back to a whole message after a broken stream, so that is broken, too.
    let half = Frame {
        text: whole.chars().take(whole.chars().count() / 2).collect(),
        is_delta: false,
    };
    reply(200, JSON, body(steps(answer, vec![half], wire)))
}

/// Next action of the connection.
#[derive(Debug)]
enum Step {
    Send(Bytes),
    Wait(Duration),
    Hang,
    Cut,
}

fn steps(answer: &Answer, frames: Vec<Frame>, wire: Wire) -> VecDeque<Step> {
    // The pause lets earlier frames leave: an immediate cut would drop them.
    let after_pause = |last: Step| vec![Step::Wait(Duration::from_millis(20)), last];
    let send = |frame: Frame| vec![Step::Send(Bytes::from(frame.text))];
    let (limit, last) = match answer.ending {
        Ending::HangAfter(deltas) => (deltas, after_pause(Step::Hang)),
        Ending::CutAfter(deltas) => (deltas, after_pause(Step::Cut)),
        Ending::ErrorAfter(deltas) => {
            let frame = answer.error.as_ref().map(wire.error_frame);
            (deltas, frame.map(send).unwrap_or_default())
        }
        Ending::GarbageAfter(deltas) => (deltas, send(Frame::data("{\"half\": "))),
        Ending::Complete | Ending::Silent => (usize::MAX, Vec::new()),
        Ending::CutAtOnce => return after_pause(Step::Cut).into(),
    };
    let (mut steps, mut deltas) = (VecDeque::new(), 0);
    for frame in frames {
        // With a limit of 0, the start of the message is still sent.
        if deltas == limit && !steps.is_empty() {
            break;
        }
        if frame.is_delta {
            deltas += 1;
            if answer.delta_delay_ms > 0 {
                steps.push_back(Step::Wait(Duration::from_millis(answer.delta_delay_ms)));
            }
        }
        steps.extend(send_styled(frame, answer.manner.framing));
    }
    steps.extend(last);
    steps
}

/// Renders a frame in the server's style.
fn send_styled(frame: Frame, framing: Framing) -> Vec<Step> {
    let text = match framing {
        Framing::Usual | Framing::WithoutDone | Framing::Torn => frame.text,
        Framing::Comments => format!(": still here\n\n{}", frame.text),
        Framing::CrLf => frame.text.replace('\n', "\r\n"),
    };
    // Seven bytes, so that some multi-byte characters are cut.
    let size = if framing == Framing::Torn {
        7
    } else {
        text.len().max(1)
    };
    let piece = |bytes: &[u8]| Step::Send(Bytes::copy_from_slice(bytes));
    text.as_bytes().chunks(size).map(piece).collect()
}

fn body(steps: VecDeque<Step>) -> Body {
    Body::from_stream(stream::unfold(steps, |mut steps| async {
        loop {
            match steps.pop_front()? {
                Step::Send(bytes) => return Some((Ok(bytes), steps)),
                Step::Wait(duration) => sleep(duration).await,
                Step::Hang => std::future::pending::<()>().await,
                Step::Cut => return Some((Err(std::io::Error::other("cut by the script")), steps)),
            }
        }
    }))
}

fn reply(status: u16, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(status).expect("parse an HTTP status of the script");
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
