//! Settings of pi, each with its effect in the real program.

use std::fs;

use ostler_testkit::scenario::{PI, Task};

use super::{call_with, has_file, run, talking};

/// `thinking` reaches the model's service.
#[test]
fn thinking_level() {
    for level in ["low", "high"] {
        let call = call_with(&PI, &Task::new("PROMPT").set("thinking", level));
        assert_eq!(call.body["reasoning_effort"], level, "{}", call.body);
    }
}

/// `no_session` leaves no transcript behind.
#[test]
fn no_session() {
    for (without, is_saved) in [("false", true), ("true", false)] {
        let place = talking(&PI);
        run(&PI, &place, &Task::new("PROMPT").set("no_session", without))
            .assert_ended("completed", 0);
        let home = place.host().iter().find(|(name, _)| name == "HOME");
        let sessions = std::path::Path::new(&home.unwrap().1).join(".pi/agent/sessions");
        assert_eq!(has_file(&sessions, ".jsonl"), is_saved, "{without}");
    }
}

const EXTENSION: &str = "import { writeFileSync } from \"node:fs\";\n\
                         export default function () { writeFileSync(\"loaded\", \"\"); }\n";
const SKILL: &str = "---\nname: knots\ndescription: Ties BOWLINES.\n---\nTie them.\n";

/// Each switch leaves out what the project adds.
#[test]
fn project_resources() {
    for (key, file, text) in [
        ("no_extensions", ".pi/extensions/own.ts", EXTENSION),
        ("no_skills", ".pi/skills/knots/SKILL.md", SKILL),
        (
            "no_prompt_templates",
            ".pi/prompts/knots.md",
            "Tie a BOWLINE.\n",
        ),
        ("no_context_files", "AGENTS.md", "Tie a BOWLINE.\n"),
    ] {
        for (without, is_used) in [("false", true), ("true", false)] {
            let place = talking(&PI);
            let path = place.work().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            let task = Task::new("/knots").set(key, without);
            run(&PI, &place, &task).assert_ended("completed", 0);
            let found = if key == "no_extensions" {
                place.work().join("loaded").exists()
            } else {
                place.only_call().body.to_string().contains("BOWLINE")
            };
            assert_eq!(found, is_used, "{key}={without}");
        }
    }
}
