//! The ratios as a drawing: how many times slower (or larger) each peer is than Ostler.

use std::fmt::Write as _;

use super::contenders::PEERS;
use super::report::Report;
use super::rows::{ROWS, Row};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 240.0;
const RIGHT: f64 = 50.0;
const BAR: f64 = 12.0;
const GAP: f64 = 12.0;
const TOP: f64 = 72.0;

/// Colours of the peers; each has enough contrast on white and on black.
const COLOURS: [&str; PEERS.len()] = ["#d9730d", "#c2508f", "#2e8b57", "#3b82c4"];

const STYLE: &str = "text{font:12px sans-serif;fill:#4b5563}\
    .title{font-weight:bold;font-size:14px}.small{font-size:10px}\
    line{stroke:#9ca3af;stroke-width:1;stroke-dasharray:2 3}.one{stroke-dasharray:none}\
    @media (prefers-color-scheme:dark){text{fill:#c9d1d9}}";

/// Logarithmic scale that includes one.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(ratios: impl Iterator<Item = f64>) -> Self {
        let start = Self {
            low: 0.0,
            high: 1.0,
        };
        ratios.map(f64::log10).fold(start, |scale, it| Self {
            low: scale.low.min(it),
            high: scale.high.max(it),
        })
    }

    fn x(&self, ratio: f64) -> f64 {
        let share = (ratio.log10() - self.low) / (self.high - self.low);
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }
}

/// Returns an SVG with a bar per peer and row. Bars to the left of one are peers ahead of Ostler.
pub(super) fn svg(report: &Report) -> String {
    let rows: Vec<(&Row, Vec<(usize, f64)>)> = ROWS
        .iter()
        .map(|row| (row, ratios(report, row)))
        .filter(|(_, ratios)| !ratios.is_empty())
        .collect();
    let all = rows.iter().flat_map(|(_, ratios)| ratios);
    let scale = Scale::of(all.map(|(_, ratio)| *ratio));
    let (mut bars, mut y) = (String::new(), TOP);
    for (row, ratios) in &rows {
        let middle = y + BAR * ratios.len() as f64 / 2.0 + 3.0;
        let label = label(row);
        let _ = writeln!(bars, r#"<text x="10" y="{middle:.0}">{label}</text>"#);
        for (peer, ratio) in ratios {
            bars.push_str(&bar(&scale, COLOURS[*peer], *ratio, y));
            y += BAR;
        }
        y += GAP;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y:.0}\" role=\"img\" \
         aria-label=\"Times and memory of other SDKs, as multiples of Ostler's\">\n\
         <style>{STYLE}</style>\n\
         <text class=\"title\" x=\"10\" y=\"20\">Other SDKs as multiples of Ostler: \
         right of ×1 is slower or larger</text>\n{}{}{bars}</svg>\n",
        legend(),
        grid(&scale, y - GAP),
    )
}

fn bar(scale: &Scale, colour: &str, ratio: f64, y: f64) -> String {
    let (one, end) = (scale.x(1.0), scale.x(ratio));
    let (x, width) = (one.min(end), (end - one).abs().max(1.0));
    let (height, text_x, text_y) = (BAR - 2.0, one.max(end) + 4.0, y + BAR - 3.0);
    let ratio = format!("{ratio:.*}", usize::from(ratio < 10.0));
    format!(
        r#"<rect x="{x:.0}" y="{y:.0}" width="{width:.0}" height="{height:.0}" fill="{colour}"/><text class="small" x="{text_x:.0}" y="{text_y:.0}">×{ratio}</text>
"#
    )
}

/// Returns a line at each power of ten.
fn grid(scale: &Scale, bottom: f64) -> String {
    let mut text = String::new();
    for (ratio, class) in [(1.0_f64, "one"), (10.0, ""), (100.0, ""), (1000.0, "")] {
        if ratio.log10() <= scale.high {
            let x = scale.x(ratio);
            let _ = writeln!(
                text,
                r#"<line class="{class}" x1="{x:.0}" y1="{:.0}" x2="{x:.0}" y2="{bottom:.0}"/><text class="small" x="{x:.0}" y="{:.0}" text-anchor="middle">×{ratio}</text>"#,
                TOP - 4.0,
                TOP - 8.0
            );
        }
    }
    text
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
