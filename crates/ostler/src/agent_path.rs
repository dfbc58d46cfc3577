//! Paths of an agent's own files, as dialects write them: `~/…` below the home directory, `$NAME`
//! or `$NAME/…` relative to a variable.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Resolves such a path with the values of variables, or returns `None` if they do not determine
/// it.
pub(crate) fn resolve<'a>(
    path: &str,
    variable: impl Fn(&str) -> Option<&'a OsStr>,
) -> Option<PathBuf> {
    let value = |name: &str| variable(name).filter(|value| !value.is_empty());
    match path.strip_prefix('$') {
        Some(rest) => {
            let (name, below) = rest.split_once('/').unwrap_or((rest, ""));
            Some(Path::new(value(name)?).join(below))
        }
        None => {
            let home = Path::new(value("HOME")?);
            let path = home.join(path.strip_prefix("~/")?);
            path.is_absolute().then_some(path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_in_the_environment() {
        let of = |path: &str, vars: &[(&str, &'static str)]| {
            let value = |name: &str| vars.iter().find(|(known, _)| *known == name);
            resolve(path, |name| {
                value(name).map(|(_, value)| OsStr::new(*value))
            })
        };
        let vars = [("HOME", "/h"), ("STATE", "/s"), ("NONE", "")];
        for (path, wanted) in [
            ("~/.state/", Some("/h/.state")),
            ("$STATE", Some("/s")),
            ("$STATE/a", Some("/s/a")),
            ("$NONE/a", None),
            ("$OTHER", None),
            ("elsewhere", None),
        ] {
            assert_eq!(of(path, &vars), wanted.map(PathBuf::from), "{path}");
        }
        assert_eq!(of("~/.state", &[("HOME", "relative")]), None);
    }
}
