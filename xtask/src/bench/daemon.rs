//! `cargo xtask bench daemon`: the daemon and sandbox-agent side by side.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use super::{contenders, docs, inputs, machine};

const HELP: &str = "\
usage: cargo xtask bench daemon [--quick] [--write-docs] [--profile NAME]

Builds the daemon, installs sandbox-agent (npm), and measures both in turn with scripted agents:
memory, time to create a session and to a first answer, events per second, processor time per event, lost events.

  --quick         one round with few sessions, to see that it works
  --profile NAME  cargo profile of Ostler's programs (release)
  --write-docs    also rewrite the table of the daemon in docs/performance.md
";

/// Contenders: name for the program, title of the column.
const CONTENDERS: [(&str, &str); 3] = [
    ("claude", "Ostler"),
    ("acp", "Ostler, ACP agent"),
    ("peer", "sandbox-agent"),
];

/// Rows: name of the number, title, greatest value that meets the goal, decimal places.
const ROWS: [(&str, &str, Option<f64>, usize); 8] = [
    ("rss", "memory of an idle daemon (RSS), MiB", Some(15.0), 1),
    (
        "session",
        "private memory per idle session, KiB",
        Some(20.0),
        1,
    ),
    (
        "long",
        "the same after a turn of 1,000 deltas, KiB",
        None,
        1,
    ),
    (
        "accept",
        "requests that create a session, until the answer, ms",
        None,
        2,
    ),
    (
        "create",
        "new session to the end of its first turn, ms",
        None,
        2,
    ),
    ("events", "events delivered per second", None, 0),
    (
        "cost",
        "processor time per event delivered, µs",
        Some(18.0),
        1,
    ),
    ("lost", "events not delivered", Some(0.0), 0),
];

/// Rounds, idle sessions, bursts and events of a burst.
struct Effort {
    rounds: usize,
    sessions: usize,
    bursts: usize,
    events: usize,
}

const FULL: Effort = Effort {
    rounds: 5,
    sessions: 200,
    bursts: 10,
    events: 5_000,
};
const QUICK: Effort = Effort {
    rounds: 1,
    sessions: 20,
    bursts: 3,
    events: 1_000,
};

/// Arguments of cargo for what is measured.
const PROGRAMS: [&str; 6] = [
    "--package",
    "ostler-cli",
    "--bench",
    "daemon",
    "--bin",
    "ostler",
];

