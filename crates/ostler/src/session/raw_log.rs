//! Raw log: a byte-for-byte copy of the agent's output. A write error is reported once, and the
//! session continues.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use ostler_core::event::{Level, Notice, NoticeCode};
use ostler_core::log::older_raw;
use ostler_core::machine::Input;
use ostler_core::rotation::{Rotation, Step};
use ostler_core::size::ByteSize;

use super::engine::Engine;

/// A copy of the agent's raw output.
pub(super) struct RawLog {
    path: PathBuf,
    file: Option<File>,
    bound: Bound,
}

/// Size limit of a raw log.
pub(super) enum Bound {
    /// No limit: the file that the caller asked for.
    None,
    /// The copy in the store: limited in size, and no longer written once the session's log is
    /// full.
    Stored(Option<u64>, Option<Rotation>),
}

impl Bound {
    /// Returns the limit of the copy in the store.
    pub(super) fn stored(limit: Option<u64>) -> Self {
        Self::Stored(limit, limit.map(Rotation::new))
    }
}

impl RawLog {
    pub(super) fn open(path: &Path, bound: Bound, engine: &mut Engine) -> Self {
        let file = match create(path) {
            Ok(file) => Some(file),
            Err(error) => {
                let message = format!("Cannot open the raw log {}: {error}.", path.display());
                report_failure(&message, engine);
                None
            }
        };
        Self {
            path: path.to_owned(),
            file,
            bound,
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8], engine: &mut Engine) {
        if self.file.is_none()
            || (matches!(self.bound, Bound::Stored(..)) && engine.machine.is_log_full())
        {
            return;
        }
        let had_dropped = self.has_dropped();
        if let Err(error) = self.try_write(bytes) {
            self.file = None;
            let message = format!("Cannot write to the raw log: {error}. It is incomplete.");
            return report_failure(&message, engine);
        }
        if let Bound::Stored(Some(limit), _) = self.bound
            && self.has_dropped()
            && !had_dropped
        {
            let size = ByteSize(limit);
            let message = format!(
                "The agent's raw output exceeds {size} (--max-raw-size); \
                 the oldest part is dropped."
            );
            engine.handle(Input::Notice(Notice::new(
                Level::Info,
                NoticeCode::RawDropped,
                message,
            )));
        }
    }

    fn has_dropped(&self) -> bool {
        matches!(&self.bound, Bound::Stored(_, Some(rotation)) if rotation.has_dropped())
    }

    fn try_write(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let Bound::Stored(_, Some(rotation)) = &mut self.bound else {
            return file.write_all(bytes);
        };
        while !bytes.is_empty() {
            let (step, left) = rotation.step(bytes);
            match step {
                Step::Write(bytes) => file.write_all(bytes)?,
                Step::Rotate => {
                    std::fs::rename(&self.path, older_raw(&self.path))?;
                    *file = create(&self.path)?;
                }
                Step::Drop => {}
            }
            bytes = left;
        }
        Ok(())
    }
}

fn report_failure(message: &str, engine: &mut Engine) {
    let notice = Notice::new(Level::Warning, NoticeCode::RawLogFailed, message);
    engine.handle(Input::Notice(notice));
}

fn create(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Opening a FIFO without a reader fails instead of blocking forever.
        let flags = rustix::fs::OFlags::NONBLOCK.bits();
        options
            .mode(0o600)
            .custom_flags(i32::try_from(flags).unwrap_or(0));
    }
    options.open(path).and_then(make_private)
}

/// Restricts an existing log file to its owner.
fn make_private(file: File) -> std::io::Result<File> {
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    }
    Ok(file)
}
