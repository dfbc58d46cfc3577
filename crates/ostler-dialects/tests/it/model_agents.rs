//! The agents that are made of a model: their capabilities and tools.

use ostler_core::dialect::{Dialect, Launching};
use ostler_core::permission::ToolKind;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::Spec;
use ostler_dialects::openai::OpenAi;
use ostler_dialects::scripted::Scripted;

fn spec(settings: &[(&str, &str)]) -> Spec {
    let mut spec = Spec::default();
    spec.apply(&settings.iter().copied().collect()).unwrap();
    spec
}

#[test]
fn dialects_classify_their_tools() {
    let input = RawJson::parse(r#"{"from":"a","to":"b"}"#).unwrap();
    for dialect in [&OpenAi as &dyn Dialect, &Scripted] {
        let wants = dialect.tool_use("move_file", &input);
        assert_eq!(
            (wants.kind, wants.paths),
            (ToolKind::Edit, vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(dialect.tool_use("weather", &input).kind, ToolKind::Other);
        assert!(dialect.about().capabilities.ask);
    }
}

#[test]
fn fork_needs_resume() {
    for dialect in [&OpenAi as &dyn Dialect, &Scripted] {
        assert!(dialect.about().capabilities.resume && dialect.about().capabilities.fork);
        assert!(
            dialect
                .launch(&Launching::new(&spec(&[("fork", "true")])))
                .unwrap_err()
                .why
                .contains("resume")
        );
        dialect
            .launch(&Launching::new(&spec(&[("fork", "true"), ("resume", "s")])))
            .unwrap();
    }
}