type Samples = BTreeMap<(&'static str, String), Vec<f64>>;

pub(super) fn run(arguments: &[String]) -> Result<ExitCode> {
    let (mut effort, mut profile, mut writes_docs) = (FULL, "release", false);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => effort = QUICK,
            "--write-docs" => writes_docs = true,
            "--profile" => profile = arguments.next().context("--profile needs a name")?,
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            other => bail!("unknown argument {other:?}; see `cargo xtask bench daemon --help`"),
        }
    }
    let facts = machine::facts();
    let dir = super::directory()?.join("daemon");
    inputs::write_daemon_agents(&dir, effort.events)?;
    let [daemon, ostler] = contenders::build(profile, &PROGRAMS, ["daemon", "ostler"])?;
    let mut notes = Vec::new();
    let peer = install(&dir).map_err(|error| notes.push(format!("sandbox-agent: {error:#}")));
    let mut samples = Samples::new();
    for round in 1..=effort.rounds {
        eprintln!("round {round} of {}", effort.rounds);
        // Another one first each time.
        for offset in 0..CONTENDERS.len() {
            let (contender, _) = CONTENDERS[(round + offset) % CONTENDERS.len()];
            let program = match (contender, &peer) {
                ("peer", Ok(peer)) => peer,
                ("peer", Err(())) => continue,
                _ => &ostler,
            };
            let mut command = Command::new(&daemon);
            command.arg(contender).arg(program).arg(&dir);
            command.args([effort.sessions, effort.bursts].map(|count| count.to_string()));
            if let Err(error) = sample(&mut command, contender, &mut samples) {
                notes.push(format!("{contender}: {error:#}"));
            }
        }
    }
    let text = format!(
        "{}\n\n{}",
        facts.describe(),
        markdown(&samples, &version(&dir), &notes)
    );
    println!("{text}");
    if writes_docs {
        docs::write_daemon(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs one round of a contender.
fn sample(command: &mut Command, contender: &'static str, samples: &mut Samples) -> Result<()> {
    let output = command.stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    for line in text.lines() {
        let (name, value) = line.split_once(' ').context("a line without a value")?;
        let all = samples.entry((contender, name.to_owned())).or_default();
        all.push(value.parse()?);
    }
    if !output.status.success() {
        bail!("the benchmark failed");
    }
    Ok(())
}

fn markdown(samples: &Samples, version: &str, notes: &[String]) -> String {
    let has = |contender| samples.keys().any(|(name, _)| *name == contender);
    let columns: Vec<_> = CONTENDERS.into_iter().filter(|it| has(it.0)).collect();
    let titles: Vec<String> = columns
        .iter()
        .map(|(name, title)| match *name {
            "peer" => format!("{title} {version}"),
            _ => (*title).to_owned(),
        })
        .collect();
    let mut text = format!(
        "| median | goal | {} |\n|---|---{}|\n",
        titles.join(" | "),
        "|---".repeat(columns.len())
    );
    for (name, title, goal, places) in ROWS {
        let goal = match goal {
            Some(0.0) => "0".to_owned(),
            Some(goal) => format!("≤ {goal}"),
            None => "–".to_owned(),
        };
        let values = columns.iter().map(|(contender, _)| {
            let all = samples.get(&(*contender, name.to_owned()));
            all.map_or_else(|| "–".to_owned(), |all| format!("{:.places$}", median(all)))
        });
        let values: Vec<String> = values.collect();
        text += &format!("| {title} | {goal} | {} |\n", values.join(" | "));
    }
    for note in notes {
        text += &format!("\nLeft out: {note}.\n");
    }
    text
}

fn median(samples: &[f64]) -> f64 {
    let mut samples = samples.to_vec();
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Installs sandbox-agent, and returns its program.
fn install(dir: &Path) -> Result<PathBuf> {
    let folder = dir.join("sandbox-agent");
    if !folder.join(PACKAGE).exists() {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("package.json"), "{}")?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]);
        npm.arg("@sandbox-agent/cli");
        contenders::succeed(npm.current_dir(&folder))?;
    }
    // The program itself, not the script that starts it with Node.
    let scope = folder.join("node_modules/@sandbox-agent");
    let packages = std::fs::read_dir(&scope)?.flatten().map(|it| it.path());
    let program = packages
        .map(|package| package.join("bin/sandbox-agent"))
        .find(|program| std::fs::read(program).is_ok_and(|it| it.starts_with(b"\x7fELF")))
        .context("the npm package has no program for this machine")?;
    #[cfg(unix)]
    std::fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )?;
    Ok(program)
}

const PACKAGE: &str = "node_modules/@sandbox-agent/cli/package.json";

fn version(dir: &Path) -> String {
    let text = std::fs::read_to_string(dir.join("sandbox-agent").join(PACKAGE));
    let package = serde_json::from_str::<serde_json::Value>(&text.unwrap_or_default());
    let version = package
        .ok()
        .and_then(|it| Some(it["version"].as_str()?.to_owned()));
    version.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_the_columns_and_rows_that_were_measured() {
        let sample =
            |contender, name: &str, all: &[f64]| ((contender, name.to_owned()), all.to_vec());
        let samples = Samples::from([
            sample("claude", "rss", &[9.0, 12.04, 11.0]),
            sample("claude", "lost", &[0.0]),
        ]);
        let text = markdown(&samples, "1", &["sandbox-agent: no npm".to_owned()]);
        assert!(
            text.starts_with("| median | goal | Ostler |\n|---|---|---|\n"),
            "{text}"
        );
        assert!(text.contains("| ≤ 15 | 11.0 |"), "{text}");
        assert!(text.contains("| ≤ 18 | – |"), "{text}");
        assert!(
            text.ends_with("\nLeft out: sandbox-agent: no npm.\n"),
            "{text}"
        );
    }
}
