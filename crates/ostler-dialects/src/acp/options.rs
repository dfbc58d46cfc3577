//! What can be chosen in a session: its mode and its model, by whichever means the agent announces.

use ostler_core::dialect::{Change, FromConversation, Outbox};
use serde::Serialize;

use super::blame;
use super::conversation::AcpConversation;
use super::rpc::Wanted;
use super::wire::{ConfigOption, Fault, Opened};
use crate::lenient::Node;

/// What the agent announced.
#[derive(Debug, Default)]
pub(super) struct Options {
    modes: Option<Choices>,
    models: Option<Choices>,
    /// The options of no other kind: id, category, and what there is to choose.
    config: Vec<(String, String, Choices)>,
    /// The model that was asked for.
    wished: Option<String>,
    /// The mode that was asked for.
    wished_mode: Option<String>,
}

/// A thing to choose, and what is chosen.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Choices {
    /// Ids with their names.
    all: Vec<(String, String)>,
    now: Option<String>,
}

impl Choices {
    /// The id that a word means: itself, what stands behind its `#`, or its name.
    fn find(&self, word: &str) -> Option<&str> {
        let short = |id: &str| id.rsplit_once('#').is_some_and(|(_, last)| last == word);
        let first =
            |fits: &dyn Fn(&str, &str) -> bool| self.all.iter().find(|(id, name)| fits(id, name));
        let found = first(&|id, _| id == word).or_else(|| first(&|id, _| short(id)));
        let found = found.or_else(|| first(&|_, name| name.eq_ignore_ascii_case(word)));
        found.map(|(id, _)| id.as_str())
    }

    /// What is chosen, with its name.
    fn chosen(&self) -> Option<(&str, &str)> {
        let now = self.now.as_deref()?;
        let name = self
            .all
            .iter()
            .find(|(id, _)| id == now)
            .map_or("", |(_, name)| name);
        Some((now, name))
    }

