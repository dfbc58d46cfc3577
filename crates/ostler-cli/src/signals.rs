//! Signals: Ctrl-C interrupts the turn, a second one kills; SIGTERM and SIGHUP stop in good order; after SIGCONT what was
//! on the screen is shown again.

use crate::fault::Fault;

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caught {
    Interrupt,
    Terminate,
    /// The program was stopped (Ctrl-Z), and goes on.
    Continue,
}

#[cfg(unix)]
pub(crate) use unix::Signals;

#[cfg(unix)]
mod unix {
    use std::pin::Pin;
    use std::time::Duration;

    use tokio::signal::unix::{Signal, SignalKind, signal};
    use tokio::time::Sleep;

    use super::{Caught, Fault};
    use crate::environment;

    /// Two signals to end within this time are one: `timeout` tells the process and then its whole group.
    const ONE: Duration = Duration::from_millis(300);

    /// The signals that are heeded.
    pub(crate) struct Signals {
        int: Option<Signal>,
        term: Option<Signal>,
        hup: Option<Signal>,
        cont: Option<Signal>,
        /// Runs while a signal to end is the echo of the one before.
        echo: Option<Pin<Box<Sleep>>>,
    }

    impl Signals {
        /// Listens to those that whoever started this program did not have ignored: `nohup` ignores SIGHUP, and a shell
        /// without job control ignores SIGINT for what it runs in the background.
        pub(crate) fn listen() -> Result<Self, Fault> {
            let ignored = environment::ignored_signals();
            let listen = |kind: SignalKind| {
                let bit = u32::try_from(kind.as_raw_value() - 1).unwrap_or(0);
                if ignored.checked_shr(bit).unwrap_or(0) & 1 == 1 {
                    return Ok(None);
                }
                signal(kind).map(Some).map_err(Fault::internal)
            };
            Ok(Self {
                int: listen(SignalKind::interrupt())?,
                term: listen(SignalKind::terminate())?,
                hup: listen(SignalKind::hangup())?,
                cont: listen(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
                echo: None,
            })
        }

        /// The next one. It can be dropped without losing any.
        pub(crate) async fn next(&mut self) -> Caught {
            loop {
                tokio::select! {
                    () = heard(&mut self.int) => return Caught::Interrupt,
                    () = heard(&mut self.cont) => return Caught::Continue,
                    () = heard(&mut self.term) => {}
                    () = heard(&mut self.hup) => {}
                    () = over(&mut self.echo) => {
                        self.echo = None;
                        continue;
                    }
                }
                if self
                    .echo
                    .replace(Box::pin(tokio::time::sleep(ONE)))
                    .is_none()
                {
                    return Caught::Terminate;
                }
            }
        }
    }

    async fn heard(signal: &mut Option<Signal>) {
        // A signal without a listener is never heard.
        let heard = match signal {
            Some(signal) => signal.recv().await,
            None => None,
        };
        if heard.is_none() {
            std::future::pending::<()>().await;
        }
    }

    async fn over(time: &mut Option<Pin<Box<Sleep>>>) {
        match time {
            Some(time) => time.await,
            None => std::future::pending().await,
        }
    }
}

/// Ctrl-C only.
#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn listen() -> Result<Self, Fault> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) -> Caught {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Caught::Interrupt
    }
}
