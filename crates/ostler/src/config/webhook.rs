//! Webhooks of the daemon, as the user's file defines them.

use ostler_core::names::named;

use super::entry::Entry;
use super::key::Key;
use super::{Config, Problem};

named! {
    /// A field of a webhook.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum WebhookField {
        /// Where to send requests.
        Url = "url",
        /// Variable with the secret.
        SecretEnv = "secret_env",
        /// File with the secret.
        SecretFile = "secret_file",
        /// Events to send.
        Events = "events",
        /// Whether the address may be on a private network or on this machine.
        AllowPrivate = "allow_private",
    }
}

/// Events that a webhook can get.
pub const WEBHOOK_EVENTS: [&str; 3] = ["needs_approval", "turn_ended", "session_ended"];

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    /// Its name.
    pub name: String,
    /// Where to send requests.
    pub url: String,
    /// Where the secret is.
    pub secret: SecretSource,
    /// Events to send; all of [`WEBHOOK_EVENTS`] by default.
    pub events: Vec<String>,
    /// Whether the address may be on a private network or on this machine.
    pub allow_private: bool,
}

/// Where a secret is. It is never in the file itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the daemon's environment.
    Variable(String),
    /// A file, by its absolute path.
    File(String),
}

impl Config {
    /// Returns the webhooks. Only the user's own file can define some.
    #[must_use]
    pub fn webhooks(&self) -> Vec<WebhookConfig> {
        let names = self.webhook_names();
        names
            .into_iter()
            .filter_map(|name| self.webhook(name))
            .collect()
    }

    fn webhook(&self, name: &str) -> Option<WebhookConfig> {
        let text = |field| Some(self.webhook_field(name, field)?.value.text().to_owned());
        let secret = text(WebhookField::SecretEnv).map(SecretSource::Variable);
        let secret = secret.or_else(|| text(WebhookField::SecretFile).map(SecretSource::File));
        let events = self.webhook_field(name, WebhookField::Events);
        Some(WebhookConfig {
            name: name.to_owned(),
            url: text(WebhookField::Url)?,
            secret: secret?,
            events: match events {
                Some(entry) => entry.value.list().to_vec(),
                None => WEBHOOK_EVENTS.map(str::to_owned).to_vec(),
            },
            allow_private: text(WebhookField::AllowPrivate).as_deref() == Some("true"),
        })
    }

