//! What the Rust contenders of `cargo xtask bench` share: `PROGRAM ROW DIR RUNS` prints samples.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Sessions that are alive at once.
const SESSIONS: usize = 1000;

/// A way to run Claude Code.
#[expect(async_fn_in_trait, reason = "the runtime has one thread")]
pub trait Peer {
    /// A session that ended its first turn and waits for a message.
    type Idle;

    /// Runs an agent to its end, and passes the text of each delta to `each`.
    async fn run(agent: &Path, each: impl FnMut(&str)) -> Result<()>;

    /// Starts an agent that stays alive after its turn, if the API can do that.
    async fn start(_agent: &Path) -> Result<Option<Self::Idle>> {
        Ok(None)
    }

    /// Decodes a line, if the API can do that without a process. Returns false if it is not valid.
    fn decode(_line: &str) -> bool {
        unimplemented!("the API cannot decode a line on its own")
    }
}

/// Measures the row that the arguments name.
pub fn measure<P: Peer>() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [row, dir, runs] = &arguments[..] else {
        return Err("usage: PROGRAM ROW DIR RUNS".into());
    };
    let (dir, runs) = (Path::new(dir), runs.parse()?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match row.as_str() {
        "cold" => runtime.block_on(P::run(&dir.join("short"), |_| {})),
        "warm" | "mixed" => runtime.block_on(repeat::<P>(&dir.join(row), runs)),
        "latency" => runtime.block_on(latency::<P>(&dir.join(row))),
        "idle" => runtime.block_on(idle::<P>(&dir.join(row))),
        "decode" => decode::<P>(dir, runs),
        other => Err(format!("unknown row {other}").into()),
    }
}

/// Prints the milliseconds of each run after a first one.
async fn repeat<P: Peer>(agent: &Path, runs: usize) -> Result<()> {
    let expected = std::fs::read_to_string(agent.with_extension("jsonl"))?;
    let expected = expected.matches(r#""type":"text_delta""#).count();
    let mut deltas = 0;
    P::run(agent, |_| deltas += 1).await?;
    assert_eq!(deltas, expected, "a run yields every delta");
    for _ in 0..runs {
        let begin = Instant::now();
        P::run(agent, |text| _ = black_box(text)).await?;
        println!("{:.3}", begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok(())
}

/// Prints the microseconds from each line to its event. The line says when it was written.
async fn latency<P: Peer>(agent: &Path) -> Result<()> {
    let mut samples = Vec::new();
    P::run(agent, |text| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        if let (Ok(now), Ok(sent)) = (now, text.parse::<u128>()) {
            samples.push(now.as_nanos().saturating_sub(sent) as f64 / 1e3);
        }
    })
    .await?;
    for sample in samples.iter().skip(100) {
        println!("{sample:.1}");
    }
    Ok(())
}

/// Prints the KiB of memory per idle session of this process.
async fn idle<P: Peer>(agent: &Path) -> Result<()> {
    let warm = P::start(agent).await?;
    let (before, mut sessions) = (own_kib()?, Vec::new());
    for _ in 0..SESSIONS {
        sessions.extend(P::start(agent).await?);
    }
    assert_eq!(sessions.len(), SESSIONS);
    std::thread::sleep(Duration::from_millis(200));
    println!("{:.1}", (own_kib()? - before) / SESSIONS as f64);
    drop((warm, sessions));
    Ok(())
}

fn own_kib() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no VmRSS")?.parse()?)
}

/// Prints MB/s for deltas, tool results and a mix.
fn decode<P: Peer>(dir: &Path, runs: usize) -> Result<()> {
    let read = |name| std::fs::read_to_string(dir.join(format!("decode-{name}.jsonl")));
    let inputs = [read("deltas")?, read("results")?, read("mixed")?];
    for _ in 0..runs {
        let speeds = inputs.each_ref().map(|input| {
            let begin = Instant::now();
            assert!(input.lines().all(|line| P::decode(black_box(line))));
            input.len() as f64 / 1e6 / begin.elapsed().as_secs_f64()
        });
        println!("{:.1} {:.1} {:.1}", speeds[0], speeds[1], speeds[2]);
    }
    Ok(())
}
