//! The path resolver of the file tools: with any path and any links, nothing outside is seen or
//! changed.

use std::fs;
use std::path::Path;

use super::harness::{campaign, seeds};
use super::random::Random;
use crate::files::rig::{CANARY, Rig, every_call, tree_snapshot};

const PARTS: [&str; 40] = [
    "..",
    "..",
    "..",
    ".",
    "",
    "out",
    "abs",
    "in",
    "src",
    "secret.txt",
    "outside",
    "dir",
    "a.txt",
    "loop",
    "ws-evil",
    "ws",
    "/",
    "//",
    "\\",
    "..\\",
    "...",
    "%2e%2e",
    "~",
    "~root",
    ".git",
    ".env",
    ".ssh",
    "proc",
    "self",
    "cwd",
    "root",
    "\0",
    "\n",
    "\u{202e}",
    "é",
    "e\u{301}",
    " ",
    "-",
    "*",
    "LINK",
];

/// The links created in the workspace before a path is tried, and the path.
#[derive(Debug)]
struct Case {
    links: Vec<(String, String)>,
    path: String,
}

fn path(random: &mut Random, seeds: &[String]) -> String {
    if random.once_in(3) {
        let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
        let seed = random.pick(&seeds).to_owned();
        return random.mutate(&seed, &PARTS);
    }
    let parts: Vec<&str> = (0..=random.below(6)).map(|_| random.pick(&PARTS)).collect();
    parts.join(random.pick(&["/", "/", "/", "//", "/./", "/../", "\\"]))
}

fn case(random: &mut Random, seeds: &[String]) -> Case {
    let links = (0..random.below(4)).map(|n| {
        let name = random.pick(&["LINK", "src/LINK", "new", "dir", "a.txt.lnk"]);
        (
            format!(
                "{name}{}",
                if n == 0 { String::new() } else { n.to_string() }
            ),
            path(random, seeds),
        )
    });
    let links = links.collect();
    let mut path = path(random, seeds);
    if random.once_in(8) {
        path = format!("@WS/{path}");
    } else if random.once_in(8) {
        path = format!("@OUT/{path}");
    }
    Case { links, path }
}

fn check(case: &Case) -> Result<(), String> {
    let rig = Rig::new();
    rig.link("../outside", "out");
    rig.link(&rig.outside, "abs");
    rig.link("loop/loop", "loop");
    rig.link("..", "src/in");
    let expand = |text: &str| {
        text.replace("@WS", &rig.ws.to_string_lossy())
            .replace("@OUT", &rig.outside.to_string_lossy())
            .replace('\0', "")
    };
    for (name, target) in &case.links {
        // A target may be invalid for a link, and a name may be taken.
        let _ = std::os::unix::fs::symlink(expand(target), rig.ws.join(name));
    }
    let path = case
        .path
        .replace("@WS", &rig.ws.to_string_lossy())
        .replace("@OUT", &rig.outside.to_string_lossy());
    let outside = |all: &Path| {
        let mut tree_snapshot = tree_snapshot(all);
        tree_snapshot.retain(|path, _| !path.starts_with(&rig.ws) && path != all);
        tree_snapshot
    };
    let before = outside(&rig.all);
    for (tool, args) in every_call(&path) {
        let output = match rig.call(tool, &args) {
            Ok(result) => format!("{}\n{}", result.text, result.json),
            Err(error) => error.message,
        };
        if output.contains(CANARY) {
            return Err(format!(
                "{tool} reveals content outside the workspace: {output}"
            ));
        }
        if outside(&rig.all) != before {
            return Err(format!("{tool} changed files outside the workspace"));
        }
        if !fs::symlink_metadata(&rig.ws).is_ok_and(|metadata| metadata.is_dir()) {
            return Err(format!("{tool} removed the workspace"));
        }
    }
    Ok(())
}

#[test]
fn nothing_outside_is_seen_or_changed() {
    let seeds = seeds("paths.jsonl");
    campaign("paths", |random| case(random, &seeds), check);
}
