//! The commented example that `ostler eval init` writes.

/// Files of the example: path and text. They run with the scripted agent, without an account.
pub const EXAMPLE: &[(&str, &str)] = &[
    ("suite.yaml", include_str!("init/suite.yaml")),
    ("cases/greeting.yaml", include_str!("init/greeting.yaml")),
    ("start/README.md", include_str!("init/README.md")),
    ("scripts/good.toml", include_str!("init/good.toml")),
    ("scripts/lazy.toml", include_str!("init/lazy.toml")),
];
