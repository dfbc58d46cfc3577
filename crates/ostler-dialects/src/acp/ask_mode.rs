//! Ask modes. In an attended session the agent must not run in a mode in which it decides alone.
//!
//! Agents start in the mode of their own settings, which for some allows everything.

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, NoticeCode};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::Spec;

use super::conversation::AcpConversation;
use super::handshake::Step;
use super::rpc::RequestKind;

/// Who approves the agent's actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Approver {
    /// Unattended, or the caller has chosen the mode.
    None,
    /// A person.
    Person,
    /// The policy, and perhaps a person too.
    Policy,
}

impl Approver {
    pub(super) fn of(spec: &Spec) -> Self {
        match (spec.policy.is_some(), spec.permission_mode.is_some()) {
            (true, _) => Self::Policy,
            (false, false) if spec.is_supervised() => Self::Person,
            (false, _) => Self::None,
        }
    }
}

/// Returns the step required for a session that was just opened in the agent's own mode, or an
/// error if the agent cannot be made to ask.
pub(super) fn required_step(
    conversation: &mut AcpConversation,
    out: &mut Outbox,
) -> Result<Option<Step>, Outcome> {
    let approver = conversation.start.approver;
    let name = conversation.profile.name;
    let automatic = automatic_mode(conversation).map(str::to_owned);
    let unknown = conversation.options.current_modes().is_empty();
    match (approver, conversation.profile.asks_in, automatic) {
        (Approver::None, ..) | (_, None, None) => Ok(None),
        (_, Some(_), None) if !unknown => Ok(None),
        (_, Some(asks), was) => {
            if let Some(was) = was {
                let message = format!(
                    "{name} started in mode {was:?}, in which it does not ask; switching it to \
                     {asks:?}."
                );
                out.notice(Level::Info, NoticeCode::ModeChanged, message);
            }
            Ok(Some(Step::AskMode(asks)))
        }
        (Approver::Person, None, Some(mode)) => {
            let message = format!(
                "{name} started in mode {mode:?}, in which it does not ask.{}",
                suggest_modes(conversation)
            );
            out.warn(NoticeCode::DoesNotAsk, message);
            Ok(None)
        }
        (Approver::Policy, None, Some(mode)) => {
            let message = format!(
                "{name} started in mode {mode:?}, in which it does not ask, so the policy cannot \
                 apply."
            );
            Err(Outcome::new(Cause::BadRequest, message)
                .hint(suggest_modes(conversation).trim_start()))
        }
    }
}

/// Returns true unless the session is in a mode known not to ask.
pub(super) fn asks(conversation: &AcpConversation) -> bool {
    automatic_mode(conversation).is_none()
}

/// Returns the current mode in which the agent acts without asking, if it is in one.
fn automatic_mode(conversation: &AcpConversation) -> Option<&str> {
    let mut modes = conversation.options.current_modes().into_iter();
    modes
        .find(|(id, name)| auto_approves(conversation, id, name))
        .map(|(id, _)| id)
}

/// Warns if the agent has switched by itself to a mode in which it does not ask.
pub(super) fn on_mode_change(conversation: &AcpConversation, asked_before: bool, out: &mut Outbox) {
    let attended = conversation.start.approver != Approver::None
        && matches!(conversation.phase, super::conversation::Phase::Ready);
    // Not if the caller requested the change.
    let is_changing = conversation
        .rpc
        .pending()
        .any(|kind| matches!(kind, RequestKind::Change(_)));
    if attended && !is_changing && asked_before && !asks(conversation) {
        let (name, modes) = (
            conversation.profile.name,
            conversation.options.current_modes(),
        );
        let mode = modes.first().map_or("", |(id, _)| id);
        let message = format!("{name} switched to mode {mode:?}, in which it acts without asking.");
        out.warn(NoticeCode::DoesNotAsk, message);
    }
}

fn auto_approves(conversation: &AcpConversation, id: &str, name: &str) -> bool {
    conversation.profile.auto_approve.includes_mode(id)
        || conversation.profile.auto_approve.includes_mode(name)
}

/// Suggests the modes that are not known to skip permission requests.
fn suggest_modes(conversation: &AcpConversation) -> String {
    let asking: Vec<&str> = conversation
        .options
        .available_modes()
        .into_iter()
        .filter(|(id, name)| !auto_approves(conversation, id, name))
        .map(|(id, _)| id)
        .collect();
    match asking.is_empty() {
        true => {
            " It announces no other mode; choose one in its own settings, or remove the policy."
                .to_owned()
        }
        false => format!(" Try another permission_mode: {}.", asking.join(", ")),
    }
}
