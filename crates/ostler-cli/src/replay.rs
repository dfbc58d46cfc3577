//! `ostler replay`: a recording read into the same outputs as a run, without starting anything.

use std::io::Read;

use ostler::{Replay, Spec, What};

use crate::args::ReplayArgs;
use crate::config::load_for;
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::output::{self, Liveness};

/// Reads a recording and shows it.
pub(crate) fn run(args: &ReplayArgs) -> Result<Code, Fault> {
    let agent = crate::spec::named(&load_for(&args.agent)?, &args.agent)?.agent;
    let cannot = |error: std::io::Error| Fault::usage(format!("{} cannot be read: {error}", args.file.display()));
    let mut source: Box<dyn Read> = if args.file.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(&args.file).map_err(cannot)?)
    };
    let mut spec = Spec::default();
    crate::spec::set_each(&mut spec.settings, &args.set)?;
    let mut replay = Replay::new(agent.dialect(), &spec);
    let mut shown = output::open(args.output, Liveness::Recorded);
    let mut chunk = vec![0; 64 * 1024];
    let mut code = exit::INTERNAL;
    let mut show = |events: Vec<ostler::Event>| -> std::io::Result<()> {
        for event in events {
            if let What::Ended(ended) = &event.what {
                code = exit::of(ended.outcome.cause);
            }
            shown.event(&event)?;
        }
        shown.flush()
    };
    loop {
        let n = source.read(&mut chunk).map_err(cannot)?;
        let events = if n == 0 { break } else { replay.push(&chunk[..n]) };
        if let Err(error) = show(events) {
            return output::gone(&error);
        }
    }
    match show(replay.finish()) {
        Ok(()) => Ok(code),
        Err(error) => output::gone(&error),
    }
}
