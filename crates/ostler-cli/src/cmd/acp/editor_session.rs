//! One session as an editor knows it: what is asked of it, what it tells, in one order and at the editor's pace.

use std::collections::{BTreeMap, VecDeque};

use ostler::event::{Decision, Origin, Permission};
use ostler::{Answer, Event, EventKind, Interrupting, Outcome, RequestError, Session};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::ending::{self, Stopped};
use super::history::History;
use super::opening::{Choice, Modes};
use super::pipes;
use super::request::{Asked, EditorRequest};
use super::update::{Call, Telling, Update, When};
use super::wire::{self, Data, Failure, Id};
use crate::output;

/// How many lines may wait before no more requests are taken.
const CROWDED: usize = 256;

/// A session and what is under way in it.
pub(super) struct EditorSession {
    /// As the editor names it.
    pub(super) id: String,
    pub(super) session: Session,
    pub(super) out: mpsc::Sender<String>,
    pub(super) inbox: mpsc::UnboundedReceiver<Asked>,
    pub(super) telling: Telling,
    pub(super) modes: Option<Modes>,
    pub(super) model: Option<Choice>,
    /// What is told before anything else, and then the answer to the request for it.
    pub(super) history: Option<(Id, History)>,
    pub(super) desk: Editor,
}

/// What is under way in a session.
#[derive(Default)]
pub(super) struct Editor {
    /// Lines on their way to the editor.
    queue: VecDeque<String>,
    /// Whether nobody reads them.
    deaf: bool,
    /// Requests that wait until the editor has read what it was told; and the cancels between them.
    waiting: VecDeque<Asked>,
    prompt: Option<Prompt>,
    /// Whether the turn under way is that of the prompt.
    is_ours: bool,
    /// Questions that the editor has not answered: ours of the protocol, and theirs of the session.
    asked: BTreeMap<u64, String>,
    questions: u64,
    changes: JoinSet<Changed>,
    leaving: Option<Leaving>,
    /// How long the editor is waited for: it gets a while for each line, once the program ends.
    until: Option<Instant>,
    closing: Vec<Id>,
    /// How the session ended.
    over: Option<Outcome>,
}

impl Editor {
    /// The editor has its time again, to read the next line.
    fn wait_anew(&mut self) {
        self.until = self.until.map(|_| pipes::patience());
    }
}

struct Prompt {
    id: Id,
    is_cancelled: bool,
}

/// A session that is gone.
pub(super) struct Left {
    pub(super) id: String,
    /// What is still to be said about it.
    pub(super) lines: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// The editor wants no more of this session.
    Closed,
    /// The program ends; nobody may be reading any more.
    Ended,
}

/// What came of a change, and which one it was.
struct Changed {
    id: Id,
    kind: Change,
    result: Result<(), RequestError>,
}

enum Change {
    Mode(String),
    Model(String),
}

/// What an editor is told, in its envelope.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    session_id: &'a str,
    update: &'a Update,
}

/// A question in its envelope.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    session_id: &'a str,
    tool_call: Call,
    options: [Choose; 3],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Choose {
    option_id: &'static str,
    name: &'static str,
    kind: &'static str,
}

const CHOICES: [(&str, &str); 3] = [
    ("allow_once", "Allow"),
    ("allow_always", "Allow this for the rest of the session"),
    ("reject_once", "Reject"),
];

/// What a session is like when it begins.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Opened<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modes: Option<&'a Modes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_options: Option<Vec<&'a Choice>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Options<'a> {
    config_options: Vec<&'a Choice>,
}

/// An answer without anything in it.
#[derive(Serialize)]
pub(super) struct Done {}

/// What a model is told when the editor says no.
const NO: &str = "The user does not want this to be done.";

