//! `ostler fleet status`: machines, work, lag, spend and refusals.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use ostler_fleet::item::Needs;
use ostler_fleet::message::Heartbeat;
use ostler_fleet::nats::Connection;
use ostler_fleet::setup::FleetDir;
use ostler_fleet::status::{FleetStatus, ServerRefusal, StatusReader, refused_by_server};
use serde_json::{Value, json};

use crate::args::FleetStatusArgs;
use crate::cmd::worker::read_member;
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output::{Align, one_line, print_json, table_lines};
use crate::signals::{SignalAction, Signals};

/// How long to listen: longer than the time between two heartbeats.
const LISTEN: Duration = Duration::from_millis(2500);
/// How much of the server's log is read.
const MAX_LOG: u64 = 4 * 1024 * 1024;

pub(super) async fn run(args: FleetStatusArgs) -> Result<Code> {
    let (path, member) = read_member(&args.member)?;
    let connection = Connection::open(&member.connect_settings(None, &path)?).await?;
    let mut reader = StatusReader::new(connection).await?;
    let mut signals = Signals::listen()?;
    loop {
        let status = tokio::select! {
            status = reader.read(LISTEN) => status?,
            signal = signals.next() => match signal {
                SignalAction::Continue => continue,
                SignalAction::Interrupt | SignalAction::Terminate => return Ok(exit::OK),
            },
        };
        let refused = match &args.dir {
            Some(dir) => Some(server_refusals(dir)?),
            None => None,
        };
        if args.json {
            print_json(&as_json(&status, refused.as_deref())?);
        } else {
            outln!("{}", text(&status, refused.as_deref()));
        }
        if !args.watch {
            return Ok(exit::OK);
        }
        if !args.json {
            outln!("");
        }
    }
}

/// Returns what the server refused, from the end of its log.
fn server_refusals(dir: &Path) -> Result<Vec<ServerRefusal>> {
    let fleet = FleetDir::open(dir)?;
    let members = fleet.fleet.owners.iter().chain(&fleet.fleet.workers);
    let members: BTreeMap<_, _> = members
        .map(|(name, key)| (key.clone(), name.clone()))
        .collect();
    let path = fleet.log_file();
    let log = end_of(&path).map_err(|error| usage!("{}: {error}", path.display()))?;
    Ok(refused_by_server(&log, &members))
}

fn end_of(path: &Path) -> std::io::Result<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_LOG)))?;
    let mut bytes = Vec::new();
    file.take(MAX_LOG).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn as_json(status: &FleetStatus, refused: Option<&[ServerRefusal]>) -> Result<Value> {
    let mut shown = serde_json::to_value(status).map_err(crate::fault::Fault::internal)?;
    if let Some(refused) = refused {
        shown["refused_by_server"] = json!(refused);
    }
    Ok(shown)
}

