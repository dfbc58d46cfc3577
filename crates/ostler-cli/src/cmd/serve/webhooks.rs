//! Webhooks from the user's own configuration, with their secrets.

use std::path::Path;

use ostler::config::{Config, SecretSource, WebhookConfig};
use ostler_daemon::{Occasion, Secret, Webhook};

use crate::fault::Result;
use crate::{environment, files};

/// Returns the webhooks of the user's file. A project's file cannot define any.
pub(super) fn of(config: &Config) -> Result<Vec<Webhook>> {
    config.webhooks().into_iter().map(webhook).collect()
}

fn webhook(config: WebhookConfig) -> Result<Webhook> {
    let secret = secret(&config)?;
    let occasions = Occasion::ALL.into_iter();
    let occasions = occasions.filter(|it| config.events.iter().any(|name| name == it.as_str()));
    Ok(Webhook {
        occasions: occasions.collect(),
        allow_private: config.allow_private,
        ..Webhook::new(config.name, config.url, secret)
    })
}

fn secret(config: &WebhookConfig) -> Result<Secret> {
    let name = &config.name;
    let text = match &config.secret {
        SecretSource::Variable(variable) => {
            let value = environment::variable(variable).and_then(|value| value.into_string().ok());
            value.ok_or_else(|| {
                usage!("webhook {name}: the variable {variable} is not set")
                    .hint("set it to the secret in the environment of `ostler serve`")
            })?
        }
        SecretSource::File(path) => {
            let text = files::text(Path::new(path))?;
            text.ok_or_else(|| {
                usage!("webhook {name}: {path} does not exist").hint("write the secret to it")
            })?
        }
    };
    Ok(Secret::from_text(text.trim()))
}
