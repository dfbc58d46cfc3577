//! `ostler usage`: shows tokens and costs of stored sessions.

use std::path::Path;

use ostler_store::{UsageGroup, UsageKey, UsageQuery};
use serde_json::{Value, json};

use crate::args::{UsageArgs, UsageBy};
use crate::cmd::sessions::{before, shown_cost, shown_dir};
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output::{Align, eprint_line, one_line, print_json, table, thousands};
use crate::store::open_store_for_reading;

/// Prints the usage table.
pub(crate) fn run(args: &UsageArgs) -> Result<Code> {
    let since = args.since.map(before);
    let (name, by) = match args.by {
        UsageBy::Agent => ("agent", UsageKey::Agent),
        UsageBy::Model => ("model", UsageKey::Model),
        UsageBy::Day => ("day", UsageKey::Day),
        UsageBy::Dir => ("dir", UsageKey::Dir),
    };
    let report = open_store_for_reading()?.usage(&UsageQuery { since, by })?;
    if args.json {
        let groups = report.groups.iter();
        let groups: Vec<Value> = groups.map(|it| as_json(it, Some(name))).collect();
        let total = as_json(&report.total, None);
        print_json(&json!({ "by": name, "since": since, "groups": groups, "total": total }));
    } else if report.total.turns == 0 {
        eprint_line(if since.is_some() {
            "No turns began within that time."
        } else {
            "No stored turns."
        });
    } else {
        let key = |group: &UsageGroup| shown(args.by, group.key.as_deref());
        let groups = report.groups.iter().map(|group| cells(key(group), group));
        let rows: Vec<_> = groups
            .chain([cells("total".to_owned(), &report.total)])
            .collect();
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
    Ok(exit::OK)
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
