//! The server's configuration: accounts, keys, imports and exports, TLS, JetStream. Pure text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{ADMIN, FleetFile, LOG_FILE, PID_FILE, SERVER_CERTIFICATE, SERVER_KEY, STORE};
use crate::permission::{self, Permissions};
use crate::subject::Token;

/// Account with the streams. Only the administrator logs in to it.
const FLEET: &str = "OSTLER";

/// First lines of the file.
const HEADER: &str = "\
# Configuration of nats-server for a fleet of Ostler. `ostler fleet` writes this file.
# Change it with `ostler fleet add-worker` and `ostler fleet remove-worker`.
";

/// A member in the configuration.
struct ServerMember<'a> {
    account: String,
    name: &'a Token,
    key: &'a str,
    permissions: Permissions,
}

/// Returns the configuration of a server whose files lie in `dir`.
pub(super) fn text(dir: &Path, fleet: &FleetFile) -> String {
    let owners = fleet.owners.iter().map(|(name, key)| ServerMember {
        account: format!("owner_{name}"),
        name,
        key,
        permissions: permission::of_owner(name, fleet.workers.keys()),
    });
    let workers = fleet.workers.iter().map(|(name, key)| ServerMember {
        account: worker_account(name),
        name,
        key,
        permissions: permission::of_worker(name),
    });
    let members: Vec<ServerMember<'_>> = owners.chain(workers).collect();
    let mut accounts = Map::new();
    accounts.insert(FLEET.to_owned(), fleet_account(fleet, &members));
    for member in &members {
        accounts.insert(member.account.clone(), member_account(fleet, member));
    }
    let file = |name: &str| dir.join(name).to_string_lossy().into_owned();
    let config = json!({
        "listen": fleet.listen,
        "pid_file": file(PID_FILE),
        "log_file": file(LOG_FILE),
        "logfile_size_limit": 16 * 1024 * 1024,
        "logfile_max_num": 4,
        // A result that the server confirmed is removed from its worker.
        "jetstream": {"store_dir": file(STORE), "sync_interval": "always"},
        "tls": {"cert_file": file(SERVER_CERTIFICATE), "key_file": file(SERVER_KEY), "timeout": 5},
        "accounts": accounts,
    });
    format!("{HEADER}{config:#}\n")
}

fn worker_account(name: &Token) -> String {
    format!("worker_{name}")
}

/// The account of the fleet: its streams, and what it exports to each member.
fn fleet_account(fleet: &FleetFile, members: &[ServerMember<'_>]) -> Value {
    let mut services: BTreeMap<&str, (bool, BTreeSet<&str>)> = BTreeMap::new();
    let mut exports = Vec::new();
    let mut imports = Vec::new();
    for member in members {
        for request in &member.permissions.requests {
            let service = services.entry(&request.subject).or_default();
            service.0 |= request.is_streamed;
            service.1.insert(&member.account);
        }
        for subject in &member.permissions.follows {
            exports.push(json!({"stream": subject, "accounts": [member.account]}));
        }
        for subject in &member.permissions.answers {
            imports.push(json!({"service": {"account": member.account, "subject": subject}}));
        }
    }
    for (subject, (is_streamed, accounts)) in services {
        let mut export = json!({"service": subject, "accounts": accounts});
        if is_streamed {
            export["response"] = json!("stream");
        }
        exports.push(export);
    }
    let permissions = json!({
        "publish": ["$JS.API.>"],
        "subscribe": [format!("_INBOX_{ADMIN}.>")],
    });
    json!({
        "jetstream": "enabled",
        "users": [{"nkey": fleet.admin, "permissions": permissions}],
        "exports": exports,
        "imports": imports,
    })
}

/// The account of a member: its key, and what it imports. Its permissions repeat the imports, so
/// that the server logs what else it tries.
fn member_account(fleet: &FleetFile, member: &ServerMember<'_>) -> Value {
    let permissions = &member.permissions;
    let mut imports = Vec::new();
    let mut publish = permissions.announces.clone();
    let mut subscribe = permissions.answers.clone();
    subscribe.push(format!("{}.>", crate::subject::inbox_prefix(member.name)));
    for request in &permissions.requests {
        let local = request.local();
        let mut import = json!({"service": {"account": FLEET, "subject": request.subject}});
        if local != request.subject {
            import["to"] = json!(local);
        }
        imports.push(import);
        publish.push(local);
    }
    for subject in &permissions.follows {
        imports.push(json!({"stream": {"account": FLEET, "subject": subject}}));
    }
    for (worker, subject) in &permissions.heartbeats {
        let account = worker_account(worker);
        imports.push(json!({"stream": {"account": account, "subject": subject}}));
    }
    if !permissions.heartbeats.is_empty() {
        subscribe.push(crate::subject::HEARTBEATS.to_owned());
    }
    let owners: Vec<String> = fleet
        .owners
        .keys()
        .map(|it| format!("owner_{it}"))
        .collect();
    let mut exports: Vec<Value> = permissions
        .announces
        .iter()
        .map(|subject| json!({"stream": subject, "accounts": owners}))
        .collect();
    for subject in &permissions.answers {
        exports.push(json!({"service": subject, "accounts": [FLEET]}));
    }
    let permissions = json!({
        "publish": publish,
        "subscribe": subscribe,
        "allow_responses": true,
    });
    json!({
        "users": [{"nkey": member.key, "permissions": permissions}],
        "imports": imports,
        "exports": exports,
    })
}
