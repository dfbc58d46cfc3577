//! Session options: the mode and the model, by whichever means the agent announces.

use ostler_core::dialect::{Change, FromConversation, Outbox};
use serde_json::{Value, json};

use super::blame;
use super::conversation::{AcpConversation, Response};
use super::rpc::RequestKind;
use super::wire::{ConfigOption, SessionResponse};
use crate::jsonrpc::Call;
use crate::lenient::Scalar;

/// Options that the agent announced.
#[derive(Debug, Default)]
pub(super) struct SessionOptions {
    modes: Option<Choices>,
    models: Option<Choices>,
    /// Other configuration options: id, category and choices.
    config: Vec<(String, String, Choices)>,
    /// Model requested and not confirmed yet.
    pending_model: Option<String>,
    /// Mode requested and not confirmed yet.
    pending_mode: Option<String>,
}

/// The choices of an option, and the current one.
#[derive(Debug)]
struct Choices {
    /// Ids with their names.
    all: Vec<(String, String)>,
    current: Option<String>,
}

impl Choices {
    /// Returns the id that a name refers to: the id itself, its part after `#`, or its display
    /// name.
    fn find(&self, wanted: &str) -> Option<&str> {
        let short = |id: &str| id.rsplit_once('#').is_some_and(|(_, last)| last == wanted);
        let first = |matches: &dyn Fn(&str, &str) -> bool| {
            self.all.iter().find(|(id, name)| matches(id, name))
        };
        let found = first(&|id, _| id == wanted).or_else(|| first(&|id, _| short(id)));
        let found = found.or_else(|| first(&|_, name| name.eq_ignore_ascii_case(wanted)));
        found.map(|(id, _)| id.as_str())
    }

    /// Returns the current choice with its display name.
    fn chosen(&self) -> Option<(&str, &str)> {
        let current = self.current.as_deref()?;
        let name = self
            .all
            .iter()
            .find(|(id, _)| id == current)
            .map_or("", |(_, name)| name);
        Some((current, name))
    }

