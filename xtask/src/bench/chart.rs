//! The ratios as a drawing: how many times slower (or larger) each peer is than Ostler.

use std::fmt::Write as _;

use super::contenders::PEERS;
use super::report::Report;
use super::rows::{ROWS, Row};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 230.0;
const RIGHT: f64 = 60.0;
const BAR: f64 = 11.0;
const GAP: f64 = 14.0;
const TOP: f64 = 58.0;

/// Colours of the peers; each has enough contrast on white and on black.
const COLOURS: [&str; PEERS.len()] = ["#d9730d", "#c2508f", "#2e8b57", "#3b82c4"];

const STYLE: &str = "text{font:12px sans-serif;fill:#4b5563}\
    .title{font-weight:bold;font-size:14px}\
    line{stroke:#9ca3af;stroke-width:1}\
    @media (prefers-color-scheme:dark){text{fill:#c9d1d9}}";

/// Returns an SVG with a bar per peer and row, on a logarithmic scale.
pub(super) fn svg(report: &Report) -> String {
    let rows: Vec<(&Row, Vec<(usize, f64)>)> = ROWS
        .iter()
        .map(|row| (row, ratios(report, row)))
        .filter(|(_, ratios)| !ratios.is_empty())
        .collect();
    let all = rows.iter().flat_map(|(_, ratios)| ratios);
    let largest = all.map(|(_, ratio)| *ratio).fold(10.0, f64::max);
    let decades = largest.log10().ceil();
    let x = |ratio: f64| LEFT + ratio.log10().max(0.0) / decades * (WIDTH - LEFT - RIGHT);
    let mut bars = String::new();
    let mut y = TOP;
    for (row, ratios) in &rows {
        let height = BAR * ratios.len() as f64;
        let _ = writeln!(
            bars,
            r#"<text x="{:.0}" y="{:.0}" text-anchor="end">{}</text>"#,
            LEFT - 10.0,
            y + height / 2.0 + 4.0,
            label(row)
        );
        for (peer, ratio) in ratios {
            let end = x(*ratio).max(LEFT + 2.0);
            let _ = writeln!(
                bars,
                r#"<rect x="{LEFT}" y="{y:.0}" width="{:.0}" height="{:.0}" fill="{}"/>"#,
                end - LEFT,
                BAR - 2.0,
                COLOURS[*peer]
            );
            let _ = writeln!(
                bars,
                r#"<text x="{:.0}" y="{:.0}" font-size="10">×{}</text>"#,
                end + 4.0,
                y + BAR - 2.0,
                if *ratio < 10.0 {
                    format!("{ratio:.1}")
                } else {
                    format!("{ratio:.0}")
                }
            );
            y += BAR;
        }
        y += GAP;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y:.0}\" role=\"img\" \
         aria-label=\"Times and memory of other SDKs, as multiples of Ostler's\">\n\
         <style>{STYLE}</style>\n\
         <text class=\"title\" x=\"10\" y=\"20\">Other SDKs as multiples of Ostler \
         (longer is slower; logarithmic)</text>\n\
         {}<line x1=\"{LEFT}\" y1=\"{:.0}\" x2=\"{LEFT}\" y2=\"{:.0}\"/>\n{bars}</svg>\n",
        legend(),
        TOP - 6.0,
        y - GAP + 4.0
    )
}

/// Returns the ratio of each peer that took part.
fn ratios(report: &Report, row: &Row) -> Vec<(usize, f64)> {
    let ratio = |(at, peer): (usize, &&str)| Some((at, report.ratio(row, peer)?));
    PEERS.iter().enumerate().filter_map(ratio).collect()
}

/// Returns the title of a row without its unit.
fn label(row: &Row) -> &str {
    row.title.rsplit_once(", ").map_or(row.title, |it| it.0)
}

fn legend() -> String {
    let mut text = String::new();
    for (at, peer) in PEERS.iter().enumerate() {
        let x = 10.0 + 120.0 * at as f64;
        let _ = writeln!(
            text,
            r#"<rect x="{x}" y="32" width="10" height="10" fill="{}"/><text x="{}" y="41">{peer}</text>"#,
            COLOURS[at],
            x + 15.0
        );
    }
    text
}
