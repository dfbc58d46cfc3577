//! Whether an opened session asks: where somebody decides, none may run in a mode in which the agent decides alone.
//!
//! Agents begin in the mode of their own settings, and with some that is one that allows everything.

use ostler_core::dialect::Outbox;
use ostler_core::event::Level;
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::{Spec, keys};

use super::conversation::AcpConversation;
use super::handshake::Step;
use super::launch;

/// Who counts on it that the agent asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counting {
    /// Nobody, or the caller has chosen the mode.
    Nobody,
    /// A person.
    Person,
    /// Rules, and perhaps a person too.
    Rules,
}

impl Counting {
    pub(super) fn of(spec: &Spec) -> Self {
        match (
            spec.policy.is_some(),
            spec.settings.get(keys::PERMISSION_MODE).is_some(),
        ) {
            (true, _) => Self::Rules,
            (false, false) if launch::attended(spec) => Self::Person,
            (false, _) => Self::Nobody,
        }
    }
}

/// What has to be done with a session that was just opened, and has the mode that the agent gave it.
pub(super) fn step(talk: &mut AcpConversation, out: &mut Outbox) -> Result<Option<Step>, Outcome> {
    let counting = talk.start.counting;
    let name = talk.entry.name;
    let skips = talk
        .options
        .modes_now()
        .into_iter()
        .find(|(id, shown)| skipped(talk, id, shown));
    let skips = skips.map(|(id, _)| id.to_owned());
    let unknown = talk.options.modes_now().is_empty();
    match (counting, talk.entry.asks_in, skips) {
        (Counting::Nobody, ..) | (_, None, None) => Ok(None),
        (_, Some(_), None) if !unknown => Ok(None),
        (_, Some(asks), was) => {
            if let Some(was) = was {
                let message = format!(
                    "{name} began in the mode {was:?}, in which it does not ask; it is put into {asks:?}."
                );
                out.notice(Level::Info, "mode_changed", message);
            }
            Ok(Some(Step::Asking(asks)))
        }
        (Counting::Person, None, Some(mode)) => {
            let message = format!(
                "{name} began in the mode {mode:?}, in which it does not ask.{}",
                others(talk)
            );
            out.notice(Level::Warning, "does_not_ask", message);
            Ok(None)
        }
        (Counting::Rules, None, Some(mode)) => {
            let message = format!(
                "With a policy, its rules decide, and {name} began in the mode {mode:?}, in which it does not ask."
            );
            Err(Outcome::new(Cause::BadRequest, message).hint(others(talk).trim_start()))
        }
    }
}

/// Whether the session is in no mode that is known to skip questions.
pub(super) fn asks_now(talk: &AcpConversation) -> bool {
    !talk
        .options
        .modes_now()
        .into_iter()
        .any(|(id, shown)| skipped(talk, id, shown))
}

/// The agent may have gone into another mode by itself; before, it asked or did not.
pub(super) fn moved(talk: &AcpConversation, asked: bool, out: &mut Outbox) {
    let counts = talk.start.counting != Counting::Nobody
        && matches!(talk.phase, super::conversation::Phase::Ready);
    // Not if it was told to.
    if counts && !talk.rpc.is_changing() && asked && !asks_now(talk) {
        let (name, modes) = (talk.entry.name, talk.options.modes_now());
        let mode = modes.first().map_or("", |(id, _)| id);
        let message = format!(
            "{name} has gone into the mode {mode:?}, in which it does not ask: nobody else decides there."
        );
        out.notice(Level::Warning, "does_not_ask", message);
    }
}

fn skipped(talk: &AcpConversation, id: &str, shown: &str) -> bool {
    talk.entry.skips.mode(id) || talk.entry.skips.mode(shown)
}

/// What to do: the modes that are not known to skip anything.
fn others(talk: &AcpConversation) -> String {
    let asking: Vec<&str> = talk
        .options
        .modes_all()
        .into_iter()
        .filter(|(id, name)| !skipped(talk, id, name))
        .map(|(id, _)| id)
        .collect();
    match asking.is_empty() {
        true => " It announces no other; choose one in its own settings, or leave out the policy."
            .to_owned(),
        false => format!(
            " Set permission_mode to one in which it asks; it also has: {}.",
            asking.join(", ")
        ),
    }
}
