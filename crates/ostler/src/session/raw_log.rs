//! The copy of what the agent prints, byte for byte. If it cannot be written, one notice says so and the run goes on.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use ostler_core::event::{Level, Notice};
use ostler_core::machine::Input;

use super::mind::Mind;

/// One copy.
pub(super) struct RawLog(Option<File>);

impl RawLog {
    pub(super) fn open(path: &Path, mind: &mut Mind) -> Self {
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            // A pipe without a reader is an error now, not a wait for ever.
            let flags = rustix::fs::OFlags::NONBLOCK.bits();
            options.mode(0o600).custom_flags(i32::try_from(flags).unwrap_or(0));
        }
        match options.open(path).and_then(keep_private) {
            Ok(file) => Self(Some(file)),
            Err(error) => {
                Self::complain(&format!("The raw log {} cannot be opened: {error}.", path.display()), mind);
                Self(None)
            }
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8], mind: &mut Mind) {
        if let Some(file) = &mut self.0
            && let Err(error) = file.write_all(bytes)
        {
            self.0 = None;
            Self::complain(&format!("The raw log cannot be written any more: {error}."), mind);
        }
    }

    fn complain(message: &str, mind: &mut Mind) {
        let notice = Notice::new(Level::Warning, "raw_log_failed", message);
        mind.handle(Input::Remark(notice));
    }
}

/// A log that was there before, and open to others, is for its owner alone from now on.
fn keep_private(file: File) -> std::io::Result<File> {
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    }
    Ok(file)
}
