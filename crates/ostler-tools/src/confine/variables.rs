//! Environment variables that a policy file may pass to commands.
//!
//! A policy may come with a repository, so it can name only variables known to contain no secret,
//! by a list of names and of name patterns. Whatever else a command needs, the user passes with
//! `--env`.

/// Names that a policy may pass.
const NAMES: &str = "\
    CI DEBUG VERBOSE TERM COLUMNS LINES COLORTERM FORCE_COLOR CLICOLOR CLICOLOR_FORCE NO_COLOR TZ LANG LANGUAGE SHLVL \
    RUST_LOG RUST_BACKTRACE RUST_LIB_BACKTRACE RUST_MIN_STACK RUST_TEST_THREADS CARGO_INCREMENTAL CARGO_TERM_COLOR CARGO_NET_OFFLINE \
    PYTHONPATH PYTHONUNBUFFERED PYTHONHASHSEED PYTHONDONTWRITEBYTECODE PYTHONWARNINGS PYTHONUTF8 DJANGO_SETTINGS_MODULE \
    GOPATH GOROOT GOOS GOARCH GOARM GOCACHE GOMODCACHE GOBIN GOTOOLCHAIN CGO_ENABLED GOEXPERIMENT CLASSPATH NODE_PATH PERL5LIB RUBYLIB \
    CC CXX CPP AR AS LD NM RANLIB STRIP OBJCOPY FC CROSS_COMPILE ARCH TARGET PROFILE JOBS NUM_JOBS PORT SOURCE_DATE_EPOCH \
    MANPATH INFOPATH TEXINPUTS ZIG_GLOBAL_CACHE_DIR";

/// Suffixes of names that a policy may pass.
const ENDS: &str = "\
    _HOME _DIR _ROOT _PATH _PREFIX FLAGS _LOG _LOG_LEVEL _LEVEL _ENV _JOBS _THREADS _VERSION _FEATURES _BACKTRACE _COLOR _DEBUG \
    _ENABLED _DISABLED _TIMEOUT _SEED _BUILD_TYPE _GENERATOR _TARGET _ARCH _LOCALE";

/// Substrings of names that indicate secrets, or paths to them.
const SECRET: &str = "\
    KEY TOKEN SECRET PASS PWD CRED AUTH COOKIE SESSION WEBHOOK DSN CONN PRIVATE SIGN CERT OTP PIN_ URL URI ACCOUNT LOGIN USERNAME \
    BEARER OAUTH JWT SALT LICENSE PHRASE NETRC KUBE VAULT SENTRY";

/// Prefixes of names that a policy may not pass: those of Ostler, the loader, git, clouds and
/// agents.
const RESERVED: &str = "\
    OSTLER_ LD_ DYLD_ GIT_ BASH_ SSH_ GPG_ GNUPG AWS_ AZURE_ GOOGLE_ GCP_ GCLOUD_ DOCKER_ DATABASE_ DB_ PG MYSQL REDIS_ MONGO \
    OPENAI_ ANTHROPIC_ NPM_CONFIG_ npm_config_ PIP_ TWINE_";

/// Returns the reason why a policy may not pass a variable, or `None` if it may.
pub(crate) fn refusal_reason(name: &str) -> Option<String> {
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty();
    if !is_name {
        return Some("expected the name of a variable".to_owned());
    }
    let upper = name.to_ascii_uppercase();
    let any = |list: &str, test: &dyn Fn(&str) -> bool| list.split(' ').any(test);
    let is_reserved =
        name == "PATH" || name == "HOME" || any(RESERVED, &|start| name.starts_with(start));
    let is_known = any(NAMES, &|known| known == name) || any(ENDS, &|end| name.ends_with(end));
    let is_secret =
        any(SECRET, &|part| upper.contains(part)) && !any(NAMES, &|known| known == name);
    let why = match () {
        () if is_reserved => "a policy cannot pass this variable",
        () if is_secret => "a policy cannot pass a variable that may contain a secret",
        () if !is_known => {
            "a policy can only pass variables known to contain no secret, such as JAVA_HOME or \
             RUST_LOG"
        }
        () => return None,
    };
    Some(format!("{why}; pass it yourself with --env {name}"))
}

