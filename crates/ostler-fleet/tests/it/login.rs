//! Logins: credentials files of a server that works with JWTs, whose operator, account and users
//! are signed by hand, and servers that are too old.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use ostler_fleet::key::MemberKey;
use ostler_fleet::member::Member;
use ostler_fleet::nats::{ConnectSettings, Connection, FleetError};
use ostler_testkit::nats::NatsServer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::rig::{PATIENCE, Rig, has_server, now, token};

/// Returns the claims about a key, signed by another one.
fn jwt(signer: &KeyPair, subject: &KeyPair, claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = encode(&json!({"typ": "JWT", "alg": "ed25519-nkey"}));
    let body = encode(&json!({
        "jti": subject.public_key(), "iat": now().0 / 1000, "iss": signer.public_key(),
        "sub": subject.public_key(), "name": "test", "nats": claims,
    }));
    let text = format!("{header}.{body}");
    let signature = signer.sign(text.as_bytes()).unwrap();
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn account_claims() -> Value {
    json!({
        "type": "account", "version": 2, "default_permissions": {"pub": {}, "sub": {}},
        "limits": {
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
            "wildcards": true, "conn": -1, "leaf": -1,
        },
    })
}

/// Returns the text of the credentials file of a new user of an account.
fn credentials(account: &KeyPair) -> String {
    let user = KeyPair::new_user();
    let claims = json!({
        "type": "user", "version": 2, "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1,
    });
    let (jwt, seed) = (jwt(account, &user, &claims), user.seed().unwrap());
    format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_logs_in_with_a_credentials_file() {
    if !has_server("a_member_logs_in_with_a_credentials_file") {
        return;
    }
    let rig = Rig::new();
    let (operator, system, account) = (
        KeyPair::new_operator(),
        KeyPair::new_account(),
        KeyPair::new_account(),
    );
    let signed = |it: &KeyPair| jwt(&operator, it, &account_claims());
    let configuration = format!(
        "operator: {}\nsystem_account: {system_key}\nresolver: MEMORY\n\
         resolver_preload: {{ {system_key}: {}, {}: {} }}\n",
        jwt(
            &operator,
            &operator,
            &json!({"type": "operator", "version": 2})
        ),
        signed(&system),
        account.public_key(),
        signed(&account),
        system_key = system.public_key(),
    );
    let server = NatsServer::start_with(&configuration);
    let connect = async |name: &str, credentials: String| {
        let (file, member_file) = (format!("{name}.creds"), rig.path(&format!("{name}.toml")));
        std::fs::write(rig.path(&file), credentials).unwrap();
        let member = Member {
            name: token(name),
            url: Some(server.url()),
            key: MemberKey::generate().seed().unwrap(),
            log_in: true,
            credentials: Some(file.into()),
            authority: None,
            api: None,
            trust: BTreeSet::new(),
            replicas: 1,
        };
        member.write(&member_file).unwrap();
        let member = Member::read(&member_file).unwrap();
        Connection::open(&member.connect_settings(None, &member_file).unwrap()).await
    };
    let own = connect("own", credentials(&account)).await.unwrap();
    let mut received = own.subscribe("ostler.test".to_owned()).await.unwrap();
    own.publish("ostler.test".to_owned(), b"1".to_vec())
        .await
        .unwrap();
    let message = tokio::time::timeout(PATIENCE, received.next()).await;
    assert_eq!(&message.unwrap().unwrap().payload[..], b"1");
    // The operator has signed no such account.
    let other = connect("other", credentials(&KeyPair::new_account())).await;
    assert!(
        matches!(other, Err(FleetError::Connect { .. })),
        "{other:?}"
    );
}

/// Greets one client as a server of a version, and answers its pings.
async fn greet(listener: TcpListener, version: &str) {
    let (stream, _) = listener.accept().await.unwrap();
    let (reader, mut writer) = stream.into_split();
    let info = json!({
        "server_id": "one", "server_name": "one", "version": version, "go": "go", "client_id": 1,
        "host": "127.0.0.1", "port": 4222, "headers": true, "max_payload": 1_048_576, "proto": 1,
    });
    let greeting = format!("INFO {info}\r\n");
    writer.write_all(greeting.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line.starts_with("PING") {
            writer.write_all(b"PONG\r\n").await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_server_that_is_too_old_is_refused() {
    for (version, is_old) in [("2.9.25", true), ("2.10.0", false)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = ConnectSettings {
            url: format!("nats://{}", listener.local_addr().unwrap()),
            member: token("w1"),
            key: None,
            credentials: None,
            authority: None,
            require_tls: false,
            api: None,
        };
        tokio::spawn(greet(listener, version));
        let opened = Connection::open(&settings).await;
        let found = matches!(&opened, Err(FleetError::OldServer { version: found, .. })
            if found == version);
        assert_eq!((found, opened.is_err()), (is_old, is_old), "{opened:?}");
    }
}