impl EditorSession {
    /// What the editor is told of it first.
    pub(super) fn opened(&self) -> Opened<'_> {
        let config_options = self.model.as_ref().map(|model| vec![model]);
        Opened {
            session_id: Some(&self.id),
            modes: self.modes.as_ref(),
            config_options,
        }
    }

    /// The same for a session whose name the editor gave.
    pub(super) fn reopened(&self) -> Opened<'_> {
        Opened {
            session_id: None,
            ..self.opened()
        }
    }

    /// Puts a line before everything that the session says.
    pub(super) fn first(&mut self, line: String) {
        self.desk.queue.push_back(line);
    }

    /// Serves it until the editor or the program has enough of it, and says what is left to say.
    pub(super) async fn serve(mut self) -> Left {
        while !self.is_done() {
            let is_told = self.desk.queue.is_empty();
            if is_told {
                self.desk.wait_anew();
            }
            let has_past = self.history.is_some();
            let listens = (is_told && !has_past) || self.desk.leaving.is_some();
            let has_time = self.desk.queue.len() < CROWDED && !self.desk.waiting.is_empty();
            tokio::select! {
                room = pipes::room(self.out.clone(), self.desk.until), if !is_told => match (room, self.desk.queue.pop_front()) {
                    (Some(room), Some(line)) => {
                        drop(room.send(line));
                        self.desk.wait_anew();
                    }
                    _ => self.give_up(),
                },
                event = self.session.next(), if listens && self.desk.over.is_none() => self.hear(event.as_ref()),
                asked = self.inbox.recv() => self.take(asked),
                Some(changed) = self.desk.changes.join_next() => changed.into_iter().for_each(|it| self.changed(it)),
                () = std::future::ready(()), if has_time => self.go_on(),
                () = std::future::ready(()), if is_told && has_past => self.recall(),
            }
        }
        self.farewell()
    }

    fn is_done(&self) -> bool {
        let Editor {
            leaving,
            over,
            queue,
            changes,
            ..
        } = &self.desk;
        leaving.is_some() && over.is_some() && queue.is_empty() && changes.is_empty()
    }

    fn leave(&mut self, how: Leaving) {
        self.desk.leaving = Some(how);
        self.desk.until = (how == Leaving::Ended).then(pipes::patience);
        if let Some((id, _)) = self.history.take() {
            self.say(late(&id));
        }
        self.session.stop();
    }

    /// Nobody reads any more.
    fn give_up(&mut self) {
        self.desk.deaf = true;
        self.desk.queue.clear();
        self.leave(Leaving::Ended);
    }

    /// What is said last: to whoever had it closed, now that it is, and to whoever came too late.
    fn farewell(mut self) -> Left {
        self.inbox.close(); // from now on it is the server that says that there is no such session
        let mut rest = std::mem::take(&mut self.desk.waiting);
        rest.extend(std::iter::from_fn(|| self.inbox.try_recv().ok()));
        let mut lines: Vec<String> = self
            .desk
            .closing
            .iter()
            .map(|id| wire::response(id, &Done {}))
            .collect();
        lines.extend(rest.into_iter().filter_map(|asked| match asked.wish {
            EditorRequest::Close(id) => Some(wire::response(&id, &Done {})),
            EditorRequest::Prompt(id, _)
            | EditorRequest::SetMode(id, _)
            | EditorRequest::SetOption(id, ..) => Some(late(&id)),
            EditorRequest::Cancel
            | EditorRequest::Reply(..)
            | EditorRequest::End
            | EditorRequest::Kill => None,
        }));
        Left { id: self.id, lines }
    }

    /// Takes a wish: a request waits while the editor does not read, everything else is done at once.
    fn take(&mut self, asked: Option<Asked>) {
        let Some(asked) = asked else {
            return self.on_request(EditorRequest::End);
        };
        let Editor { queue, waiting, .. } = &mut self.desk;
        match &asked.wish {
            wish if wish.is_request() && (queue.len() >= CROWDED || !waiting.is_empty()) => {
                waiting.push_back(asked)
            }
            // It is for the prompt under way, and for one that waits.
            EditorRequest::Cancel if waiting.back().is_some_and(|last| last.wish.is_request()) => {
                waiting.push_back(asked);
                self.cancel();
            }
            _ => self.on_request(asked.wish),
        }
    }

    /// Turns to what has waited longest.
    fn go_on(&mut self) {
        if let Some(asked) = self.desk.waiting.pop_front() {
            self.on_request(asked.wish);
        }
    }

    fn on_request(&mut self, wish: EditorRequest) {
        match wish {
            EditorRequest::Close(id) => {
                self.desk.closing.push(id);
                self.cancel();
                if self.desk.leaving.is_none() {
                    self.leave(Leaving::Closed);
                }
            }
            EditorRequest::Prompt(id, _)
            | EditorRequest::SetMode(id, _)
            | EditorRequest::SetOption(id, ..)
                if self.desk.leaving.is_some() =>
            {
                self.say(late(&id));
            }
            EditorRequest::Prompt(id, text) => self.prompt(id, text),
            EditorRequest::Cancel => self.cancel(),
            EditorRequest::SetMode(id, mode) => self.set_mode(id, mode),
            EditorRequest::SetOption(id, option, value) => self.set_option(id, &option, value),
            EditorRequest::Reply(question, reply) => self.replied(question, reply.as_deref()),
            // Once the end has been asked for, the channel says so again and again.
            EditorRequest::End if self.desk.leaving == Some(Leaving::Ended) => {}
            EditorRequest::End => self.leave(Leaving::Ended),
            EditorRequest::Kill => {
                self.give_up();
                self.session.kill();
            }
        }
    }

    fn say(&mut self, line: String) {
        if !self.desk.deaf {
            self.desk.queue.push_back(line);
        }
    }

    fn prompt(&mut self, id: Id, text: String) {
        if self.desk.prompt.is_some() {
            let why = Failure::request(
                "a prompt is under way in this session; wait for its end, or cancel it",
            );
            return self.say(wire::failure(Some(&id), &why));
        }
        let sent = self.session.send(text);
        match (sent, &self.desk.over) {
            (Ok(()), None) => {
                self.desk.prompt = Some(Prompt {
                    id,
                    is_cancelled: false,
                })
            }
            (_, Some(outcome)) => {
                let failure = ending::failed(outcome, "");
                self.say(wire::failure(Some(&id), &failure));
            }
            // Its end is on the way, and says why.
            (Err(_), None) => {
                self.desk.prompt = Some(Prompt {
                    id,
                    is_cancelled: false,
                })
            }
        }
    }

    fn cancel(&mut self) {
        if let Some(prompt) = &mut self.desk.prompt {
            prompt.is_cancelled = true;
            interrupt(self.session.interrupt());
        }
    }

    fn set_mode(&mut self, id: Id, mode: String) {
        if !self.modes.as_ref().is_some_and(|modes| modes.has(&mode)) {
            let why = Failure::params(format!("there is no mode {mode:?}"));
            return self.say(wire::failure(Some(&id), &why));
        }
        let remote = self.session.remote();
        self.desk.changes.spawn(async move {
            let result = remote.set_permission_mode(&*mode).await;
            Changed {
                id,
                kind: Change::Mode(mode),
                result,
            }
        });
    }

    fn set_option(&mut self, id: Id, option: &str, value: String) {
        if self.model.as_ref().is_none_or(|model| model.id != option) {
            let why = Failure::params(format!("there is no option {option:?}"));
            return self.say(wire::failure(Some(&id), &why));
        }
        let remote = self.session.remote();
        self.desk.changes.spawn(async move {
            let result = remote.set_model(&*value).await;
            Changed {
                id,
                kind: Change::Model(value),
                result,
            }
        });
    }

    fn changed(&mut self, Changed { id, kind, result }: Changed) {
        if let Err(error) = result {
            let why = Failure::internal(error.to_string(), Data::default());
            return self.say(wire::failure(Some(&id), &why));
        }
        let line = match (kind, &mut self.modes, &mut self.model) {
            (Change::Mode(mode), Some(modes), _) => {
                modes.current_mode_id = mode;
                wire::response(&id, &Done {})
            }
            (Change::Model(name), _, Some(model)) => {
                model.take(&name);
                wire::response(
                    &id,
                    &Options {
                        config_options: vec![model],
                    },
                )
            }
            _ => wire::response(&id, &Done {}),
        };
        self.say(line);
    }

    /// Tells the next of what was said earlier; after the last, the session is loaded.
    fn recall(&mut self) {
        let Some((_, history)) = &mut self.history else {
            return;
        };
        match history.page() {
            Ok(Some(events)) => events
                .iter()
                .for_each(|event| self.tell(event, When::Earlier)),
            Ok(None) => self.recalled(None),
            Err(error) => self.recalled(Some(error.to_string())),
        }
    }

    fn recalled(&mut self, error: Option<String>) {
        let Some((id, _)) = self.history.take() else {
            return;
        };
        let line = match error {
            Some(error) => wire::failure(Some(&id), &Failure::internal(error, Data::default())),
            None => wire::response(&id, &self.reopened()),
        };
        self.say(line);
    }

    fn tell(&mut self, event: &Event, when: When) {
        for update in self.telling.tell(event, when) {
            let line = wire::notification(
                "session/update",
                &Told {
                    session_id: &self.id,
                    update: &update,
                },
            );
            self.say(line);
        }
    }

    /// Notes what an event means for whoever waits, after it was told.
    fn hear(&mut self, event: Option<&Event>) {
        let Some(event) = event else {
            let lost =
                || Outcome::new(ostler::Cause::Protocol, "The session ended without a word.");
            return self.end(self.desk.over.clone().unwrap_or_else(lost));
        };
        if self.desk.leaving != Some(Leaving::Ended) {
            self.tell(event, When::Now);
        }
        match &event.kind {
            EventKind::TurnStarted(turn) => {
                self.desk.is_ours = turn.origin == Origin::Caller;
                // It was cancelled before it had begun.
                if self.desk.is_ours
                    && self
                        .desk
                        .prompt
                        .as_ref()
                        .is_some_and(|prompt| prompt.is_cancelled)
                {
                    interrupt(self.session.interrupt());
                }
            }
            EventKind::TurnEnded(turn) if std::mem::take(&mut self.desk.is_ours) => {
                let is_cancelled = self
                    .desk
                    .prompt
                    .as_ref()
                    .is_some_and(|prompt| prompt.is_cancelled);
                self.answer(&match is_cancelled {
                    true => Ok(ending::cancelled(turn.usage.clone())),
                    false => ending::ending(&turn.outcome, &turn.text, turn.usage.clone()),
                });
            }
            EventKind::Refused(refused) if refused.request == "send" => {
                self.answer(&Err(Failure::internal(&*refused.why, Data::default())));
            }
            EventKind::Permission(permission) => self.ask(permission),
            EventKind::Notice(notice) if notice.level >= ostler::event::Level::Warning => {
                output::tell(&format!(
                    "{}: {}",
                    self.id,
                    ostler::clip::plain(&notice.message)
                ));
            }
            EventKind::Ended(ended) => self.end(ended.outcome.clone()),
            _ => {}
        }
    }

    fn answer(&mut self, result: &Result<Stopped, Failure>) {
        if let Some(prompt) = self.desk.prompt.take() {
            self.say(wire::answer(&prompt.id, result));
        }
    }

    fn end(&mut self, outcome: Outcome) {
        let is_cancelled = self
            .desk
            .prompt
            .as_ref()
            .is_some_and(|prompt| prompt.is_cancelled);
        self.answer(&if is_cancelled {
            Ok(ending::cancelled(None))
        } else {
            Err(ending::failed(&outcome, ""))
        });
        self.desk.over = Some(outcome);
    }

    /// Has the editor asked, or spared the question when somebody else has answered it.
    fn ask(&mut self, permission: &Permission) {
        if permission.decision == Decision::Asked {
            self.desk.questions += 1;
            self.desk
                .asked
                .insert(self.desk.questions, permission.id.clone());
            let options = CHOICES.map(|(id, name)| Choose {
                option_id: id,
                name,
                kind: id,
            });
            let tool_call = self.telling.question(permission);
            let question = Question {
                session_id: &self.id,
                tool_call,
                options,
            };
            let id = self.question_id(self.desk.questions);
            return self.say(wire::request(&id, "session/request_permission", &question));
        }
        let open = self
            .desk
            .asked
            .iter()
            .find(|(_, about)| **about == permission.id)
            .map(|(question, _)| *question);
        if let Some(question) = open {
            #[derive(Serialize)]
            #[serde(rename_all = "camelCase")]
            struct Spared {
                request_id: String,
            }
            self.desk.asked.remove(&question);
            let spared = Spared {
                request_id: self.question_id(question),
            };
            self.say(wire::notification("$/cancel_request", &spared));
        }
    }

    /// How a question is called between us and the editor: its answer finds the way back by it.
    fn question_id(&self, question: u64) -> String {
        format!("{}/{question}", self.id)
    }

    fn replied(&mut self, question: u64, reply: Option<&RawValue>) {
        let Some(about) = self.desk.asked.remove(&question) else {
            return;
        };
        let (remote, answer) = (self.session.remote(), read(reply));
        // Whether it came in time is an event like any other.
        tokio::spawn(async move { drop(remote.answer(&about, answer).await) });
    }
}

