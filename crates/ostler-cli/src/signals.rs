//! Signals: Ctrl-C interrupts the turn and a second one kills the agent; SIGTERM and SIGHUP stop
//! gracefully; SIGCONT redraws the screen.

use crate::fault::{Fault, Result};

/// Action requested by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalAction {
    Interrupt,
    Terminate,
    /// The program resumes after a suspend (Ctrl-Z).
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

    use super::{Fault, Result, SignalAction};
    use crate::environment;
    use crate::waiting::or_pending;

    /// Termination signals within this time count as one: `timeout` signals the process and then
    /// its group.
    const ECHO_WINDOW: Duration = Duration::from_millis(300);

    /// Signal handlers.
    pub(crate) struct Signals {
        int: Option<Signal>,
        term: Option<Signal>,
        hup: Option<Signal>,
        cont: Option<Signal>,
        /// Runs while another termination signal counts as the same one.
        echo: Option<Pin<Box<Sleep>>>,
    }

    impl Signals {
        /// Listens for signals that were not ignored at startup: `nohup` ignores SIGHUP, and a
        /// shell without job control ignores SIGINT for background processes.
        pub(crate) fn listen() -> Result<Self> {
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

        /// Waits for the next signal. Cancel safe.
        pub(crate) async fn next(&mut self) -> SignalAction {
            loop {
                // An ignored signal never arrives.
                tokio::select! {
                    Some(()) = next_of(&mut self.int) => return SignalAction::Interrupt,
                    Some(()) = next_of(&mut self.cont) => return SignalAction::Continue,
                    Some(()) = next_of(&mut self.term) => {}
                    Some(()) = next_of(&mut self.hup) => {}
                    () = or_pending(self.echo.as_mut()) => {
                        self.echo = None;
                        continue;
                    }
                }
                let window = Box::pin(tokio::time::sleep(ECHO_WINDOW));
                if self.echo.replace(window).is_none() {
                    return SignalAction::Terminate;
                }
            }
        }
    }

    fn next_of(signal: &mut Option<Signal>) -> impl Future<Output = Option<()>> {
        or_pending(signal.as_mut().map(Signal::recv))
    }
}

/// Ctrl-C only.
#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn listen() -> Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) -> SignalAction {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        SignalAction::Interrupt
    }
}
