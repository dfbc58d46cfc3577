//! Account at an OpenAI-compatible server: the headers of every request, and the secrets among
//! them.

use ostler_core::spec::{Spec, SpecError};

use crate::host::Host;

/// Minimum length of a secret. Redacting shorter values would garble other text.
const SECRET: usize = 8;

/// A header, with the setting that it comes from.
pub(super) struct Header {
    #[cfg_attr(
        not(feature = "api"),
        expect(dead_code, reason = "named in the errors of the HTTP client")
    )]
    pub(super) setting: &'static str,
    /// Name in lower case.
    pub(super) name: String,
    pub(super) value: String,
}

/// Returns a variable of the caller's environment. A value given for this run wins.
pub(super) fn variable(host: &Host, spec: &Spec, name: &str) -> Option<String> {
    let inherited = || {
        host.var(name)
            .and_then(|value| value.to_str())
            .map(str::to_owned)
    };
    spec.env
        .get(name)
        .cloned()
        .or_else(inherited)
        .filter(|value| !value.is_empty())
}

/// Returns the name of the variable that holds the key.
pub(super) fn key_variable(spec: &Spec) -> String {
    let usual = || "OPENAI_API_KEY".to_owned();
    spec.value("api_key_env").unwrap_or_else(usual)
}

/// Returns the headers of every request: the key, the account, and the caller's additions. A later
/// header replaces an earlier one of the same name.
///
/// # Errors
/// Returns an error if the variable that should hold the key is not set.
pub(super) fn headers(host: &Host, spec: &Spec) -> Result<Vec<Header>, SpecError> {
    let mut headers = Vec::new();
    let mut put = |setting, name: &str, value: String| {
        headers.push(Header {
            setting,
            name: name.to_ascii_lowercase(),
            value,
        });
    };
    match variable(host, spec, &key_variable(spec)) {
        Some(key) => put("api_key_env", "authorization", format!("Bearer {key}")),
        None if spec.value("api_key_env").is_some() => {
            return Err(SpecError::new(
                "api_key_env",
                &key_variable(spec),
                "this variable is not set",
            ));
        }
        None => {}
    }
    for (setting, name, fallback) in [
        ("organization", "openai-organization", "OPENAI_ORG_ID"),
        ("project", "openai-project", "OPENAI_PROJECT_ID"),
    ] {
        let value = spec.value(setting);
        if let Some(value) = value.or_else(|| variable(host, spec, fallback)) {
            put(setting, name, value);
        }
    }
    for header in spec.values("header").unwrap_or_default() {
        let (name, value) = header.split_once(':').unwrap_or((&header, ""));
        put("header", name.trim(), value.trim().to_owned());
    }
    Ok(headers)
}

/// Returns the values that only the server may see.
pub(super) fn secrets(headers: &[Header]) -> Vec<String> {
    let secret = headers.iter().filter(|header| is_secret(&header.name));
    let secrets = secret.map(|header| header.value.trim().trim_start_matches("Bearer ").to_owned());
    secrets.filter(|secret| secret.len() >= SECRET).collect()
}

/// Returns true if a header of this name holds a secret.
fn is_secret(name: &str) -> bool {
    ["auth", "key", "token", "secret", "cookie", "password"]
        .iter()
        .any(|part| name.contains(part))
}

/// Returns the variables that the spec adds to the environment of a model's commands. The key and
/// the address of its server are left out, whatever variable holds the key.
pub(crate) fn env_of_commands(host: &Host, spec: &Spec) -> impl Iterator<Item = (String, String)> {
    let key = spec.value("api_key_env");
    // If the headers are invalid, no request is made, and no command runs.
    let secrets = headers(host, spec)
        .map(|headers| secrets(&headers))
        .unwrap_or_default();
    let is_own = move |name: &str, value: &str| {
        let is_named = name.starts_with("OPENAI_") || Some(name) == key.as_deref();
        is_named || secrets.iter().any(|secret| value.contains(secret))
    };
    let others = spec
        .env
        .iter()
        .filter(move |(name, value)| !is_own(name, value));
    others.map(|(name, value)| (name.clone(), value.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_get_no_key_under_whatever_name() {
        let host = |key: &str| Host::new([("OPENAI_API_KEY".into(), key.into())]);
        let mut spec = Spec::default();
        spec.push("header", "x-api-key: sk-of-a-header").unwrap();
        for (name, value) in [
            ("OPENAI_BASE_URL", "http://here"),
            ("MY_TOKEN", "sk-of-the-host"),
            ("AUTHORIZATION", "Bearer sk-of-the-host"),
            ("OTHER", "sk-of-a-header"),
            ("EDITOR", "vi"),
        ] {
            spec.env.insert(name.into(), value.into());
        }
        let names = |host: &Host, spec: &Spec| -> Vec<String> {
            env_of_commands(host, spec).map(|(name, _)| name).collect()
        };
        assert_eq!(names(&host("sk-of-the-host"), &spec), ["EDITOR"]);
        // A value too short for a key is not a secret: it may occur in any text.
        spec.unset("header");
        assert_eq!(
            names(&host("v"), &spec),
            ["AUTHORIZATION", "EDITOR", "MY_TOKEN", "OTHER"]
        );
    }
}
