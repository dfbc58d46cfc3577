//! `ostler usage`: shows tokens and costs of stored sessions.

use std::path::Path;

use ostler_store::{UsageGroup, UsageKey, UsageQuery, UsageReport};
use serde_json::{Value, json};

use crate::args::{UsageArgs, UsageBy};
use crate::cmd::sessions::{before, shown_cost, shown_dir};
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output::{Align, eprint_line, one_line, print_json, table, thousands};
use crate::store::open_store_for_reading;

/// Prints the usage table.
pub(crate) fn run(args: &UsageArgs) -> Result<Code> {
    let (name, by) = key(args.by);
    let split = args.split.map(key);
    if args.split == Some(args.by) {
        return Err(usage!("`--split {name}` is the same as `--by {name}`")
            .hint("use two different groupings, or leave out `--split`"));
    }
    let query = UsageQuery {
        since: args.since.map(before),
        until: args.until.map(before),
        by,
        split: split.map(|(_, key)| key),
        offset: args.tz.unwrap_or_default(),
    };
    let report = open_store_for_reading()?.usage(&query)?;
    if args.json {
        let groups = report.groups.iter().map(|group| {
            let mut shown = as_json(group, Some(name));
            if let Some((split, _)) = split {
                let parts = group.parts.iter().map(|part| as_json(part, Some(split)));
                shown["parts"] = parts.collect();
            }
            shown
        });
        let groups: Vec<Value> = groups.collect();
        let total = as_json(&report.total, None);
        let mut shown = json!({
            "by": name, "since": query.since, "until": query.until, "groups": groups,
            "total": total,
        });
        if let Some((split, _)) = split {
            shown["split"] = json!(split);
        }
        print_json(&shown);
    } else if report.total.turns == 0 {
        eprint_line(if query.since.or(query.until).is_some() {
            "No turns began within that time."
        } else {
            "No stored turns."
        });
    } else {
        print_table(args, name, &report);
    }
    Ok(exit::OK)
}

/// Returns the name of a grouping, and its key.
fn key(by: UsageBy) -> (&'static str, UsageKey) {
    match by {
        UsageBy::Agent => ("agent", UsageKey::Agent),
        UsageBy::Model => ("model", UsageKey::Model),
        UsageBy::Day => ("day", UsageKey::Day),
        UsageBy::Dir => ("dir", UsageKey::Dir),
    }
}

fn print_table(args: &UsageArgs, name: &str, report: &UsageReport) {
    let mut rows = Vec::new();
    for group in &report.groups {
        rows.push(cells(shown(args.by, group.key.as_deref()), group));
        let part = |part: &UsageGroup| {
            let key = shown(args.split.unwrap_or(args.by), part.key.as_deref());
            cells(format!("  {key}"), part)
        };
        rows.extend(group.parts.iter().map(part));
    }
    rows.push(cells("total".to_owned(), &report.total));
    let right = |head| (head, Align::Right);
    let heads = [
        (name, Align::Left),
        right("sessions"),
        right("turns"),
        right("input"),
        right("cached"),
        right("output"),
        right("tokens"),
        right("cost"),
    ];
    table(heads, &rows);
}

fn as_json(group: &UsageGroup, by: Option<&str>) -> Value {
    let usage = &group.usage;
    let mut report = json!({
        "sessions": group.sessions,
        "turns": group.turns,
        "input": usage.input,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "output": usage.output,
        "reasoning": usage.reasoning,
        "tokens": usage.total(),
        "cost_usd": usage.cost_usd,
        "cost_source": usage.cost_source,
    });
    if let Some(by) = by {
        report[by] = json!(group.key);
    }
    report
}

fn shown(by: UsageBy, key: Option<&str>) -> String {
    match (by, key) {
        (_, None) => "unknown".to_owned(),
        (UsageBy::Dir, Some(dir)) => one_line(&shown_dir(Path::new(dir)), 60),
        (_, Some(key)) => one_line(key, 60),
    }
}

fn cells(name: String, group: &UsageGroup) -> [String; 8] {
    let usage = &group.usage;
    let count = |number: Option<u64>| number.map_or_else(|| "–".to_owned(), thousands);
    let cached = [usage.cache_read, usage.cache_write]
        .into_iter()
        .flatten()
        .reduce(u64::saturating_add);
    [
        name,
        thousands(group.sessions),
        thousands(group.turns),
        count(usage.input),
        count(cached),
        count(usage.output),
        count(usage.total()),
        shown_cost(usage.cost_usd, usage.cost_source),
    ]
}
