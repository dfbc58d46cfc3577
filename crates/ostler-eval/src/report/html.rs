//! The report as one HTML file: no script, no other file, no network.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::format::{
    cost, count, denominators, dollars, duration, interval, one_line, per_solved, percent,
};
use super::html_trial::{TrialDetail, escape, section};
use super::human::{COMPARISON_HEAD, comparison_row};
use super::{Cell, RunReport};
use crate::stats::{ContenderSummary, Estimate};
use crate::trial::{TrialKey, TrialResult};

const STYLE: &str = include_str!("report.css");

/// Nothing may be loaded or run, whatever a report contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'";

/// Returns the report as one self-contained HTML document. `detail` supplies what a trial's section
/// shows besides its result.
#[must_use]
pub fn html(report: &RunReport, detail: &dyn Fn(&TrialKey) -> TrialDetail) -> String {
    let summaries = report.summaries();
    let trials = report.ordered();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{} – evaluation</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape(&one_line(&report.suite))
    );
    page.push_str(&header(report));
    page.push_str(&contenders(&summaries));
    page.push_str(&notes(report, &summaries));
    page.push_str(&comparisons(report));
    page.push_str(&scatter(&summaries));
    page.push_str(&heatmap(report, &trials));
    page.push_str("<h2>Trials</h2>\n");
    for (index, trial) in trials.iter().enumerate() {
        page.push_str(&section(index, trial, &detail(&trial.key)));
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn header(report: &RunReport) -> String {
    let (planned, missing) = (report.planned.len(), report.missing());
    let state = if missing > 0 {
        format!("incomplete: {missing} of {planned} trials have no result")
    } else {
        format!("{} trials", report.trials.len())
    };
    let started = report
        .started_at
        .as_deref()
        .map(|at| format!(" · started {}", escape(at)));
    format!(
        "<header>\n<h1>{}</h1>\n<p class=\"muted\">run {} · {} tasks · {} agents · {state}{}</p>\n\
         </header>\n",
        escape(&one_line(&report.suite)),
        escape(&one_line(&report.run)),
        report.cases().len(),
        report.contenders.len(),
        started.unwrap_or_default()
    )
}

fn contenders(summaries: &[ContenderSummary]) -> String {
    let mut text = String::from(
        "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th>agent</th>\
         <th class=\"num\">pass@1</th><th>95 % interval</th><th class=\"num\">all k pass</th>\
         <th class=\"num\">cost</th><th class=\"num\">per solved task</th>\
         <th class=\"num\">tokens</th><th class=\"num\">median time</th>\
         <th class=\"num\">p95 time</th></tr></thead>\n<tbody>\n",
    );
    for it in summaries {
        let hat = match it.k {
            0 | 1 => "–".to_owned(),
            k => format!(
                "{} <span class=\"muted\">k={k}</span>",
                percent(it.pass_hat_k)
            ),
        };
        let _ = writeln!(
            text,
            "<tr><td class=\"label\">{}<br><span class=\"muted\">{}</span></td>\
             <td class=\"num rate\">{}</td><td>{}</td><td class=\"num\">{hat}</td>\
             <td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>\
             <td class=\"num\">{}</td><td class=\"num\">{}</td></tr>",
            escape(&one_line(&it.label)),
            escape(&denominators(it)),
            percent(it.pass_at_1.map(|rate| rate.value)),
            interval_bar(it.pass_at_1),
            cost(it),
            per_solved(it),
            count(it.tokens.total.map(|tokens| tokens.sum)),
            duration(it.wall_ms.map(|wall| wall.median)),
            duration(it.wall_ms.map(|wall| wall.p95)),
        );
    }
    text.push_str("</tbody></table></div>\n");
    text
}

/// Every other contender compared with the first, on the same tasks.
fn comparisons(report: &RunReport) -> String {
    let compared = report.comparisons();
    if compared.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<h2>On the same tasks</h2>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>",
    );
    for (index, head) in COMPARISON_HEAD.iter().enumerate() {
        let class = if index == 0 { "" } else { " class=\"num\"" };
        let _ = write!(text, "<th{class}>{head}</th>");
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for (label, it) in &compared {
        let label = escape(&one_line(label));
        let _ = write!(text, "<tr><td class=\"label\">{label}</td>");
        for cell in comparison_row(it) {
            let _ = write!(text, "<td class=\"num\">{}</td>", escape(&cell));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
    text
}

/// A bar from 0 to 100 % with the interval and the estimate.
fn interval_bar(estimate: Option<Estimate>) -> String {
    let Some(it) = estimate else {
        return "–".to_owned();
    };
    let x = |value: f64| 6.0 + value * 148.0;
    format!(
        "<svg width=\"160\" height=\"34\" viewBox=\"0 0 160 34\" role=\"img\" \
         aria-label=\"{label}\"><rect class=\"track\" x=\"6\" y=\"5\" width=\"148\" height=\"8\" \
         rx=\"4\"/><line class=\"whisker\" x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"9\" y2=\"9\"/>\
         <circle class=\"dot\" cx=\"{value:.1}\" cy=\"9\" r=\"5\"/>\
         <text class=\"muted\" x=\"6\" y=\"29\">{label}</text></svg>",
        label = interval(Some(it)),
        low = x(it.low),
        high = x(it.high),
        value = x(it.value),
    )
}

fn notes(report: &RunReport, summaries: &[ContenderSummary]) -> String {
    let mut text = String::new();
    let mut note = |message: String| {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", escape(&message));
    };
    for mixed in report.mixed_identities() {
        note(format!("{}.", one_line(&mixed.to_string())));
    }
    for it in summaries {
        let label = one_line(&it.label);
        if !it.flaky.is_empty() {
            note(format!("Flaky with {label}: {}", it.flaky.join(", ")));
        }
        if it.replayed {
            note(format!(
                "{label}: its answers are scripted, not those of a model."
            ));
        }
        if it.cost_is_partial {
            note(format!(
                "{label}: some costs are unknown, so the sum is a lower bound."
            ));
        }
    }
    text
}

/// A point of the chart: label, horizontal value, estimate.
type Point<'a> = (&'a str, f64, Estimate);

/// Score against cost per trial, or against time if no cost is known.
fn scatter(summaries: &[ContenderSummary]) -> String {
    let points = |x: fn(&ContenderSummary) -> Option<f64>| -> Vec<Point<'_>> {
        let known = summaries.iter();
        known
            .filter_map(|it| Some((it.label.as_str(), x(it)?, it.pass_at_1?)))
            .collect()
    };
    let by_cost = points(|it| it.cost_usd.map(|cost| cost.mean));
    let (title, points, show): (_, _, fn(f64) -> String) = if by_cost.is_empty() {
        let by_time = points(|it| it.wall_ms.map(|wall| wall.median));
        ("Score against time", by_time, |x| duration(Some(x)))
    } else {
        ("Score against cost", by_cost, |x| dollars(Some(x)))
    };
    if points.is_empty() {
        return String::new();
    }
    let axis = if title.ends_with("cost") {
        "mean cost per trial"
    } else {
        "median time"
    };
    format!("<h2>{title}</h2>\n{}", chart(&points, axis, show))
}

fn chart(points: &[Point<'_>], axis: &str, show: fn(f64) -> String) -> String {
    const LEFT: f64 = 56.0;
    const WIDTH: f64 = 560.0;
    const TOP: f64 = 16.0;
    const HEIGHT: f64 = 220.0;
    let most = points.iter().map(|(_, x, _)| *x).fold(0.0, f64::max);
    let most = if most > 0.0 { most * 1.15 } else { 1.0 };
    let x = |value: f64| LEFT + value / most * WIDTH;
    let y = |value: f64| TOP + (1.0 - value) * HEIGHT;
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\"><svg width=\"820\" height=\"290\" viewBox=\"0 0 820 290\" \
         role=\"img\" aria-label=\"pass@1 against {axis}\">\n"
    );
    for step in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = writeln!(
            text,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"muted\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <text class=\"muted\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            LEFT + WIDTH,
            LEFT - 8.0,
            y(step) + 4.0,
            percent(Some(step)),
            x(most * step),
            TOP + HEIGHT + 20.0,
            show(most * step),
            at = y(step),
        );
    }
    let middle = LEFT + WIDTH / 2.0;
    let bottom = TOP + HEIGHT + 44.0;
    let _ = writeln!(
        text,
        "<text class=\"muted\" x=\"{middle}\" y=\"{bottom}\" text-anchor=\"middle\">{axis}</text>"
    );
    let columns = apart(points.iter().map(|(_, at, _)| x(*at)));
    let labels = label_heights(points, &y);
    for (((label, _, estimate), label_y), cx) in points.iter().zip(labels).zip(columns) {
        let cy = y(estimate.value);
        let _ = writeln!(
            text,
            "<line class=\"whisker\" x1=\"{cx:.1}\" x2=\"{cx:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
             <circle class=\"dot\" cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"6\"/>\
             <text x=\"{:.1}\" y=\"{label_y:.1}\">{}</text>",
            y(estimate.low),
            y(estimate.high),
            cx + 11.0,
            escape(&super::table::clip(&one_line(label), 32)),
        );
    }
    text.push_str("</svg></div>\n");
    text
}

