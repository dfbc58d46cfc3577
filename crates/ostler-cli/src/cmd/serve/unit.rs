//! Unit files of service managers.

use std::path::Path;

use crate::args::UnitKind;

/// Returns the unit file that starts this program as a daemon of the user.
pub(super) fn text(kind: UnitKind, program: &Path) -> String {
    let program = program.display();
    match kind {
        UnitKind::Systemd => format!(
            "[Unit]\n\
             Description=Ostler: sessions of coding agents\n\n\
             [Service]\n\
             ExecStart=\"{program}\" serve\n\
             Restart=on-failure\n\
             KillMode=mixed\n\
             TimeoutStopSec=60\n\n\
             [Install]\n\
             WantedBy=default.target"
        ),
        UnitKind::Launchd => format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
             \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <plist version=\"1.0\">\n\
             <dict>\n  \
             <key>Label</key><string>dev.ostler.daemon</string>\n  \
             <key>ProgramArguments</key>\n  \
             <array><string>{program}</string><string>serve</string></array>\n  \
             <key>RunAtLoad</key><true/>\n  \
             <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n\
             </dict>\n\
             </plist>"
        ),
    }
}
