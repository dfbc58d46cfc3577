//! Commands of a model that try to escape: really run, really confined, with protected files and
//! everything outside the workspace unchanged.

mod build_tools;
mod escapes;
mod files;
mod limits;
mod rig;
mod secrets;
mod starved;

/// Every layer that other tests need is enforced here. Where CI is set, a missing layer is a
/// failure, and this test names it. The layers are listed explicitly, so that a probe that omits
/// one does not pass for a whole sandbox. Issue 15, point 11.
#[tokio::test]
async fn every_layer_is_enforced_on_ci() {
    use ostler_testkit::machine::{self, Need};
    let report = rig::Scene::new().runner().report();
    let names: Vec<&str> = report.layers.iter().map(|layer| layer.name).collect();
    for name in [
        "files",
        "network",
        "process_tree",
        "signals",
        "system_calls",
        "attributes",
    ] {
        assert!(
            names.contains(&name),
            "the report does not mention {name}: {names:?}"
        );
    }
    let gaps = report.gaps_line();
    if machine::can_run(
        "every_layer_is_enforced_on_ci",
        &Need::of(gaps.is_empty(), || gaps.clone()),
    ) {
        assert!(report.layers.iter().all(|layer| layer.enforced));
    }
}
