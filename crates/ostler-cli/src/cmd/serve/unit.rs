//! Unit files of service managers.

use std::path::Path;

use crate::args::UnitKind;

/// Returns the unit file that starts this program as a daemon of the user, with these flags.
pub(super) fn text(kind: UnitKind, program: &Path, flags: &[String]) -> String {
    let program = program.display().to_string();
    let words = [program, "serve".to_owned()];
    let words = words.iter().chain(flags);
    match kind {
        UnitKind::Systemd => {
            let command: Vec<String> = words.map(|word| systemd_word(word)).collect();
            let command = command.join(" ");
            format!(
                "[Unit]\n\
             Description=Ostler: sessions of coding agents\n\n\
             [Service]\n\
             ExecStart={command}\n\
             Restart=on-failure\n\
             KillMode=mixed\n\
             TimeoutStopSec=60\n\n\
             [Install]\n\
             WantedBy=default.target"
            )
        }
        UnitKind::Launchd => {
            let words: Vec<String> = words.map(|word| xml_string(word)).collect();
            let words = words.concat();
            format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
             \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <plist version=\"1.0\">\n\
             <dict>\n  \
             <key>Label</key><string>dev.ostler.daemon</string>\n  \
             <key>ProgramArguments</key>\n  \
             <array>{words}</array>\n  \
             <key>RunAtLoad</key><true/>\n  \
             <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n\
             </dict>\n\
             </plist>"
            )
        }
    }
}

/// Quotes a word of a command in a unit of systemd, which expands `%` and `$`.
fn systemd_word(word: &str) -> String {
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' | '$' => quoted.extend([c, c]),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Returns a string element of a property list.
fn xml_string(word: &str) -> String {
    let word = word.replace('&', "&amp;").replace('<', "&lt;");
    format!("<string>{word}</string>")
}
