//! A model behind an OpenAI-compatible server.

use std::collections::VecDeque;
use std::error::Error as _;
use std::time::Duration;

use futures_util::StreamExt;
use ostler_core::event::Timestamp;
use ostler_core::spec::{Spec, SpecError};
use ostler_dialects::openai::{self, OFFICIAL};
use ostler_model::ModelRequest;
use ostler_model::openai::{RequestOptions, SseItem, SseParser};
use ostler_model::runner_protocol::{Failed, FailedKind};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, NoProxy, Proxy, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use tracing::debug;

use super::account::{self, Header};
use super::{Model, ModelFuture, ReplyItem, ReplyStream, failure};
use crate::clock;
use crate::host::Host;

/// Timeout for establishing a connection.
const CONNECT: Duration = Duration::from_secs(30);

/// Timeout for listing a server's models.
const LIST: Duration = Duration::from_secs(10);

/// Maximum size of an error's text in bytes.
const ERROR_CAP: usize = 64 * 1024;

/// Maximum size of an answer that is not streamed, in bytes.
const WHOLE_CAP: usize = 64 * 1024 * 1024;

/// A client for one server.
pub(crate) struct Http {
    client: Client,
    base: String,
    model: Option<String>,
    options: RequestOptions,
    headers: HeaderMap,
    /// Values that were sent to the server, which might repeat them. They are never shown.
    secrets: Vec<String>,
    /// The variable that should hold the key, if it is not set.
    missing_key: Option<String>,
}

impl Http {
    /// How to make the agent usable.
    pub(crate) const SETUP: &str =
        "Set OPENAI_API_KEY, or OPENAI_BASE_URL for another server (docs/agents/openai-api.md).";

    /// Creates a client for the server of a spec, with the host's keys.
    pub(crate) fn new(host: &Host, spec: &Spec) -> Result<Self, SpecError> {
        let var = |name: &str| account::variable(host, spec, name);
        let base = spec
            .value("base_url")
            .or_else(|| var("OPENAI_BASE_URL"))
            .unwrap_or_else(|| OFFICIAL.to_owned());
        // The variable is validated like the setting. It is not quoted, because it may contain a
        // password.
        openai::url(&base).map_err(|why| SpecError::secret("base_url (OPENAI_BASE_URL)", why.0))?;
        let base = base.trim_end_matches('/').to_owned();
        let key_variable = account::key_variable(spec);
        let key = var(&key_variable);
        let account = account::headers(host, spec)?;
        let headers = header_map(&account)?;
        let model = spec.model.clone().or_else(|| var("OPENAI_MODEL"));
        let is_missing =
            key.is_none() && base == OFFICIAL && !headers.contains_key("authorization");
        let missing_key = is_missing.then_some(key_variable);
        let secrets = account::secrets(&account);
        Ok(Self {
            client: client(host, &base)?,
            options: RequestOptions::of(spec, base == OFFICIAL),
            base,
            model,
            headers,
            secrets,
            missing_key,
        })
    }

    /// Whether a key or another server is configured, so that the agent can be used.
    pub(crate) fn is_configured(host: &Host) -> bool {
        ["OPENAI_API_KEY", "OPENAI_BASE_URL"]
            .iter()
            .any(|name| host.var(name).is_some_and(|value| !value.is_empty()))
    }

    /// Returns the server's base URL.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Lists the server's models.
    pub(crate) async fn models(&self) -> Result<Vec<String>, Failed> {
        #[derive(Deserialize)]
        struct Listed {
            #[serde(default)]
            data: Option<Vec<ListedModel>>,
        }
        #[derive(Deserialize)]
        struct ListedModel {
            id: String,
        }
        self.check_key()?;
        let request = self
            .client
            .get(format!("{}/models", self.base))
            .headers(self.headers.clone())
            .timeout(LIST);
        let text = whole(self.send(request).await?).await?;
        let listed: Listed = serde_json::from_str(&text).map_err(|error| {
            let base = &self.base;
            let why = format!("{base}/models did not answer with a list of models: {error}");
            failure(FailedKind::Invalid, why)
        })?;
        let models = listed.data.unwrap_or_default().into_iter();
        Ok(models.map(|entry| entry.id).collect())
    }

