//! Admission: who sent a request, and whether it may be a web page that pretends to be the user.

use std::net::SocketAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};

use super::{App, CODE_HEADER, Channel, Connection, Endpoint, KEY_HEADER, body};
use crate::browser::Browser;
use crate::problem::{Problem, ProblemKind};
use crate::scope::Caller;

/// Who sent a request.
#[derive(Debug, Clone)]
pub(super) struct Admitted {
    pub(super) caller: Caller,
    /// The browser session, if the caller is a browser.
    pub(super) browser: Option<Browser>,
    /// The listener, if it came over TCP.
    pub(super) endpoint: Option<Endpoint>,
}

impl Admitted {
    fn over_tcp(caller: Caller, endpoint: Endpoint) -> Self {
        Self {
            caller,
            browser: None,
            endpoint: Some(endpoint),
        }
    }
}

/// What the headers that only a browser sets say about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Initiator {
    /// A program, or the user by the browser's address bar.
    Direct,
    /// The page of this daemon.
    OwnPage,
}

/// Identifies the caller of a request.
pub(super) fn identify(connection: &Connection, request: &Request) -> Result<Admitted, Problem> {
    let headers = request.headers();
    let initiator = check_origin(&connection.channel, headers)?;
    let query = request.uri().query().unwrap_or_default();
    let mut names = query.split('&').filter_map(|pair| pair.split('=').next());
    if names.any(|name| matches!(name, "token" | "access_token")) {
        let why = "credentials are not accepted in a URL";
        return Err(Problem::new(ProblemKind::Unauthenticated, why)
            .hint("send the token in the header `Authorization: Bearer …`"));
    }
    let path = request.uri().path();
    body::decode(path)?; // routes match decoded paths
    let endpoint = match &connection.channel {
        Channel::Socket(caller) => {
            return Ok(Admitted {
                caller: caller.clone(),
                browser: None,
                endpoint: None,
            });
        }
        // Whatever secrets it has found, it is still an agent.
        Channel::Tcp(endpoint, Some(agent)) => {
            return Ok(Admitted::over_tcp(agent.clone(), *endpoint));
        }
        Channel::Tcp(endpoint, None) => *endpoint,
    };
    if headers.contains_key(header::AUTHORIZATION) {
        // A page with the token would be another program's.
        if headers.contains_key(header::ORIGIN) {
            return Err(foreign("requests from web pages are not accepted"));
        }
        if is_health(request) {
            return Ok(Admitted::over_tcp(Caller::Anonymous, endpoint));
        }
        let caller = authenticate(&connection.app, headers)?;
        return Ok(Admitted::over_tcp(caller, endpoint));
    }
    let browser = browser(&connection.app, endpoint, headers);
    let is_public = is_public(request.method(), path);
    if browser.is_some() || (is_public && !is_health(request)) {
        check_page_request(request, endpoint, initiator, is_public)?;
    }
    match browser {
        Some(browser) => Ok(Admitted {
            caller: Caller::Browser {
                has_key: browser.has_key,
                approved: browser.may_approve,
            },
            browser: Some(browser),
            endpoint: Some(endpoint),
        }),
        None if is_public => Ok(Admitted::over_tcp(Caller::Anonymous, endpoint)),
        None => Err(unauthenticated()),
    }
}

/// Health says only that a daemon is running.
fn is_health(request: &Request) -> bool {
    request.uri().path() == "/healthz" && request.method() == Method::GET
}

/// Returns true if a request needs no credentials: health, the files of the page, and login.
fn is_public(method: &Method, path: &str) -> bool {
    match path {
        "/healthz" => method == Method::GET,
        "/v1/browser-session" => method == Method::GET || method == Method::POST,
        _ => is_file(path) && (method == Method::GET || method == Method::HEAD),
    }
}

/// Returns true if a path names a file of the page.
fn is_file(path: &str) -> bool {
    path == "/" || path.starts_with("/assets/")
}

fn foreign(why: &str) -> Problem {
    Problem::new(ProblemKind::CrossOrigin, why)
}

fn unauthenticated() -> Problem {
    Problem::new(
        ProblemKind::Unauthenticated,
        "a valid token or cookie is required",
    )
    .hint("print the token with `ostler serve --print-token`; log a browser in with `ostler open`")
}

/// Returns the origin of a listener's page.
pub(super) fn origin(address: SocketAddr) -> String {
    format!("http://{address}")
}