/// Returns true if a value looks like a credential, whatever the name of its variable.
#[must_use]
pub fn looks_secret(value: &str) -> bool {
    const TOKENS: &str = "\
        sk- sk_ pk_live_ rk_live_ ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xoxb- xoxp- xoxa- xapp- AKIA ASIA AIza ya29. eyJ npm_ pypi- \
        hf_ dop_v1_ shpat_ SG. dckr_pat_ gsk_ xai- nvapi- tvly- lin_api_ figd_ atlasv1. hvs.";
    let is_token = |word: &str| {
        TOKENS
            .split(' ')
            .any(|start| word.starts_with(start) && word.len() >= start.len() + 8)
    };
    let has_login = |word: &str| {
        let Some((_, rest)) = word.split_once("://") else {
            return false;
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        authority
            .rsplit_once('@')
            .is_some_and(|(login, _)| !login.is_empty())
    };
    value.contains("-----BEGIN")
        || value
            .split([' ', ',', ';', '=', '"', '\''])
            .any(|word| is_token(word) || has_login(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Issue 14, break 9: an allow-list, not seven parts of names.
    #[test]
    fn policy_passes_only_known_harmless_variables() {
        for name in [
            "JAVA_HOME",
            "MY_TOOL_HOME",
            "CI",
            "RUST_LOG",
            "RUST_BACKTRACE",
            "NODE_ENV",
            "CFLAGS",
            "RUSTFLAGS",
            "GOFLAGS",
            "PYTHONPATH",
            "CMAKE_PREFIX_PATH",
            "APP_LOG_LEVEL",
            "CC",
            "SOURCE_DATE_EPOCH",
            "XDG_CONFIG_HOME",
        ] {
            assert_eq!(refusal_reason(name), None, "{name}");
        }
    }

    #[test]
    fn policy_passes_no_variable_that_may_lead_to_a_secret() {
        for name in [
            "",
            "A=B",
            "*",
            "A B",
            "PATH",
            "HOME",
            "OSTLER_SESSION",
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "GIT_DIR",
            "BASH_ENV",
            "GITHUB_TOKEN",
            "my_api_key",
            "DATABASE_URL",
            "DATABASE_DIR",
            "SENTRY_DSN",
            "REDIS_URL",
            "MONGODB_URI",
            "PGPASSWORD",
            "PGHOST",
            "MYSQL_PWD",
            "GITLAB_PAT",
            "AZURE_DEVOPS_EXT_PAT",
            "SLACK_WEBHOOK",
            "SLACK_WEBHOOK_PATH",
            "SSH_AUTH_SOCK",
            "SSH_HOME",
            "KUBECONFIG",
            "DOCKER_HOST",
            "DOCKER_AUTH_CONFIG",
            "NETRC",
            "SESSION_COOKIE",
            "APP_SESSION",
            "DB_CONN",
            "CONNECTION_STRING",
            "AWS_PROFILE",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "SIGNING_CERT_PATH",
            "KEYSTORE_PATH",
            "HTTP_PROXY",
            "FLAVOUR",
            "JAVA_TOOL_OPTIONS",
            "NODE_OPTIONS",
            "EDITOR",
            "PIP_INDEX_URL",
            "NPM_CONFIG_USERCONFIG",
            "Z",
        ] {
            assert!(refusal_reason(name).is_some(), "{name}");
        }
        assert!(
            refusal_reason("DATABASE_URL")
                .unwrap()
                .contains("--env DATABASE_URL")
        );
    }

    #[test]
    fn credential_values_are_recognized() {
        for value in [
            "postgres://me:pw@db/x",
            "https://token@example.org/x",
            "ghp_0123456789abcdef",
            "sk-ant-0123456789",
            "-----BEGIN KEY-----",
            "--index https://a:b@c/",
            "AKIAABCDEFGHIJKL",
            "-Dtoken=glpat-0123456789abc",
        ] {
            assert!(looks_secret(value), "{value}");
        }
        for value in [
            "",
            "/opt/java",
            "-O2 -g",
            "https://example.org/a@b",
            "debug,hyper=info",
            "production",
            "sk-",
            "a@b",
        ] {
            assert!(!looks_secret(value), "{value}");
        }
    }
}