/// The answer to a request that came too late, or was not done in time.
fn late(id: &Id) -> String {
    let why = Failure::request("the session is being closed");
    wire::failure(
        Some(id),
        &why.hint("session/new begins another one, session/load goes on with this one."),
    )
}

/// An interrupt happens by itself; what comes of it is the end of the turn.
fn interrupt(asked: Interrupting) {
    drop(asked);
}

/// What a reply to a question means. Whatever is not a yes is a no.
fn read(reply: Option<&RawValue>) -> Answer {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Reply {
        outcome: Chosen,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Chosen {
        outcome: String,
        option_id: String,
    }
    let reply: Reply = reply
        .and_then(|reply| serde_json::from_str(reply.get()).ok())
        .unwrap_or_default();
    match (&*reply.outcome.outcome, &*reply.outcome.option_id) {
        ("selected", "allow_once") => Answer::Allow,
        ("selected", "allow_always") => Answer::AllowAlways,
        _ => Answer::Deny(NO.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        let of = |text: &str| read(Some(serde_json::from_str(text).unwrap()));
        assert_eq!(
            of(r#"{"outcome":{"outcome":"selected","optionId":"allow_once"}}"#),
            Answer::Allow
        );
        assert_eq!(
            of(r#"{"outcome":{"outcome":"selected","optionId":"allow_always"}}"#),
            Answer::AllowAlways
        );
        let no = Answer::Deny(NO.into());
        for other in [
            r#"{"outcome":{"outcome":"selected","optionId":"reject_once"}}"#,
            r#"{"outcome":{"outcome":"selected","optionId":"allow"}}"#,
            r#"{"outcome":{"outcome":"cancelled","optionId":"allow_once"}}"#,
            r#"{"outcome":"selected"}"#,
            "{}",
            "null",
        ] {
            assert_eq!(of(other), no, "{other}");
        }
        assert_eq!(read(None), no, "an error is no answer");
    }
}
