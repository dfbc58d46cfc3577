//! Completeness: readers of a large session, none of which may miss an event.

use anyhow::{Result, bail, ensure};

use super::contenders::Bench;
use super::report::Readers;
use super::rounds::sample;

const COUNTS: [u64; 3] = [1, 8, 64];

/// Reads 500,000 events with several readers. Fails if one is lost.
pub(super) fn check(bench: &Bench) -> Result<Vec<Readers>> {
    let mut all = Vec::new();
    for readers in COUNTS {
        eprintln!("{readers} readers");
        let samples = sample(bench.sessions("readers", 1, &[&readers.to_string()]), false)?;
        let [events, lost, ms] = samples.concat()[..] else {
            bail!("no samples of {readers} readers");
        };
        ensure!(lost == 0.0, "{readers} readers lost {lost} events");
        ensure!(events > 500_000.0, "only {events} events were read");
        all.push(Readers {
            readers,
            events,
            lost,
            ms,
        });
    }
    Ok(all)
}