    /// Sends a request. Returns the response if its status is a success.
    async fn send(&self, request: RequestBuilder) -> Result<Response, Failed> {
        let sent = request.send().await;
        checked(sent.map_err(|error| unsent(&self.base, &error))?).await
    }

    fn check_key(&self) -> Result<(), Failed> {
        let Some(name) = &self.missing_key else {
            return Ok(());
        };
        let message = format!("No API key for {}: {name} is not set.", self.base);
        Err(failure(FailedKind::NoKey, message))
    }

    async fn ask(&self, request: &ModelRequest) -> Result<ReplyStream, Failed> {
        self.check_key()?;
        let body = self.options.encode(request).get().to_owned();
        let request = self
            .client
            .post(format!("{}/chat/completions", self.base))
            .headers(self.headers.clone())
            .header("content-type", "application/json")
            .header("accept", "text/event-stream")
            .body(body);
        let response = self.send(request).await?;
        let kind = response
            .headers()
            .get("content-type")
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default();
        if kind.starts_with("application/json") {
            // The server does not stream.
            let text = whole(response).await?;
            return Ok(Box::pin(futures_util::stream::iter(
                pieces_of(&text).into_iter().map(Ok),
            )));
        }
        Ok(streamed(response))
    }
}

/// Splits an answer that was not streamed: one JSON document, or a stream with the wrong content
/// type.
fn pieces_of(text: &str) -> Vec<ReplyItem> {
    let one_line = |text: &str| ReplyItem::Chunk(text.replace(['\n', '\r'], " "));
    if text.trim_start().starts_with(['{', '[']) {
        return vec![one_line(text), done()];
    }
    let (mut events, mut all) = (SseParser::new(), Vec::new());
    let mut see = |seen: SseItem<'_>| {
        if let SseItem::Data(payload) | SseItem::Stray(payload) = seen {
            all.push(one_line(payload));
        }
    };
    events.push(text.as_bytes(), &mut see);
    events.finish(&mut see);
    all
}

impl Model for Http {
    fn call<'a>(&'a self, request: &'a ModelRequest) -> ModelFuture<'a, ReplyStream> {
        Box::pin(async move {
            let secrets = self.secrets.clone();
            let answer = self.ask(request).await;
            let answer = answer.map_err(|failed| hidden(&secrets, failed))?;
            let answer: ReplyStream = Box::pin(answer.map(move |piece| match piece {
                // The model does not know the key, so its text is left alone. The server does know
                // it.
                Ok(ReplyItem::Chunk(text)) if !text.contains("\"choices\"") => {
                    Ok(ReplyItem::Chunk(blanked(&secrets, text)))
                }
                Ok(item) => Ok(item),
                Err(failed) => Err(hidden(&secrets, failed)),
            }));
            Ok(answer)
        })
    }

    fn name(&self) -> ModelFuture<'_, String> {
        Box::pin(async move {
            if let Some(model) = &self.model {
                return Ok(model.clone());
            }
            let failed = |message| Failed {
                status: Some(400),
                ..failure(FailedKind::Status, message)
            };
            let models = self.models().await;
            let mut models = models.map_err(|failed| hidden(&self.secrets, failed))?;
            match (models.len(), models.pop()) {
                (1, Some(model)) => Ok(model),
                (0, _) => Err(failed(
                    "no model was given, and the server lists none; choose one with --model".into(),
                )),
                (count, last) => {
                    models.extend(last);
                    models.sort();
                    models.truncate(20);
                    let some = models.join(", ");
                    let more = if count > 20 { ", …" } else { "" };
                    Err(failed(format!(
                        "no model was given, and the server has {count}: {some}{more}; choose one with --model"
                    )))
                }
            }
        })
    }

    fn is_official(&self) -> bool {
        self.base == OFFICIAL
    }
}

/// Redacts secrets in a text: servers quote a key that they reject.
fn blanked(secrets: &[String], text: String) -> String {
    secrets
        .iter()
        .fold(text, |text, secret| text.replace(secret, "…"))
}

