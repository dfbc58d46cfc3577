//! Attacks: random paths, mostly of parts that lead out.

use proptest::prelude::*;

use super::rig::{Rig, assert_same, assert_unseen, every_call, tree_snapshot};

fn a_path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        // Parts that can lead out are most frequent, so that most paths try to.
        6 => prop::sample::select(vec!["..", "out", "abs", "in", "src", "secret.txt", "outside", "dir"])
            .prop_map(str::to_owned),
        2 => prop::sample::select(vec![
            ".", "", "a.txt", "loop", "ws-evil", "/", "\\", "..\\", "...", "%2e%2e", "~", ".git", ".env", "proc", "self",
            "root", "ws", "\0", "\n", "-", " ",
        ]).prop_map(str::to_owned),
        1 => "[a-z./\\\\]{0,6}",
        1 => any::<String>(),
    ];
    let separator = prop::sample::select(vec!["/", "/", "/", "//", "/./", "/../", "\\"]);
    (prop::collection::vec(part, 0..6), separator)
        .prop_map(|(parts, separator)| parts.join(separator))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 120,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    // S2-18
    #[test]
    fn no_path_reveals_or_changes_files_outside(path in a_path(), is_absolute: bool) {
        let rig = Rig::new();
        rig.link("../outside", "out");
        rig.link(&rig.outside, "abs");
        rig.link("loop/loop", "loop");
        rig.link("..", "src/in");
        rig.link("../../outside/secret.txt", "src/secret.txt");
        let path = if is_absolute { format!("{}/{path}", rig.ws.display()) } else { path };
        let before = (tree_snapshot(&rig.outside), tree_snapshot(&rig.all.join("ws-evil")));
        for (tool, args) in every_call(&path) {
            match rig.call(tool, &args) {
                Ok(reply) => assert_unseen(&reply),
                Err(error) => prop_assert!(!error.message.contains(super::rig::CANARY)),
            }
        }
        assert_same(&before.0, &tree_snapshot(&rig.outside), &path);
        assert_same(&before.1, &tree_snapshot(&rig.all.join("ws-evil")), &path);
    }
}