/// Returns the only value of a header. `Err` if there are several.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a [u8]>, Problem> {
    let mut values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(foreign("a header that must be unique occurs twice")),
    }
}

/// Rejects requests from foreign web pages, and those to a name that may lead here by DNS
/// rebinding.
fn check_origin(channel: &Channel, headers: &HeaderMap) -> Result<Initiator, Problem> {
    let own = match channel {
        Channel::Socket(_) => None,
        Channel::Tcp(endpoint, _) => Some(endpoint.address),
    };
    let mut initiator = Initiator::Direct;
    if let Some(given) = single(headers, "origin")? {
        if own.is_none_or(|own| origin(own).as_bytes() != given) {
            return Err(foreign("requests from other web pages are not accepted"));
        }
        initiator = Initiator::OwnPage;
    }
    match single(headers, "sec-fetch-site")? {
        None | Some(b"none") => {}
        Some(b"same-origin") => initiator = Initiator::OwnPage,
        // Also `same-site`: another port of the same address.
        Some(_) => return Err(foreign("requests from other sites are not accepted")),
    }
    if let Some(own) = own {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        let names = names.map(|name| format!("{name}:{}", own.port()));
        let host = single(headers, "host")?.unwrap_or_default();
        let is_own = names.iter().any(|name| name.as_bytes() == host);
        if !is_own && own.to_string().as_bytes() != host {
            return Err(foreign("the header `Host` does not name this listener"));
        }
    }
    Ok(initiator)
}

/// Checks a request of the page, whose cookie a browser would send along with any request to this
/// address.
fn check_page_request(
    request: &Request,
    endpoint: Endpoint,
    initiator: Initiator,
    is_public: bool,
) -> Result<(), Problem> {
    let (headers, method) = (request.headers(), request.method());
    let own = endpoint.address.to_string();
    // The other names of this machine have other cookies and another origin.
    if single(headers, "host")? != Some(own.as_bytes()) {
        let open = format!("open {}/", origin(endpoint.address));
        return Err(foreign("the page has another address").hint(open));
    }
    let is_read = method == Method::GET || method == Method::HEAD;
    if !is_read && initiator != Initiator::OwnPage {
        let why = "a browser's request that changes something must come from the page itself";
        return Err(foreign(why));
    }
    // A link or a bookmark may open the page, but not a request of the API.
    let is_typed = single(headers, "sec-fetch-site")? == Some(b"none");
    if is_typed && !(is_public && is_file(request.uri().path())) {
        return Err(foreign("this address is for the page itself"));
    }
    Ok(())
}

/// Returns the name of the cookie. Cookies ignore ports, so each daemon has its own name.
pub(super) fn cookie_name(endpoint: Endpoint) -> String {
    format!("ostler_{}", endpoint.address.port())
}

/// Finds the browser session of a cookie. Another server on this address can add cookies of the
/// same name, so each of them is tried.
fn browser(app: &App, endpoint: Endpoint, headers: &HeaderMap) -> Option<Browser> {
    let name = cookie_name(endpoint);
    let mut keys = headers.get_all(KEY_HEADER).iter();
    let key = match (keys.next(), keys.next()) {
        (key, None) => key.map(HeaderValue::as_bytes),
        _ => None,
    };
    let now = app.manager.embedder.now();
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut cookies = cookies.flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    cookies.find_map(|pair| {
        let value = pair.trim_ascii().strip_prefix(name.as_bytes())?;
        let value = value.strip_prefix(b"=")?;
        app.browsers.identify(value, key, now)
    })
}

/// Checks the token, and the approval code if there is one.
fn authenticate(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    let fail = || {
        Problem::new(ProblemKind::Unauthenticated, "a valid token is required")
            .hint("print it with `ostler serve --print-token`")
    };
    // A listener that was opened for a browser accepts no token.
    let token = app.secrets.token.as_ref().ok_or_else(fail)?;
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let given = match (given.next(), given.next()) {
        (Some(value), None) => value.as_bytes(),
        _ => return Err(fail()),
    };
    let given = given.strip_prefix(b"Bearer ").ok_or_else(fail)?;
    if !token.matches(given) {
        return Err(fail());
    }
    match headers.get(CODE_HEADER) {
        None => Ok(Caller::Token { approved: false }),
        Some(code) if app.secrets.code.matches(code.as_bytes()) => {
            Ok(Caller::Token { approved: true })
        }
        Some(_) => Err(Problem::new(
            ProblemKind::Unauthenticated,
            "the approval code is not valid",
        )),
    }
}
