//! `ostler config show|path|example`: shows the configuration.

use ostler::config::{Field, Key, Origin, Row};
use ostler::render::clip::sanitize;
use ostler::trust::{FileKind, REMEDY, Standing};
use serde_json::{Value, json};

use super::policy::file_json;
use crate::args::{ConfigPathArgs, ConfigShowArgs, ConfigVerb, EXAMPLE};
use crate::config::{MODEL_VARIABLE, directory, load, locations, model};
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output::style::{DIM, WARN};
use crate::output::{eprint_line, print_json, print_line};
use crate::spec::find_agent;
use crate::trust::Project;

/// Runs the subcommand.
pub(crate) fn run(verb: &ConfigVerb) -> Result<Code> {
    match verb {
        ConfigVerb::Show(args) => show(args),
        ConfigVerb::Path(args) => path(args),
        ConfigVerb::Example => {
            print_line(EXAMPLE.trim_end());
            Ok(exit::OK)
        }
    }
}

fn show(args: &ConfigShowArgs) -> Result<Code> {
    let dir = directory(args.here.dir.as_deref())?;
    let project = Project::read(args.here.config, &args.here.policy(), &dir)?;
    let mut config = load(args.here.config, &project)?;
    if let Some(name) = &args.agent {
        find_agent(&config, name)?;
        config.set(Key::Agent, name, Origin::Flag("--agent"));
    }
    let default = config.default_agent();
    if let Some(name) = default.map(|entry| entry.value.text().to_owned()) {
        find_agent(&config, &name)?;
        if let Some(model) = model()? {
            let key = Key::AgentField(name, Field::Model);
            config.set(key, model, Origin::Variable(MODEL_VARIABLE));
        }
    }
    let rows = config.rows(args.agent.as_deref());
    if args.here.json {
        let ignored = config.ignored().iter().map(|ignored| {
            let mut value = origin(&ignored.entry.from);
            value["key"] = ignored.entry.key.to_string().into();
            value["why"] = ignored.why.as_str().into();
            value
        });
        let ignored: Vec<Value> = ignored.collect();
        let file = project.file(FileKind::Config).map(file_json);
        let values: Vec<Value> = rows.iter().map(as_json).collect();
        print_json(&json!({ "values": values, "ignored": ignored, "project": file }));
        return Ok(exit::OK);
    }
    let width = |cell: fn(&Row) -> &String| {
        rows.iter()
            .map(|row| cell(row).chars().count())
            .max()
            .unwrap_or(0)
            .min(50)
    };
    let (keys, values) = (width(|row| &row.key), width(|row| &row.value));
    for row in &rows {
        let (key, value) = (sanitize(&row.key), sanitize(&row.value).replace('\n', " "));
        outln!(
            "{key:keys$}  {value:values$}  {DIM}{}{DIM:#}",
            sanitize(&row.from.to_string())
        );
    }
    for ignored in config.ignored() {
        let line = format!(
            "{}: {} is ignored: {}",
            ignored.entry.from, ignored.entry.key, ignored.why
        );
        errln!("{WARN}!{WARN:#} {}", sanitize(&line));
    }
    if let Some(file) = project.file(FileKind::Config) {
        let path = sanitize(&file.path().to_string_lossy());
        let remedy = if file.is_trusted() { "" } else { REMEDY };
        eprint_line(format!("{path} is {}. {remedy}", file.standing.as_str()).trim_end());
    }
    Ok(exit::OK)
}

fn as_json(row: &Row) -> Value {
    let mut value = origin(&row.from);
    value["key"] = row.key.as_str().into();
    value["value"] = row.value.as_str().into();
    value
}

fn origin(from: &Origin) -> Value {
    match from {
        Origin::File { name, line } => json!({ "source": "file", "file": &**name, "line": line }),
        Origin::Flag(flag) => json!({ "source": "flag", "flag": flag }),
        Origin::Variable(name) => json!({ "source": "environment", "variable": name }),
        Origin::Default => json!({ "source": "default" }),
    }
}

fn path(args: &ConfigPathArgs) -> Result<Code> {
    let dir = directory(args.dir.as_deref())?;
    let project = Project::read(args.config, &args.policy(), &dir)?;
    let locations = if args.config.no_config {
        Vec::new()
    } else {
        locations(&project)
    };
    if args.json {
        let files = locations.iter().map(|location| {
            let file = location.file.to_string_lossy();
            let is_trusted = location.standing == Standing::Trusted;
            let trust = location.exists.then_some(location.standing.as_str());
            json!({
                "file": file, "whose": location.whose, "exists": location.exists,
                "trusted": is_trusted, "trust": trust,
            })
        });
        print_json(&json!({ "files": files.collect::<Vec<_>>() }));
        return Ok(exit::OK);
    }
    for location in &locations {
        let state = match (location.exists, location.standing) {
            (false, _) => "not found",
            (true, Standing::Trusted) => "read",
            (true, Standing::Untrusted) => "read; only harmless values are used",
            (true, Standing::Changed) => {
                "changed since it was trusted; only harmless values are used"
            }
        };
        outln!(
            "{}  {DIM}{}, {state}{DIM:#}",
            sanitize(&location.file.to_string_lossy()),
            location.whose
        );
    }
    Ok(exit::OK)
}