/// Horizontal places, moved apart so that intervals do not cover each other.
fn apart(places: impl Iterator<Item = f64>) -> Vec<f64> {
    const APART: f64 = 9.0;
    let mut taken: Vec<f64> = Vec::new();
    for place in places {
        let mut place = place;
        while taken.iter().any(|other| (other - place).abs() < APART) {
            place += APART;
        }
        taken.push(place);
    }
    taken
}

/// Heights of labels, moved apart so that they do not overlap.
fn label_heights(points: &[Point<'_>], y: &impl Fn(f64) -> f64) -> Vec<f64> {
    const APART: f64 = 15.0;
    let mut order: Vec<usize> = (0..points.len()).collect();
    let height = |index: &usize| y(points[*index].2.value) + 4.0;
    order.sort_by(|a, b| height(a).total_cmp(&height(b)));
    let mut heights = vec![0.0; points.len()];
    let mut last = f64::NEG_INFINITY;
    for index in order {
        last = height(&index).max(last + APART);
        heights[index] = last;
    }
    heights
}

fn heatmap(report: &RunReport, trials: &[&TrialResult]) -> String {
    let cells = report.cells();
    let mut first: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (index, trial) in trials.iter().enumerate() {
        let key = (trial.key.case.as_str(), trial.key.contender.as_str());
        first.entry(key).or_insert(index);
    }
    let mut text = String::from(
        "<h2>Tasks</h2>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"heat\">\n<thead><tr>\
         <th>task</th>",
    );
    for contender in &report.contenders {
        let label = escape(&one_line(&contender.label));
        let _ = write!(text, "<th class=\"agent\">{label}</th>");
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for case in report.cases() {
        let _ = write!(
            text,
            "<tr><td class=\"task\">{}</td>",
            escape(&one_line(case))
        );
        for contender in &report.contenders {
            let key = (case, contender.label.as_str());
            let cell = cells.get(&key).copied().unwrap_or_default();
            text.push_str(&heat_cell(cell, first.get(&key).copied()));
        }
        text.push_str("</tr>\n");
    }
    text.push_str(
        "</tbody></table></div>\n<p class=\"muted\">Passed trials of those that count. A cell \
         leads to its first trial. ! not judged, ~ does not count, · no result.</p>\n",
    );
    text
}

fn heat_cell(cell: Cell, trial: Option<usize>) -> String {
    let scored = cell.passed + cell.failed + cell.errored;
    let class = match cell.rate() {
        None => "rnone",
        Some(rate) if rate >= 1.0 => "r100",
        Some(rate) if rate > 0.0 => "rsome",
        Some(_) => "r0",
    };
    let mark = match class {
        "r100" => "✓ ",
        "r0" => "✗ ",
        _ => "",
    };
    let mut shown = if scored > 0 {
        format!("{mark}{}/{scored}", cell.passed)
    } else {
        "–".to_owned()
    };
    let aside = [
        (cell.errored, '!'),
        (cell.neutral, '~'),
        (cell.missing, '·'),
    ];
    for (number, sign) in aside.into_iter().filter(|(number, _)| *number > 0) {
        let _ = write!(shown, " {number}{sign}");
    }
    match trial {
        Some(index) => format!(
            "<td class=\"cell\"><a class=\"{class}\" href=\"#trial-{index}\">{shown}</a></td>"
        ),
        None => format!("<td class=\"cell\"><span class=\"{class}\">{shown}</span></td>"),
    }
}