fn hidden(secrets: &[String], failed: Failed) -> Failed {
    Failed {
        message: blanked(secrets, failed.message),
        body: blanked(secrets, failed.body),
        ..failed
    }
}

/// Converts the headers for the client, marked as sensitive.
fn header_map(account: &[Header]) -> Result<HeaderMap, SpecError> {
    let mut headers = HeaderMap::new();
    for Header {
        setting,
        name,
        value,
    } in account
    {
        let wrong =
            |kind: &str| SpecError::secret(setting, format!("{kind} cannot be sent to a server"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("this name"))?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong("this value"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn client(host: &Host, base: &str) -> Result<Client, SpecError> {
    let wrong = |error: reqwest::Error| SpecError::new("base_url", base, error.to_string());
    // Another part of the process may have installed a provider already; either will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none()) // a key is only for the configured server
        .user_agent(concat!("ostler/", env!("CARGO_PKG_VERSION")))
        .no_proxy(); // otherwise the library would read the environment itself
    let var = |names: [&str; 2]| {
        let value = names.iter().find_map(|name| host.var(name)?.to_str());
        value.filter(|value| !value.is_empty())
    };
    let except = var(["NO_PROXY", "no_proxy"]).and_then(NoProxy::from_string);
    let plain = var(["HTTP_PROXY", "http_proxy"]).map(Proxy::http);
    let secure = var(["HTTPS_PROXY", "https_proxy"]).map(Proxy::https);
    let rest = var(["ALL_PROXY", "all_proxy"]).map(Proxy::all);
    for proxy in [plain, secure, rest].into_iter().flatten() {
        let proxy = proxy.map_err(|_| {
            SpecError::secret(
                "proxy",
                "HTTP_PROXY, HTTPS_PROXY or ALL_PROXY is not a valid URL",
            )
        })?;
        builder = builder.proxy(proxy.no_proxy(except.clone()));
    }
    builder.build().map_err(wrong)
}

/// Returns the response if its status is a success, otherwise the server's error.
async fn checked(response: Response) -> Result<Response, Failed> {
    let status = response.status();
    debug!(status = status.as_u16(), "model server answered");
    if status.is_success() {
        return Ok(response);
    }
    let resets_at = resets_at(response.headers(), status);
    let body = capped(response, ERROR_CAP).await.unwrap_or_default();
    let message = status.canonical_reason().unwrap_or("no reason given");
    Err(Failed {
        status: Some(status.as_u16()),
        body,
        resets_at,
        ..failure(FailedKind::Status, message)
    })
}

/// Returns when the server will accept requests again.
fn resets_at(headers: &HeaderMap, status: StatusCode) -> Option<String> {
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.trim());
    let in_millis = |ms: f64| (ms.is_finite() && ms >= 0.0).then(|| ms.min(1e12));
    // These headers come with every answer. They matter only if their limit is exhausted.
    let spent = |kind: &str| {
        let remaining =
            text(&format!("x-ratelimit-remaining-{kind}")).is_none_or(|left| left == "0");
        let reset = text(&format!("x-ratelimit-reset-{kind}"));
        reset
            .filter(|_| status == StatusCode::TOO_MANY_REQUESTS && remaining)
            .and_then(duration)
    };
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    let wait = number("retry-after-ms")
        .or_else(|| number("retry-after").map(|seconds| seconds * 1000.0))
        .or_else(|| spent("requests"))
        .or_else(|| spent("tokens"))
        .and_then(in_millis);
    #[expect(clippy::cast_possible_truncation, reason = "it is at most 10^12")]
    let at = wait.map(|ms| Timestamp(clock::wall().0 + ms as i64).to_string());
    at.or_else(|| Some(Timestamp::from_http_date(text("retry-after")?)?.to_string()))
}

/// Parses a duration such as `6m0s`, `1.5s` or `20ms` into milliseconds.
fn duration(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let (unit, scale) = [("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6)]
            .into_iter()
            .find(|(unit, _)| rest.starts_with(unit))?;
        total += number * scale;
        rest = &rest[unit.len()..];
    }
    (!text.is_empty()).then_some(total)
}

async fn whole(response: Response) -> Result<String, Failed> {
    capped(response, WHOLE_CAP)
        .await
        .map_err(|error| cut(&error))
}

async fn capped(mut response: Response, cap: usize) -> reqwest::Result<String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        bytes.extend_from_slice(&chunk[..chunk.len().min(cap - bytes.len())]);
        if bytes.len() == cap {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Streams an answer as its bytes arrive.
fn streamed(response: Response) -> ReplyStream {
    struct Reading {
        response: Response,
        events: SseParser,
        waiting: VecDeque<ReplyItem>,
        strays: String,
        over: bool,
    }
    let reading = Reading {
        response,
        events: SseParser::new(),
        waiting: VecDeque::new(),
        strays: String::new(),
        over: false,
    };
    Box::pin(futures_util::stream::unfold(
        reading,
        |mut reading| async move {
            loop {
                let Reading {
                    response,
                    events,
                    waiting,
                    strays,
                    over,
                } = &mut reading;
                if let Some(piece) = waiting.pop_front() {
                    *over |= piece == done(); // some servers leave the connection open after it
                    return Some((Ok(piece), reading));
                }
                if *over {
                    return None;
                }
                let mut see = |seen: SseItem<'_>| match seen {
                    SseItem::Data(payload) => {
                        waiting.push_back(ReplyItem::Chunk(payload.replace(['\n', '\r'], " ")));
                    }
                    SseItem::Comment => waiting.push_back(ReplyItem::Alive),
                    // An error page, or JSON outside an event: shown unchanged, if nothing else
                    // arrives.
                    SseItem::Stray(line) if strays.len() + line.len() < ERROR_CAP => {
                        strays.push_str(line);
                        strays.push(' ');
                    }
                    SseItem::Stray(_) => {}
                };
                match response.chunk().await {
                    Ok(Some(bytes)) => events.push(&bytes, &mut see),
                    Err(error) => {
                        *over = true;
                        return Some((Err(cut(&error)), reading));
                    }
                    Ok(None) => {
                        events.finish(&mut see);
                        *over = true;
                        if !strays.trim().is_empty() {
                            waiting.push_back(ReplyItem::Chunk(std::mem::take(strays)));
                        }
                    }
                }
            }
        },
    ))
}

fn done() -> ReplyItem {
    ReplyItem::Chunk("[DONE]".to_owned())
}

/// Describes a request that could not be sent or got no response.
fn unsent(base: &str, error: &reqwest::Error) -> Failed {
    let why = root_of(error);
    let tls = std::iter::successors(error.source(), |error| (*error).source()).any(is_tls);
    let (kind, problem) = match (tls, error.is_timeout()) {
        _ if error.is_builder() => (FailedKind::Invalid, "Cannot build a request to"),
        (true, _) => (FailedKind::Tls, "No secure connection to"),
        (false, true) => (FailedKind::Connect, "Timed out waiting for"),
        (false, false) if error.is_connect() => (FailedKind::Connect, "No connection to"),
        (false, false) => (FailedKind::Cut, "No answer from"),
    };
    failure(kind, format!("{problem} {base}: {why}."))
}

/// Returns true if the TLS library reported the error. Its errors are wrapped in `io::Error`, whose
/// `source` skips the wrapped error.
fn is_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let inner = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>() || inner.is_some_and(|inner| is_tls(inner))
}

fn cut(error: &reqwest::Error) -> Failed {
    let message = format!("The answer broke off: {}.", root_of(error));
    failure(FailedKind::Cut, message)
}

/// Returns the root cause. The client library's own error would repeat the URL, which the user
/// knows.
fn root_of(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| (*error).source());
    causes
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_rate_limit_headers() {
        assert_eq!(duration("6m0s"), Some(360_000.0));
        assert_eq!(duration("1.5s"), Some(1500.0));
        assert_eq!(duration("20ms"), Some(20.0));
        assert_eq!(duration("1h2m"), Some(3_720_000.0));
        for bad in ["", "s", "5", "5x", "1.2.3s"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_key_does_not_show() {
        let header = Header {
            setting: "header",
            name: "x-key".into(),
            value: "sk-secret".into(),
        };
        let headers = header_map(&[header]).unwrap();
        assert!(!format!("{headers:?}").contains("sk-secret"));
    }
}
