//! Login of a browser: one-time links, browser sessions, and the approval code.

use axum::Extension;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ostler_core::event::Timestamp;

use super::admit::{Admitted, cookie_name, origin};
use super::body::{json, parse, read};
use super::{App, Endpoint, Reply};
use crate::api::{BrowserLink, BrowserLogin, BrowserSessionView, EnterCode, PageKey};
use crate::browser::{Browser, CodeResult, LINK_MS, LinkError};
use crate::problem::{Problem, ProblemKind};
use crate::scope::Caller;

/// Creates a one-time link, for a user on the socket only. Opens a listener if there is none.
pub(super) async fn link(
    Extension(app): Extension<App>,
    Extension(admitted): Extension<Admitted>,
) -> Reply {
    if !matches!(admitted.caller, Caller::User { .. }) {
        let why = "links are only given out on the Unix socket";
        return Err(Problem::new(ProblemKind::Forbidden, why));
    }
    let address = app.listening.address(&app).await?;
    let now = app.manager.embedder.now();
    let code = app.browsers.issue_link(now);
    let link = BrowserLink {
        url: format!("{}/#login={}", origin(address), code.reveal()),
        expires_at: Timestamp(now.0.saturating_add(LINK_MS)).to_string(),
    };
    json(StatusCode::CREATED, &link)
}

/// Logs a browser in with the code of a link.
pub(super) async fn login(
    Extension(app): Extension<App>,
    Extension(admitted): Extension<Admitted>,
    headers: HeaderMap,
    body: Body,
) -> Reply {
    let Some(endpoint) = admitted.endpoint else {
        let why = "browsers log in over TCP; the socket needs no login";
        return Err(Problem::new(ProblemKind::Forbidden, why));
    };
    // Before the code is looked at, so that the link still works for the user.
    if let Caller::Agent { .. } = admitted.caller {
        let request = "POST /v1/browser-session";
        app.manager.report_refused(&admitted.caller, request);
        let why = "an agent cannot control the daemon that runs it";
        return Err(Problem::new(ProblemKind::Forbidden, why));
    }
    let login: BrowserLogin = parse(&read(&headers, body).await?)?;
    let redeemed = app
        .browsers
        .redeem(login.code.as_bytes(), app.manager.embedder.now());
    let credentials = redeemed.map_err(|error| {
        let why = match error {
            LinkError::Unknown => "the link has expired, or is not from this daemon",
            LinkError::Used => "the link was used before; whoever used it was logged out",
        };
        Problem::new(ProblemKind::Unauthenticated, why).hint("get a new one with `ostler open`")
    })?;
    // Another login of this browser is replaced.
    if let Some(before) = admitted.browser {
        app.browsers.revoke(before.id);
    }
    let key = PageKey {
        key: credentials.key.reveal().to_owned(),
    };
    let mut response = json(StatusCode::OK, &key)?;
    set_cookie(&mut response, endpoint, credentials.cookie.reveal(), "")?;
    Ok(response)
}

/// Says what this browser may do.
pub(super) async fn get(Extension(admitted): Extension<Admitted>) -> Reply {
    let browser = admitted.browser;
    let has_key = browser.is_some_and(|browser| browser.has_key);
    let view = BrowserSessionView {
        authenticated: browser.is_some(),
        can_prompt: has_key,
        can_approve: has_key && browser.is_some_and(|browser| browser.may_approve),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    json(StatusCode::OK, &view)
}

/// Lets a browser approve, once the approval code was entered in it.
pub(super) async fn approve(
    Extension(app): Extension<App>,
    Extension(admitted): Extension<Admitted>,
    headers: HeaderMap,
    body: Body,
) -> Reply {
    let browser = own_session(&admitted)?;
    let entered: EnterCode = parse(&read(&headers, body).await?)?;
    let code = entered.code.trim().to_ascii_lowercase();
    let is_right = app.secrets.code.matches(code.as_bytes());
    match app.browsers.enter_code(browser.id, is_right) {
        CodeResult::Approved => Ok(StatusCode::NO_CONTENT.into_response()),
        CodeResult::Wrong(left) => {
            let why = format!("the approval code is not valid; attempts left: {left}");
            Err(Problem::new(ProblemKind::Forbidden, why)
                .hint("print it with `ostler serve --print-code`"))
        }
        CodeResult::Revoked => {
            let why = "the approval code was wrong too often: this browser is logged out";
            Err(Problem::new(ProblemKind::Unauthenticated, why).hint("log in with `ostler open`"))
        }
    }
}

/// Logs a browser out.
pub(super) async fn logout(
    Extension(app): Extension<App>,
    Extension(admitted): Extension<Admitted>,
) -> Reply {
    let browser = own_session(&admitted)?;
    app.browsers.revoke(browser.id);
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(endpoint) = admitted.endpoint {
        set_cookie(&mut response, endpoint, "", "; Max-Age=0")?;
    }
    Ok(response)
}

fn own_session(admitted: &Admitted) -> Result<Browser, Problem> {
    admitted.browser.ok_or_else(|| {
        let why = "this is for a browser that is logged in";
        Problem::new(ProblemKind::Forbidden, why)
    })
}

fn set_cookie(
    response: &mut Response,
    endpoint: Endpoint,
    value: &str,
    more: &str,
) -> Result<(), Problem> {
    let name = cookie_name(endpoint);
    let cookie = format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/{more}");
    let mut cookie = HeaderValue::from_str(&cookie)
        .map_err(|error| Problem::new(ProblemKind::Internal, error.to_string()))?;
    cookie.set_sensitive(true);
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(())
}