/// Returns the status for people.
fn text(status: &FleetStatus, refused: Option<&[ServerRefusal]>) -> String {
    let mut text = String::new();
    let beats: Vec<&Heartbeat> = status.workers.iter().map(|it| &it.heartbeat).collect();
    if beats.is_empty() {
        text.push_str("No worker was heard from. Start `ostler worker` on a machine.\n");
    } else {
        let right = |head| (head, Align::Right);
        let left = |head| (head, Align::Left);
        let heads = [
            left("worker"),
            right("running"),
            right("undelivered"),
            right("today"),
            left("agents"),
            left("labels"),
            left("ostler"),
        ];
        let rows: Vec<_> = beats.iter().map(|beat| worker_row(beat)).collect();
        for line in table_lines(heads, &rows) {
            let _ = writeln!(text, "{line}"); // writing to a string does not fail
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "{} of {} running, {} queued, {:.2} USD today",
        status.running, status.capacity, status.queued, status.spent_today_usd
    );
    for queue in status.queues.iter().filter(|queue| queue.queued > 0) {
        let _ = writeln!(
            text,
            "  {} queued: {}",
            queue.queued,
            needs_text(&queue.needs)
        );
    }
    for beat in &beats {
        for attempt in &beat.running {
            let (worker, agent) = (&beat.worker, one_line(&attempt.agent, 40));
            let (run, name, since) = (&attempt.run, &attempt.attempt, attempt.since);
            let _ = writeln!(text, "  {worker} runs {agent}: {run}/{name} since {since}");
        }
    }
    let (events, results) = (status.events, status.results);
    let _ = writeln!(
        text,
        "lag: {} records and {} results not read by owners",
        events.lag, results.lag
    );
    for beat in &beats {
        for item in &beat.refused {
            let (worker, name) = (&beat.worker, one_line(&item.item, 80));
            let reason = one_line(&item.reason, 200);
            let _ = writeln!(text, "refused by {worker}: {name}: {reason}");
        }
    }
    for refusal in refused.unwrap_or_default() {
        let (member, action) = (one_line(&refusal.member, 80), refusal.action);
        let subject = one_line(&refusal.subject, 80);
        let _ = write!(
            text,
            "refused by the server: {member} may not {action} {subject}"
        );
        let _ = match refusal.count {
            1 => writeln!(text),
            count => writeln!(text, " ({count} times)"),
        };
    }
    text.truncate(text.trim_end().len());
    text
}

fn worker_row(beat: &Heartbeat) -> [String; 7] {
    let agents = beat.offer.agents.iter().map(|(name, version)| {
        let version = version
            .as_deref()
            .map_or(String::new(), |it| format!(" {it}"));
        let login = beat.logins.get(name).filter(|login| *login != "ready");
        let login = login.map_or(String::new(), |it| format!(" ({it})"));
        one_line(&format!("{name}{version}{login}"), 60)
    });
    let agents: Vec<String> = agents.collect();
    let labels: Vec<&str> = beat.offer.labels.iter().map(String::as_str).collect();
    let state = if beat.draining { " (draining)" } else { "" };
    [
        format!("{}{state}", beat.worker),
        format!("{}/{}", beat.running.len(), beat.capacity),
        beat.undelivered.to_string(),
        format!("{:.2} USD", beat.spent_today_usd),
        agents.join(", "),
        one_line(&labels.join(", "), 40),
        one_line(&beat.ostler, 20),
    ]
}

fn needs_text(needs: &Needs) -> String {
    let labels = needs.labels.iter().map(|label| format!(" label {label}"));
    let mut text = format!("agent {}", needs.agent);
    if let Some(version) = &needs.version {
        let _ = write!(text, " {version}"); // writing to a string does not fail
    }
    text.extend(labels);
    one_line(&text, 120)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_names_machines_work_and_refusals() {
        let status: Value = json!({
            "worker": "w1", "instance": "i", "ostler": "0.1.0", "at": 1,
            "offer": {"kinds": ["trial"], "agents": {"one": "2.1", "two": null},
                      "labels": ["gpu"], "isolation": []},
            "logins": {"one": "ready", "two": "unknown login"},
            "capacity": 4, "draining": false,
            "running": [{"owner": "o", "run": "r", "attempt": "a-1", "agent": "one", "since": 1}],
            "undelivered": 1, "spent_today_usd": 0.25,
            "refused": [{"item": "o.r.b", "reason": "it is a replay\u{1b}[31m", "at": 1}],
        });
        let beat = parse(status);
        let status = FleetStatus {
            workers: vec![ostler_fleet::status::WorkerStatus {
                heard_ms_ago: 10,
                heartbeat: beat,
            }],
            queues: Vec::new(),
            events: SENT,
            results: SENT,
            capacity: 4,
            running: 1,
            queued: 0,
            spent_today_usd: 0.25,
        };
        let refused = [ServerRefusal {
            member: "w2".to_owned(),
            action: "publish",
            subject: "ostler.work.x".to_owned(),
            count: 3,
        }];
        let text = text(&status, Some(&refused));
        for part in [
            "w1",
            "1/4",
            "one 2.1, two (unknown login)",
            "gpu",
            "1 of 4 running, 0 queued, 0.25 USD today",
            "w1 runs one: r/a-1",
            "lag: 2 records and 2 results",
            "refused by w1: o.r.b: it is a replay",
            "refused by the server: w2 may not publish ostler.work.x (3 times)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text:?}");
        let json = as_json(&status, Some(&refused)).unwrap();
        assert_eq!(json["workers"][0]["worker"], "w1");
        assert_eq!(json["refused_by_server"][0]["count"], 3);
    }

    const SENT: ostler_fleet::status::SentStatus = ostler_fleet::status::SentStatus {
        messages: 3,
        bytes: 100,
        lag: 2,
    };

    fn parse(mut value: Value) -> Heartbeat {
        let now = json!(ostler::event::Timestamp(1));
        value["at"] = now.clone();
        value["running"][0]["since"] = now.clone();
        value["refused"][0]["at"] = now;
        serde_json::from_value(value).unwrap()
    }
}