    fn webhook_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .entries
            .keys()
            .filter_map(|key| match key {
                Key::Webhook(name, _) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        names.dedup();
        names
    }

    fn webhook_field(&self, name: &str, field: WebhookField) -> Option<&Entry> {
        self.entries.get(&Key::Webhook(name.to_owned(), field))
    }

    /// Returns the problems with webhooks.
    pub(super) fn webhook_problems(&self) -> Vec<Problem> {
        let names = self.webhook_names().into_iter();
        names
            .flat_map(|name| self.problems_of_webhook(name))
            .collect()
    }

    fn problems_of_webhook(&self, name: &str) -> Vec<Problem> {
        let field = |field| self.webhook_field(name, field);
        let any = WebhookField::ALL.into_iter().find_map(field);
        let Some(any) = any else { return Vec::new() };
        let mut problems = Vec::new();
        let is_private =
            field(WebhookField::AllowPrivate).is_some_and(|entry| entry.value.text() == "true");
        match field(WebhookField::Url) {
            None => problems.push(any.problem("url is missing")),
            Some(entry) => {
                let url = entry.value.text();
                if !(url.starts_with("https://") || (is_private && url.starts_with("http://"))) {
                    let why = "expected a URL with https://, or http:// with allow_private = true";
                    problems.push(entry.problem(why));
                }
            }
        }
        match (
            field(WebhookField::SecretEnv),
            field(WebhookField::SecretFile),
        ) {
            (None, None) => problems.push(any.problem(
                "set secret_env to the name of a variable, or secret_file to a file, with the \
                 secret in it",
            )),
            (Some(entry), Some(_)) => {
                problems.push(entry.problem("set either secret_env or secret_file, not both"));
            }
            _ => {}
        }
        if let Some(entry) = field(WebhookField::Events) {
            let unknown = entry
                .value
                .list()
                .iter()
                .find(|event| !WEBHOOK_EVENTS.contains(&event.as_str()));
            if let Some(event) = unknown {
                let known = WEBHOOK_EVENTS.join(", ");
                problems.push(entry.problem(&format!("unknown event {event:?}; expected {known}")));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Agents;
    use crate::config::{Author, ConfigError, Source};

    fn load(text: &str, author: Author) -> Result<Config, ConfigError> {
        let source = Source {
            name: "ostler.toml".into(),
            text: text.into(),
            dir: "/config".into(),
            home: Some("/home/me".into()),
            author,
        };
        Config::load(&[source], &Agents::builtin())
    }

    const WHOLE: &str = "daemon = true\n[webhooks.pager]\nurl = 'https://example.org/hook'\n\
        secret_file = '~/hook.secret'\nevents = ['needs_approval']\n[webhooks.other]\n\
        url = 'http://10.0.0.1/'\nsecret_env = 'HOOK'\nallow_private = true";

    #[test]
    fn webhooks_are_read() {
        let config = load(WHOLE, Author::Trusted).unwrap_or_default();
        assert!(config.uses_daemon());
        let [other, pager] = config.webhooks().try_into().unwrap();
        assert_eq!(
            pager,
            WebhookConfig {
                name: "pager".to_owned(),
                url: "https://example.org/hook".to_owned(),
                secret: SecretSource::File("/home/me/hook.secret".to_owned()),
                events: vec!["needs_approval".to_owned()],
                allow_private: false,
            }
        );
        assert_eq!(other.secret, SecretSource::Variable("HOOK".to_owned()));
        assert_eq!((other.events.len(), other.allow_private), (3, true));
    }

    // A project must not send what its sessions do elsewhere, even if its other settings count.
    #[test]
    fn a_project_defines_no_webhook() {
        for author in [Author::TrustedProject, Author::Unknown] {
            let config = load(WHOLE, author).unwrap_or_default();
            assert!(
                !config.uses_daemon() && config.webhooks().is_empty(),
                "{author:?}"
            );
            assert_eq!(config.ignored().len(), 7, "{author:?}");
        }
    }

    #[test]
    fn only_the_users_own_file_defines_a_command() {
        let text = "notify = ['./bin/note', '--urgent']";
        let config = load(text, Author::Trusted).unwrap();
        let command = config.notify().unwrap();
        assert!(command[0].ends_with("/bin/note"), "{command:?}");
        assert_eq!(command[1..], ["--urgent"]);
        for author in [Author::TrustedProject, Author::Unknown] {
            let config = load(text, author).unwrap();
            assert_eq!(config.notify(), None);
            assert_eq!(config.ignored().len(), 1);
        }
        for wrong in ["notify = []", "notify = 'note'", "notify = [1]"] {
            assert!(load(wrong, Author::Trusted).is_err(), "{wrong}");
        }
    }

    #[test]
    fn incomplete_webhooks_are_errors() {
        for (text, expected) in [
            ("secret_env = 'A'", "url is missing"),
            (
                "url = 'https://a'",
                "set secret_env to the name of a variable",
            ),
            (
                "url = 'http://a'\nsecret_env = 'A'",
                "expected a URL with https://, or http:// with allow_private = true",
            ),
            (
                "url = 'https://a'\nsecret_env = 'A'\nsecret_file = 'b'",
                "set either secret_env or secret_file, not both",
            ),
            (
                "url = 'https://a'\nsecret_env = 'A'\nevents = ['started']",
                "unknown event \"started\"",
            ),
            (
                "url = 'https://a'\nsecret = 's3cret'",
                "webhooks.w.secret: unknown key; did you mean secret_env or secret_file?",
            ),
            (
                "allow_private = 'yes'",
                "expected true or false, found a string",
            ),
        ] {
            let error = load(&format!("[webhooks.w]\n{text}"), Author::Trusted).err();
            let message = error.map(|error| error.to_string()).unwrap_or_default();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