    /// Returns the choices as a list for a message.
    fn to_list(&self) -> String {
        let short = |id: &str| id.rsplit_once('#').map_or(id, |(_, last)| last).to_owned();
        self.all
            .iter()
            .map(|(id, _)| short(id))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl SessionOptions {
    /// Stores the options of a newly opened session.
    pub(super) fn on_session_opened(&mut self, response: &SessionResponse<'_>) {
        self.modes = response.modes.map().map(|modes| Choices {
            all: modes
                .available_modes
                .iter()
                .filter_map(|it| pair(&it.id, &it.name))
                .collect(),
            current: modes.current_mode_id.owned(),
        });
        self.models = response.models.map().map(|models| Choices {
            all: models
                .available_models
                .iter()
                .filter_map(|it| pair(&it.model_id, &it.name))
                .collect(),
            current: models.current_model_id.owned(),
        });
        self.set_config_options(&response.config_options);
    }

    /// Replaces the configuration options.
    pub(super) fn set_config_options(&mut self, options: &[ConfigOption<'_>]) {
        if options.is_empty() {
            return;
        }
        let choices = |option: &ConfigOption<'_>| Choices {
            all: option
                .options
                .iter()
                .filter_map(|it| pair(&it.value, &it.name))
                .collect(),
            current: option.current_value.owned(),
        };
        self.config = options
            .iter()
            .filter_map(|it| {
                Some((
                    it.id.owned()?,
                    it.category.text().unwrap_or(it.id.or_empty()).to_owned(),
                    choices(it),
                ))
            })
            .collect();
    }

    /// Remembers the mode or model that the request selects, for when the agent accepts it.
    pub(super) fn remember(&mut self, request: &SetRequest) {
        let chosen = |key: &str| request.params[key].as_str().map(str::to_owned);
        self.pending_mode = chosen("modeId");
        self.pending_model = chosen("modelId");
    }

    /// Sets the current mode.
    pub(super) fn set_current_mode(&mut self, mode: Option<String>) {
        if let (Some(modes), Some(mode)) = (&mut self.modes, mode) {
            modes.current = Some(mode);
        }
    }

    /// Returns the current modes with their names: one, unless the agent contradicts itself.
    pub(super) fn current_modes(&self) -> Vec<(&str, &str)> {
        self.mode_choices().filter_map(Choices::chosen).collect()
    }

    /// Returns the available modes with their names.
    pub(super) fn available_modes(&self) -> Vec<(&str, &str)> {
        let all = self
            .mode_choices()
            .next()
            .map_or(&[][..], |choices| &choices.all);
        all.iter()
            .map(|(id, name)| (id.as_str(), name.as_str()))
            .collect()
    }

    fn mode_choices(&self) -> impl Iterator<Item = &Choices> {
        self.modes
            .iter()
            .chain(self.config_option("mode").map(|(.., choices)| choices))
    }

    fn config_option(&self, category: &str) -> Option<&(String, String, Choices)> {
        self.config.iter().find(|(_, of, _)| of == category)
    }

    /// Returns the current model, if the agent reported it.
    pub(super) fn model(&self) -> Option<String> {
        let configured = self
            .config_option("model")
            .and_then(|(.., choices)| choices.current.clone());
        configured.or_else(|| self.models.as_ref()?.current.clone())
    }
}

fn pair(id: &Scalar<'_>, name: &Scalar<'_>) -> Option<(String, String)> {
    Some((id.owned()?, name.or_empty().to_owned()))
}

/// A request that sets an option.
pub(super) type SetRequest = Call<'static, Value>;

/// Why an option cannot be set, and a hint.
#[derive(Debug)]
pub(super) struct ChoiceError {
    pub(super) message: String,
    pub(super) hint: String,
}

fn set_mode(conversation: &AcpConversation, mode: &str) -> SetRequest {
    Call {
        method: "session/set_mode",
        params: json!({"sessionId": conversation.session, "modeId": mode}),
    }
}

/// Returns the request that sets a mode.
pub(super) fn mode_request(
    conversation: &AcpConversation,
    name: &str,
) -> Result<SetRequest, ChoiceError> {
    let options = &conversation.options;
    let mode_option = options.config_option("mode");
    let Some(choices) = options
        .modes
        .as_ref()
        .or(mode_option.map(|(.., choices)| choices))
    else {
        return Err(no_choices(conversation, "modes", "Remove permission_mode."));
    };
    let Some(id) = choices.find(name) else {
        let message = format!("{} has no mode {name:?}.", conversation.profile.name);
        return Err(ChoiceError {
            message,
            hint: format!("Its modes are: {}.", choices.to_list()),
        });
    };
    let display_name = choices
        .all
        .iter()
        .find(|(of, _)| of == id)
        .map(|(_, name)| name.as_str());
    if conversation.policy
        && [Some(name), Some(id), display_name]
            .into_iter()
            .flatten()
            .any(|name| conversation.profile.auto_approve.includes_mode(name))
    {
        let message = format!(
            "Mode {name:?} conflicts with the policy: in it, {} does not ask.",
            conversation.profile.name
        );
        return Err(ChoiceError {
            message,
            hint: "Choose another mode, or remove the policy.".to_owned(),
        });
    }
    Ok(match (&options.modes, mode_option) {
        (None, Some((config, ..))) => configure(conversation, config, id),
        _ => set_mode(conversation, id),
    })
}

/// Returns the request that sets the mode in which the agent asks. An agent that announces no modes
/// may have it nevertheless.
pub(super) fn ask_mode_request(
    conversation: &AcpConversation,
    name: &str,
) -> Result<SetRequest, ChoiceError> {
    if conversation.options.mode_choices().next().is_some() {
        return mode_request(conversation, name).map_err(|why| {
            let message = format!(
                "{} It must ask in an attended session, and would do so in that mode.",
                why.message
            );
            ChoiceError { message, ..why }
        });
    }
    Ok(set_mode(conversation, name))
}

/// Returns the request that sets a model. The agent decides on models that it does not list.
pub(super) fn model_request(
    conversation: &AcpConversation,
    name: &str,
) -> Result<SetRequest, ChoiceError> {
    let options = &conversation.options;
    if let Some((config, _, choices)) = options.config_option("model") {
        let model = choices.find(name).unwrap_or(name);
        return Ok(configure(conversation, config, model));
    }
    let Some(models) = &options.models else {
        return Err(no_choices(
            conversation,
            "models",
            "Remove model, and select it in the agent's own settings.",
        ));
    };
    let model = models.find(name).unwrap_or(name);
    Ok(Call {
        method: "session/set_model",
        params: json!({"sessionId": conversation.session, "modelId": model}),
    })
}

fn configure(conversation: &AcpConversation, config: &str, value: &str) -> SetRequest {
    Call {
        method: "session/set_config_option",
        params: json!({"sessionId": conversation.session, "configId": config, "value": value}),
    }
}

fn no_choices(conversation: &AcpConversation, kind: &str, hint: &str) -> ChoiceError {
    ChoiceError {
        message: format!(
            "{} does not announce any {kind}.",
            conversation.profile.name
        ),
        hint: hint.to_owned(),
    }
}

/// Returns a request that changes nothing, because it sets the current mode.
pub(super) fn current_mode_request(conversation: &AcpConversation) -> Option<SetRequest> {
    let mode = conversation.options.modes.as_ref()?.current.as_deref()?;
    Some(set_mode(conversation, mode))
}

/// Returns the available values of a setting that the agent refused.
pub(super) fn available(conversation: &AcpConversation, key: &str) -> Option<String> {
    let mode = key == ostler_core::spec::keys::PERMISSION_MODE;
    let (announced, category) = if mode {
        (&conversation.options.modes, "mode")
    } else {
        (&conversation.options.models, "model")
    };
    let choices = announced.as_ref().or(conversation
        .options
        .config_option(category)
        .map(|(.., choices)| choices))?;
    Some(choices.to_list()).filter(|all| !all.is_empty())
}

/// Applies the response to a set request. Some agents return their new options with it.
pub(super) fn apply_response(conversation: &mut AcpConversation, response: &Response<'_>) {
    let options: SessionResponse<'_> = response.parse();
    conversation
        .options
        .set_config_options(&options.config_options);
    let mode = conversation.options.pending_mode.take();
    conversation.options.set_current_mode(mode);
    if let (Some(models), Some(pending_model)) = (
        &mut conversation.options.models,
        conversation.options.pending_model.take(),
    ) {
        models.current = Some(pending_model);
    }
}

/// Requests a change from the agent.
pub(super) fn request_change(
    conversation: &mut AcpConversation,
    id: u64,
    change: &Change,
    out: &mut Outbox,
) {
    let request = match change {
        Change::Model(model) => model_request(conversation, model),
        Change::PermissionMode(mode) => mode_request(conversation, mode),
    };
    match request {
        Ok(call) => conversation.rpc.request(RequestKind::Change(id), call, out),
        Err(ChoiceError { message, hint }) => out.push(FromConversation::Changed {
            id,
            error: Some(format!("{message} {hint}")),
        }),
    }
}

/// Handles the response to a change.
pub(super) fn on_change_response(
    conversation: &mut AcpConversation,
    id: u64,
    response: &Response<'_>,
    out: &mut Outbox,
) {
    if response.error.is_none() {
        apply_response(conversation, response);
    }
    out.push(FromConversation::Changed {
        id,
        error: response.error.as_ref().map(blame::text_of),
    });
}
