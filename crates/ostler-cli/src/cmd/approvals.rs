//! `ostler approvals`: lists and answers permission requests of the daemon's sessions.

use std::collections::HashMap;

use ostler::event::Timestamp;
use ostler::render::display::short_id;
use ostler_daemon::api::{Answer, AnswerDecision, ApprovalView, SessionView};
use ostler_daemon::client::Client;

use super::sessions::{ago, span};
use crate::args::{ApprovalAnswer, ApprovalsAnswerArgs, ApprovalsArgs, ApprovalsVerb};
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output::{self, Align, eprint_line, name, tool_subject};
use crate::{daemon, environment};

/// Runs the subcommand.
pub(crate) async fn run(args: ApprovalsArgs) -> Result<Code> {
    let client = daemon::client()?;
    match args.verb {
        None => list(&client, args.json).await,
        Some(ApprovalsVerb::Answer(args)) => answer(&client, args).await,
    }
}

async fn list(client: &Client, json: bool) -> Result<Code> {
    let pending = client.approvals("state=pending").await?;
    if json {
        output::print_serialized(&pending)?;
        return Ok(exit::OK);
    }
    if pending.approvals.is_empty() {
        eprint_line("No permission requests are waiting.");
        return Ok(exit::OK);
    }
    let sessions = client.sessions("limit=500").await?.sessions;
    let sessions: HashMap<&str, &SessionView> = sessions
        .iter()
        .map(|session| (session.id.as_str(), session))
        .collect();
    let now = environment::now();
    let rows = pending.approvals.iter().map(|approval| {
        let session = sessions.get(approval.session.as_str());
        let unnamed = short_id(&approval.session);
        [
            name(short_id(&approval.id)),
            name(session.map_or(unnamed, |session| &session.name)),
            session.map_or_else(String::new, |session| name(&session.agent)),
            name(tool(approval)),
            tool_subject(&approval.event["input"].to_string()),
            at(&approval.asked_at).map_or_else(String::new, |at| ago(now, at)),
            at(&approval.expires_at).map_or_else(String::new, |at| expiry(now, at)),
        ]
    });
    let heads = ["id", "session", "agent", "tool", "what", "asked", "expires"];
    output::table(
        heads.map(|head| (head, Align::Left)),
        &rows.collect::<Vec<_>>(),
    );
    Ok(exit::OK)
}

/// Parses a time of the API.
fn at(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

fn expiry(now: Timestamp, at: Timestamp) -> String {
    match (at.0 - now.0) / 1000 {
        ..1 => "now".to_owned(),
        seconds => format!("in {}", span(seconds)),
    }
}

fn tool(approval: &ApprovalView) -> &str {
    approval.event["tool"].as_str().unwrap_or_default()
}

async fn answer(client: &Client, args: ApprovalsAnswerArgs) -> Result<Code> {
    let id = resolve(client, args.request).await?;
    let decision = match args.answer {
        ApprovalAnswer::Yes | ApprovalAnswer::Always => AnswerDecision::Allow,
        ApprovalAnswer::No => AnswerDecision::Deny,
    };
    let answer = Answer {
        decision,
        message: args.message,
        always: args.answer == ApprovalAnswer::Always,
    };
    let approval = client.answer(&id, &answer).await?;
    if args.json {
        output::print_serialized(&approval)?;
    } else {
        let (tool, session) = (name(tool(&approval)), name(short_id(&approval.session)));
        outln!("{} {tool} in session {session}", approval.state);
    }
    Ok(exit::OK)
}

/// Returns the full id of a request. A pending one is preferred to one that was answered before.
async fn resolve(client: &Client, prefix: String) -> Result<String> {
    let mut found = client.approvals("").await?.approvals;
    found.retain(|approval| approval.id.starts_with(&prefix));
    if found.iter().any(|approval| approval.state == "pending") {
        found.retain(|approval| approval.state == "pending");
    }
    match &found[..] {
        [one] => Ok(one.id.clone()),
        [] => Ok(prefix), // the daemon says that it is unknown
        _ => Err(usage!("several requests begin with {}", name(&prefix))
            .hint("use a longer prefix of the id")),
    }
}
