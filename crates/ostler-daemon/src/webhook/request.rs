//! Requests to a webhook: signed, without redirects, and only to addresses that are allowed.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ostler_core::event::Timestamp;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Url};
use ring::hmac;

use super::address::is_public;
use super::{Webhook, WebhookError};

/// Timeout for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for a whole request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Prefix of a secret that is base64, as in the Standard Webhooks specification.
const BASE64_SECRET: &str = "whsec_";

/// Minimum length of a secret, in bytes.
const MIN_SECRET: usize = 16;

/// Why a delivery failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// The address is not allowed.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The request failed.
    #[error("{0}")]
    Request(String),
    /// The receiver refused it.
    #[error("status {0}")]
    Status(u16),
}

/// The error for a host without an address that is allowed.
#[derive(Debug, thiserror::Error)]
#[error("{host} has no public address; set allow_private = true to reach it")]
pub(super) struct AddressError {
    host: String,
}

type Lookup = dyn Fn(String) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>
    + Send
    + Sync;

/// Looks up names, and returns only addresses that are allowed.
struct CheckedResolver {
    allow_private: bool,
    lookup: Arc<Lookup>,
}

impl CheckedResolver {
    fn system(allow_private: bool) -> Self {
        let lookup = |host: String| -> Pin<Box<dyn Future<Output = _> + Send>> {
            Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.collect()) })
        };
        Self {
            allow_private,
            lookup: Arc::new(lookup),
        }
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let (allow_private, found) = (self.allow_private, (self.lookup)(host.clone()));
        Box::pin(async move {
            let mut found = found.await?;
            found.retain(|address| allow_private || is_public(address.ip()));
            if found.is_empty() {
                return Err(AddressError { host }.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// A client for one webhook.
pub(super) struct Sender {
    client: Client,
    url: Url,
    key: hmac::Key,
    allow_private: bool,
}

impl Sender {
    pub(super) fn new(webhook: &Webhook) -> Result<Self, WebhookError> {
        Self::with(webhook, CheckedResolver::system(webhook.allow_private))
    }

    fn with(webhook: &Webhook, resolver: CheckedResolver) -> Result<Self, WebhookError> {
        let fail = |why: &str| WebhookError {
            name: webhook.name.clone(),
            why: why.to_owned(),
        };
        let url = Url::parse(&webhook.url).map_err(|error| fail(&format!("url: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(fail("url: credentials in a URL are not supported"));
        }
        let is_plain = url.scheme() == "http" && webhook.allow_private;
        if !(url.scheme() == "https" || is_plain) || url.host_str().is_none() {
            return Err(fail(
                "url: expected https://HOST/…, or http:// with allow_private",
            ));
        }
        let key = key(webhook.secret.reveal())
            .ok_or_else(|| fail("the secret must have at least 16 bytes"))?;
        // Another part of the process may have installed a provider already; either will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none()) // it could lead to a private address
            .no_proxy() // it would resolve the name itself
            .dns_resolver(Arc::new(resolver))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .pool_max_idle_per_host(0)
            .user_agent(concat!("ostler/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| fail(&error.to_string()))?;
        Ok(Self {
            client,
            url,
            key,
            allow_private: webhook.allow_private,
        })
    }

    /// Sends a body. The response's own body is not read.
    pub(super) async fn send(
        &self,
        id: &str,
        now: Timestamp,
        body: Vec<u8>,
    ) -> Result<(), SendError> {
        self.check_literal()?;
        let seconds = now.0.div_euclid(1000);
        let response = self
            .client
            .post(self.url.clone())
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds)
            .header(
                "webhook-signature",
                signature(&self.key, id, seconds, &body),
            )
            .body(body)
            .send()
            .await
            // The URL may be confidential.
            .map_err(|error| SendError::Request(cause_of(&error.without_url())))?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(SendError::Status(status.as_u16())),
        }
    }

    /// Checks a host that is an address: it is never looked up.
    fn check_literal(&self) -> Result<(), AddressError> {
        let host = self.url.host_str().unwrap_or_default();
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        match literal.parse::<IpAddr>() {
            Ok(address) if !self.allow_private && !is_public(address) => Err(AddressError {
                host: host.to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// Returns the innermost error, which says most.
fn cause_of(error: &dyn std::error::Error) -> String {
    let mut at = error;
    while let Some(source) = at.source() {
        at = source;
    }
    at.to_string()
}

/// Returns the key of a secret; `None` if it is too short.
fn key(secret: &str) -> Option<hmac::Key> {
    let bytes = match secret.strip_prefix(BASE64_SECRET) {
        Some(encoded) => STANDARD.decode(encoded).ok()?,
        None => secret.as_bytes().to_vec(),
    };
    (bytes.len() >= MIN_SECRET).then(|| hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

/// Signs a body together with the delivery's id and the time, so that neither can be changed.
fn signature(key: &hmac::Key, id: &str, seconds: i64, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(key);
    context.update(format!("{id}.{seconds}.").as_bytes());
    context.update(body);
    format!("v1,{}", STANDARD.encode(context.sign().as_ref()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::token::Secret;

    fn webhook(url: &str, allow_private: bool) -> Webhook {
        Webhook {
            url: url.to_owned(),
            allow_private,
            ..Webhook::new("w", "", Secret::from_text("a secret of some length"))
        }
    }

    // The example of the Standard Webhooks specification.
    #[test]
    fn signatures_follow_the_specification() {
        let key = key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        assert_eq!(
            signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
        assert!(super::key("too short").is_none());
        assert!(super::key("whsec_not base64 but long enough").is_none());
    }

    #[tokio::test]
    async fn an_address_in_the_url_is_checked() {
        for url in [
            "https://127.0.0.1/",
            "https://0x7f.1/",
            "https://2130706433/",
            "https://[::1]:8443/x",
            "https://[::ffff:10.0.0.1]/",
            "https://172.31.9.9/",
            "https://169.254.169.254/latest/meta-data",
        ] {
            let sender = Sender::new(&webhook(url, false)).unwrap();
            let sent = sender.send("id", Timestamp(0), Vec::new()).await;
            assert!(
                matches!(sent, Err(SendError::Address(_))),
                "{url}: {sent:?}"
            );
        }
        for url in [
            "ftp://example.org/",
            "http://example.org/",
            "https://a:b@example.org/",
            "x",
        ] {
            assert!(Sender::new(&webhook(url, false)).is_err(), "{url}");
        }
    }

    // DNS rebinding: a name that was public leads to this machine the next time.
    #[tokio::test]
    async fn every_lookup_is_checked() {
        let count = Arc::new(AtomicUsize::new(0));
        let calls = count.clone();
        let lookup = move |_| -> Pin<Box<dyn Future<Output = _> + Send>> {
            let address = match calls.fetch_add(1, Ordering::Relaxed) {
                0 => "93.184.216.34:0",
                _ => "127.0.0.1:0",
            };
            let both = vec![address.parse().unwrap(), "10.0.0.1:0".parse().unwrap()];
            Box::pin(async move { Ok(both) })
        };
        let resolver = CheckedResolver {
            allow_private: false,
            lookup: Arc::new(lookup),
        };
        let name = || "rebinding.example".parse::<Name>().unwrap();
        let first = resolver
            .resolve(name())
            .await
            .map_err(|error| error.to_string());
        let first: Vec<IpAddr> = first.unwrap().map(|address| address.ip()).collect();
        assert_eq!(first, ["93.184.216.34".parse::<IpAddr>().unwrap()]);
        let hook = webhook("https://rebinding.example/", false);
        let sender = Sender::with(&hook, resolver).unwrap();
        let sent = sender.send("id", Timestamp(0), Vec::new()).await;
        let message = sent.unwrap_err().to_string();
        assert!(message.contains("no public address"), "{message}");
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }
}
