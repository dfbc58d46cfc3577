//! Generates a subject for each transport of each manifest, and macros that list them.

#![expect(
    clippy::disallowed_methods,
    reason = "cargo passes variables to a build script"
)]

use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

use ostler_agents::{Group, Manifest};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut subjects, mut names, mut members, mut agents) =
        (String::new(), String::new(), String::new(), String::new());
    for manifest in ostler_agents::all() {
        let group = group(manifest);
        let ident = manifest.name.replace('-', "_");
        if manifest.install.is_some() {
            writeln!(
                agents,
                "$each! {{ $wanted {group} {ident} {:?} }}",
                manifest.name
            )?;
        }
        for (id, transport) in &manifest.transports {
            let name = id.to_uppercase();
            let about = format!("`{}`: {}.", manifest.name, transport["about"]);
            writeln!(
                subjects,
                "/// {about}\npub static {name}: LazyLock<Subject> = \
                 LazyLock::new(|| Subject::load({id:?}));"
            )?;
            write!(names, "&{name}, ")?;
            if transport.get("in_suite").and_then(toml::Value::as_bool) != Some(false) {
                let lacks = transport.get("lacks").and_then(toml::Value::as_table);
                let lacks: Vec<&str> = lacks
                    .into_iter()
                    .flat_map(toml::Table::keys)
                    .map(String::as_str)
                    .collect();
                writeln!(
                    members,
                    "$each! {{ $wanted {group} {id} [{}] }}",
                    lacks.join(" ")
                )?;
            }
        }
    }
    let text = format!(
        "{subjects}
/// All subjects, in the order of their manifests.
pub static SUBJECTS: &[&LazyLock<Subject>] = &[{names}];

/// Invokes a macro for each member of the conformance suite: with what the caller wants, the
/// group, the name in the suite, and the rows that it lacks.
#[macro_export]
macro_rules! each_member {{ ($each:path, $wanted:ident) => {{ {members} }}; }}

/// Invokes a macro for each real agent: with what the caller wants, the group, an identifier, and
/// the agent's name.
#[macro_export]
macro_rules! each_real_agent {{ ($each:path, $wanted:ident) => {{ {agents} }}; }}
"
    );
    fs::write(
        PathBuf::from(env::var("OUT_DIR")?).join("subjects.rs"),
        text,
    )?;
    Ok(())
}

fn group(manifest: &Manifest) -> &'static str {
    match manifest.group {
        Group::Own => "own",
        Group::Real => "real",
        Group::Heavy => "heavy",
    }
}
