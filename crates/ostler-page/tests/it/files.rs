//! Files of the page: all are embedded, small, and can be bundled.

use std::collections::BTreeSet;
use std::path::Path;

use ostler_page::{assets, bundle};

#[test]
fn every_file_is_embedded_and_all_are_small() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        assert!(
            entry.file_type().unwrap().is_file(),
            "{name}: only files are served"
        );
        // If this fails after a file was added: `touch crates/ostler-page/src/assets.rs`.
        let embedded = assets::get(&name).expect(&name);
        let source = std::fs::read_to_string(entry.path()).unwrap();
        assert_eq!(
            embedded.text().unwrap().lines().count(),
            source.lines().count(),
            "{name}"
        );
        for (served, line) in embedded.text().unwrap().lines().zip(source.lines()) {
            let is_comment = line.trim().starts_with("//") || line.trim().starts_with("/*");
            let is_same = served.trim() == line.trim() || (served.is_empty() && is_comment);
            assert!(is_same, "{name}: {line}");
            // Literals that span lines would lose their indentation.
            assert!(is_comment || !has_template(line), "{name}: {line}");
        }
        assert_ne!(embedded.media_type(), "application/octet-stream", "{name}");
        names.insert(name);
    }
    let embedded: BTreeSet<String> = assets::all().map(|it| it.name.to_owned()).collect();
    assert_eq!(embedded, names);
    let size: usize = assets::all().map(|it| it.content.len()).sum();
    assert!(size <= assets::MAX_SIZE, "{size} bytes");
    assert!(assets::get("../Cargo.toml").is_none() && assets::get("").is_none());
}

/// Returns true if a line has a backtick outside of its strings.
fn has_template(line: &str) -> bool {
    let (mut in_string, mut is_escaped) = (false, false);
    for c in line.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => in_string = !in_string,
            '`' if !in_string => return true,
            _ => {}
        }
    }
    false
}

/// Every module can be an entry, so that this finds the wrong style in any of them.
#[test]
fn every_module_can_be_bundled() {
    let modules = assets::all().filter(|it| it.name.ends_with(".js"));
    for module in modules {
        let script = bundle::bundle(module.name, |name| assets::get(name)?.text()).unwrap();
        assert!(
            script.contains(&format!("// {}\n", module.name)),
            "{}",
            module.name
        );
    }
}
