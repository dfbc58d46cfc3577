//! Webhooks: signed requests that are made in the end, whatever happens in between.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use ostler::event::Timestamp;
use ostler_daemon::api::{Answer, AnswerDecision};
use ostler_daemon::{ManagerOptions, Secret, Webhook};
use ring::hmac;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::rig::{ECHO, PATIENCE, Rig};

const SECRET: &str = "a secret that is long enough";

/// A request that a receiver got.
#[derive(Clone)]
struct Received {
    head: String,
    body: String,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .unwrap()
            .1
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn occasion(&self) -> String {
        self.json()["occasion"].as_str().unwrap().to_owned()
    }

    /// Checks the signature as a receiver would.
    fn verify(&self) {
        let (id, time) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        let signed = format!("{id}.{time}.{}", self.body);
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        let signature = self
            .header("webhook-signature")
            .strip_prefix("v1,")
            .unwrap();
        let signature = base64::engine::general_purpose::STANDARD
            .decode(signature)
            .unwrap();
        hmac::verify(&key, signed.as_bytes(), &signature).unwrap();
        assert_eq!(self.json()["delivery"], id);
    }
}

/// A receiver that answers every request with a status line and headers.
struct Receiver {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    async fn answering(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, received) = (
            listener.local_addr().unwrap(),
            Arc::<Mutex<Vec<_>>>::default(),
        );
        let into = received.clone();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let into = into.clone();
                tokio::spawn(async move {
                    let mut bytes = Vec::new();
                    loop {
                        let text = String::from_utf8_lossy(&bytes).into_owned();
                        if let Some((head, body)) = text.split_once("\r\n\r\n") {
                            let request = Received {
                                head: head.to_owned(),
                                body: body.to_owned(),
                            };
                            if request.header("content-length") == body.len().to_string() {
                                into.lock().unwrap().push(request);
                                break;
                            }
                        }
                        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n");
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Self { address, received }
    }

    fn webhook(&self) -> Webhook {
        Webhook {
            allow_private: true,
            first_retry: Duration::from_millis(20),
            ..Webhook::new(
                "hook",
                format!("http://{}/x", self.address),
                Secret::from_text(SECRET),
            )
        }
    }

    /// Waits for this many requests.
    async fn wait_for(&self, count: usize) -> Vec<Received> {
        let enough = async {
            while self.received.lock().unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, enough)
            .await
            .expect("requests");
        self.received.lock().unwrap().clone()
    }
}

async fn rig_with(webhook: Webhook) -> Rig {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    Rig::with_webhooks(dir, ManagerOptions::default(), vec![webhook]).await
}

#[tokio::test]
async fn receivers_learn_what_needs_attention() {
    let receiver = Receiver::answering("204 No Content").await;
    let rig = rig_with(receiver.webhook()).await;
    rig.agent(
        "asks",
        "read\ninit\ncontrol-request q Bash {\"command\":\"rm it\"}\nwait-control\ntext hi\n\
         result hi\nread-until-eof",
    );
    let session = rig.create("asks").await;
    let first = receiver.wait_for(1).await.remove(0);
    first.verify();
    assert!(first.head.starts_with("POST /x HTTP/1.1"), "{}", first.head);
    let json = first.json();
    assert_eq!(json["occasion"], "needs_approval");
    assert_eq!(json["event"]["input"]["command"], "rm it");
    assert_eq!(json["session"]["id"], session.id.as_str());
    let approval = rig
        .client
        .pending_approvals()
        .await
        .unwrap()
        .approvals
        .remove(0);
    let allow = Answer {
        decision: AnswerDecision::Allow,
        message: None,
        always: false,
    };
    rig.client.answer(&approval.id, &allow).await.unwrap();
    receiver.wait_for(2).await;
    rig.client.stop(&session.id).await.unwrap();
    let all = receiver.wait_for(3).await;
    let occasions: Vec<String> = all.iter().map(Received::occasion).collect();
    assert_eq!(occasions, ["needs_approval", "turn_ended", "session_ended"]);
    all.iter().for_each(Received::verify);
    let mut ids: Vec<&str> = all.iter().map(|it| it.header("webhook-id")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    rig.stop().await;
    assert_eq!(
        receiver.wait_for(3).await.len(),
        3,
        "each is delivered once"
    );
}

// Deliveries are in the store: neither a receiver that is down nor a restart loses one.
#[tokio::test]
async fn a_failed_delivery_is_made_by_the_next_daemon() {
    let broken = Receiver::answering("500 Internal Server Error").await;
    let rig = rig_with(broken.webhook()).await;
    rig.agent("echo", ECHO);
    let session = rig.create("echo").await;
    let failed = broken.wait_for(2).await;
    let ids: Vec<&str> = failed.iter().map(|it| it.header("webhook-id")).collect();
    assert_eq!(ids[0], ids[1], "the same delivery is tried again");
    let dir = rig.stop().await;

    let receiver = Receiver::answering("200 OK").await;
    let _rig = Rig::with_webhooks(dir, ManagerOptions::default(), vec![receiver.webhook()]).await;
    let all = receiver.wait_for(2).await;
    let mut occasions: Vec<String> = all.iter().map(Received::occasion).collect();
    occasions.sort();
    assert_eq!(occasions, ["session_ended", "turn_ended"]);
    let turn = all.iter().find(|it| it.occasion() == "turn_ended").unwrap();
    assert_eq!(turn.header("webhook-id"), ids[0]);
    assert_eq!(turn.json()["session"]["id"], session.id.as_str());
    assert_eq!(turn.json()["session"]["state"], "ended");
}

/// Waits until a delivery was tried.
async fn wait_for_attempt(rig: &Rig) {
    let tried = async {
        loop {
            let end = Timestamp(i64::MAX);
            let (due, _) = rig.store.due_deliveries("hook", end, 10).unwrap();
            if due.iter().any(|delivery| delivery.attempts > 0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, tried)
        .await
        .expect("an attempt");
}

#[tokio::test]
async fn redirects_and_private_addresses_are_not_followed() {
    let inner = Receiver::answering("200 OK").await;
    let location = format!("302 Found\r\nLocation: http://{}/", inner.address);
    let outer = Receiver::answering(location.leak()).await;
    let rig = rig_with(outer.webhook()).await;
    rig.agent("echo", ECHO);
    rig.create("echo").await;
    outer.wait_for(1).await;
    wait_for_attempt(&rig).await;
    assert!(inner.received.lock().unwrap().is_empty());

    for host in ["127.0.0.1", "localhost"] {
        let webhook = Webhook {
            url: format!("https://{host}:{}/", inner.address.port()),
            allow_private: false,
            first_retry: Duration::from_secs(3600),
            ..inner.webhook()
        };
        let rig = rig_with(webhook).await;
        rig.agent("echo", ECHO);
        rig.create("echo").await;
        wait_for_attempt(&rig).await;
    }
    assert!(inner.received.lock().unwrap().is_empty());
}