    /// What there is to choose, for a person.
    fn listed(&self) -> String {
        let short = |id: &str| id.rsplit_once('#').map_or(id, |(_, last)| last).to_owned();
        self.all
            .iter()
            .map(|(id, _)| short(id))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl Options {
    /// Takes what came with a session.
    pub(super) fn opened(&mut self, opened: &Opened<'_>) {
        self.modes = opened.modes.map().map(|modes| Choices {
            all: modes
                .available_modes
                .0
                .iter()
                .filter_map(|it| pair(&it.map()?.id, &it.map()?.name))
                .collect(),
            now: modes.current_mode_id.owned(),
        });
        self.models = opened.models.map().map(|models| Choices {
            all: models
                .available_models
                .0
                .iter()
                .filter_map(|it| pair(&it.map()?.model_id, &it.map()?.name))
                .collect(),
            now: models.current_model_id.owned(),
        });
        self.configured(&opened.config_options.0);
    }

    /// Takes a list of options, in place of what was there.
    pub(super) fn configured(&mut self, options: &[Node<'_, ConfigOption<'_>>]) {
        if options.is_empty() {
            return;
        }
        let choices = |option: &ConfigOption<'_>| Choices {
            all: option
                .options
                .0
                .iter()
                .filter_map(|it| pair(&it.map()?.value, &it.map()?.name))
                .collect(),
            now: option.current_value.owned(),
        };
        let rows = options.iter().filter_map(Node::map);
        self.config = rows
            .filter_map(|it| {
                Some((
                    it.id.owned()?,
                    it.category.text().unwrap_or(it.id.or_empty()).to_owned(),
                    choices(it),
                ))
            })
            .collect();
    }

    /// The mode is another.
    pub(super) fn now_in_mode(&mut self, mode: Option<String>) {
        if let (Some(modes), Some(mode)) = (&mut self.modes, mode) {
            modes.now = Some(mode);
        }
    }

    /// The modes that the session is in, with their names: one, if the agent does not contradict itself.
    pub(super) fn modes_now(&self) -> Vec<(&str, &str)> {
        self.mode_choices().filter_map(Choices::chosen).collect()
    }

    /// The modes that there are, with their names.
    pub(super) fn modes_all(&self) -> Vec<(&str, &str)> {
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
            .chain(self.of_category("mode").map(|(.., choices)| choices))
    }

    fn of_category(&self, category: &str) -> Option<&(String, String, Choices)> {
        self.config.iter().find(|(_, of, _)| of == category)
    }

    /// The model that is used, when the agent said so.
    pub(super) fn model(&self) -> Option<String> {
        let configured = self
            .of_category("model")
            .and_then(|(.., choices)| choices.now.clone());
        configured.or_else(|| self.models.as_ref()?.now.clone())
    }
}

fn pair(
    id: &crate::lenient::Scalar<'_>,
    name: &crate::lenient::Scalar<'_>,
) -> Option<(String, String)> {
    Some((id.owned()?, name.or_empty().to_owned()))
}

/// A request that chooses something.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Choose {
    session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

/// The request with its method.
pub(super) type Wish = (&'static str, Choose);

/// Why something cannot be chosen, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cannot {
    pub(super) message: String,
    pub(super) hint: String,
}

const SET_MODE: &str = "session/set_mode";

fn choose(talk: &AcpConversation) -> Choose {
    let session_id = talk.session.clone();
    Choose {
        session_id,
        mode_id: None,
        model_id: None,
        config_id: None,
        value: None,
    }
}

/// The request for a mode.
pub(super) fn wish_mode(talk: &AcpConversation, word: &str) -> Result<Wish, Cannot> {
    let options = &talk.options;
    let configured = options.of_category("mode");
    let Some(choices) = options
        .modes
        .as_ref()
        .or(configured.map(|(.., choices)| choices))
    else {
        return Err(cannot(talk, "modes", "Leave out permission_mode."));
    };
    let Some(id) = choices.find(word).map(str::to_owned) else {
        let message = format!("{} has no mode {word:?}.", talk.entry.name);
        return Err(Cannot {
            message,
            hint: format!("Its modes are: {}.", choices.listed()),
        });
    };
    let named = choices
        .all
        .iter()
        .find(|(of, _)| *of == id)
        .map(|(_, name)| name.as_str());
    if talk.policy
        && [Some(word), Some(&id), named]
            .into_iter()
            .flatten()
            .any(|name| talk.entry.skips.mode(name))
    {
        let message = format!(
            "With a policy, its rules decide, and in the mode {word:?} {} does not ask.",
            talk.entry.name
        );
        return Err(Cannot {
            message,
            hint: "Choose another mode, or leave out the policy.".to_owned(),
        });
    }
    Ok(match (&options.modes, configured) {
        (None, Some((config, ..))) => configure(talk, config, id),
        _ => (
            SET_MODE,
            Choose {
                mode_id: Some(id),
                ..choose(talk)
            },
        ),
    })
}

/// The request for the mode that the spec wants.
pub(super) fn wish_first_mode(talk: &mut AcpConversation, word: &str) -> Result<Wish, Cannot> {
    let wish = wish_mode(talk, word)?;
    talk.options.wished_mode.clone_from(&wish.1.mode_id);
    Ok(wish)
}

/// The request for the mode in which the agent asks. One that announces no modes may have it all the same.
pub(super) fn wish_asking(talk: &mut AcpConversation, word: &str) -> Result<Wish, Cannot> {
    if talk.options.mode_choices().next().is_some() {
        return wish_first_mode(talk, word).map_err(|why| {
            let message = format!(
                "{} In that mode it would ask, and somebody decides what it may do.",
                why.message
            );
            Cannot { message, ..why }
        });
    }
    Ok((
        SET_MODE,
        Choose {
            mode_id: Some(word.to_owned()),
            ..choose(talk)
        },
    ))
}

/// The request for a model. One that is not listed may be taken all the same; the agent decides.
pub(super) fn wish_model(talk: &AcpConversation, word: &str) -> Result<Wish, Cannot> {
    let options = &talk.options;
    if let Some((config, _, choices)) = options.of_category("model") {
        return Ok(configure(
            talk,
            config,
            choices.find(word).unwrap_or(word).to_owned(),
        ));
    }
    let Some(models) = &options.models else {
        return Err(cannot(
            talk,
            "models",
            "Leave out model, and choose it in the agent's own settings.",
        ));
    };
    let model_id = Some(models.find(word).unwrap_or(word).to_owned());
    Ok((
        "session/set_model",
        Choose {
            model_id,
            ..choose(talk)
        },
    ))
}

fn configure(talk: &AcpConversation, config: &str, value: String) -> Wish {
    (
        "session/set_config_option",
        Choose {
            config_id: Some(config.to_owned()),
            value: Some(value),
            ..choose(talk)
        },
    )
}

fn cannot(talk: &AcpConversation, kind: &str, hint: &str) -> Cannot {
    Cannot {
        message: format!("{} announces no {kind} to choose from.", talk.entry.name),
        hint: hint.to_owned(),
    }
}

/// A request that changes nothing: the mode that there is.
pub(super) fn same_mode(talk: &AcpConversation) -> Option<Wish> {
    let mode_id = Some(talk.options.modes.as_ref()?.now.clone()?);
    Some((
        SET_MODE,
        Choose {
            mode_id,
            ..choose(talk)
        },
    ))
}

/// What there is to choose where a choice was refused.
pub(super) fn listed(talk: &AcpConversation, key: &str) -> Option<String> {
    let mode = key == ostler_core::spec::keys::PERMISSION_MODE;
    let (own, category) = if mode {
        (&talk.options.modes, "mode")
    } else {
        (&talk.options.models, "model")
    };
    let choices = own.as_ref().or(talk
        .options
        .of_category(category)
        .map(|(.., choices)| choices))?;
    Some(choices.listed()).filter(|all| !all.is_empty())
}

/// The request for the model that the spec wants.
pub(super) fn wish_first_model(talk: &mut AcpConversation, word: &str) -> Result<Wish, Cannot> {
    let wish = wish_model(talk, word)?;
    talk.options.wished.clone_from(&wish.1.model_id);
    Ok(wish)
}

/// A choice was made; some agents say what there is to choose from now on.
pub(super) fn settled(talk: &mut AcpConversation, result: &str) {
    let opened: Node<'_, Opened<'_>> = serde_json::from_str(result).unwrap_or_default();
    if let Some(opened) = opened.map() {
        talk.options.configured(&opened.config_options.0);
    }
    let mode = talk.options.wished_mode.take();
    talk.options.now_in_mode(mode);
    if let (Some(models), Some(wished)) = (&mut talk.options.models, talk.options.wished.take()) {
        models.now = Some(wished);
    }
}

/// The caller wants something different.
pub(super) fn change(talk: &mut AcpConversation, id: u64, change: &Change, out: &mut Outbox) {
    let wish = match change {
        Change::Model(model) => wish_model(talk, model),
        Change::PermissionMode(mode) => wish_mode(talk, mode),
    };
    match wish {
        Ok((method, params)) => talk.rpc.request(Wanted::Change(id), (method, params), out),
        Err(Cannot { message, hint }) => out.push(FromConversation::Changed {
            id,
            error: Some(format!("{message} {hint}")),
        }),
    }
}

/// Reads the answer to a change.
pub(super) fn changed(
    talk: &mut AcpConversation,
    id: u64,
    (result, fault): (&str, Option<&Fault<'_>>),
    out: &mut Outbox,
) {
    if fault.is_none() {
        settled(talk, result);
    }
    out.push(FromConversation::Changed {
        id,
        error: fault.map(blame::words),
    });
}
