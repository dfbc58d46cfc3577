//! Conversations with agents that run one process per turn: the prompt goes to stdin, which is then
//! closed, and the process exits when the turn is over.

use ostler_core::dialect::{
    Action, Conversation, Exit, FromConversation, Outbox, ToAgent, TurnResult,
};
use ostler_core::event::Started;
use ostler_core::spec::Spec;

/// Translation of the output of an agent that runs one process per turn.
pub(crate) trait TurnOutput: Send {
    /// Returns the state of the turn.
    fn turn(&mut self) -> &mut Turn;

    /// Called after the prompt was sent.
    fn on_prompt(&mut self, _out: &mut Outbox) {}

    /// Called for each line.
    fn on_line(&mut self, raw: &str, out: &mut Outbox);

    /// Called once the process has exited. Returns the result of a turn that is still open, or
    /// `None` if the exit does not explain it.
    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) -> Option<TurnResult>;
}

/// State of the turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    open: bool,
    /// Whether the caller interrupted it.
    pub(crate) interrupted: bool,
}

impl Turn {
    /// Returns true if the turn has begun and not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Ends the turn, unless it has ended.
    pub(crate) fn end(&mut self, result: TurnResult, out: &mut Outbox) {
        if std::mem::take(&mut self.open) {
            out.push(result);
        }
    }
}

/// A conversation with one process.
#[derive(Debug)]
pub(crate) struct TurnProcess<T>(pub(crate) T);

impl<T: TurnOutput> Conversation for TurnProcess<T> {
    fn on_start(&mut self, _out: &mut Outbox) {}

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        match message {
            ToAgent::Prompt(prompt) => {
                self.0.turn().open = true;
                out.push(Action::Write(prompt.into_bytes()));
                out.push(Action::CloseInput);
                self.0.on_prompt(out);
            }
            ToAgent::Interrupt => {
                self.0.turn().interrupted = true;
                out.push(Action::Terminate);
            }
            // The next process is launched with it.
            ToAgent::Change { id, .. } => out.push(FromConversation::Changed { id, error: None }),
            // The process accepts no other input.
            _ => {}
        }
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        self.0.on_line(raw, out);
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        if let Some(result) = self.0.on_exit(exit, out) {
            self.0.turn().end(result, out);
        }
    }
}

/// Returns what the spec says about the session, as the event that reports its start.
pub(crate) fn identity(agent: &str, spec: &Spec) -> Started {
    Started {
        agent: agent.to_owned(),
        agent_version: None,
        native_session: None,
        model: spec.model.as_deref().map(str::to_owned),
        cwd: spec.dir.as_ref().map(|dir| dir.display().to_string()),
        tools: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use ostler_core::dialect::Change;
    use ostler_core::outcome::Outcome;
    use proptest::prelude::*;

    use super::*;

    /// Ends the turn with the line `end`. An exit explains the turn if its code is known.
    #[derive(Default)]
    struct Echo(Turn);

    impl TurnOutput for Echo {
        fn turn(&mut self) -> &mut Turn {
            &mut self.0
        }

        fn on_line(&mut self, raw: &str, out: &mut Outbox) {
            if raw == "end" {
                self.0.end(TurnResult::new(Outcome::completed()), out);
            }
        }

        fn on_exit(&mut self, exit: &Exit, _out: &mut Outbox) -> Option<TurnResult> {
            exit.code.map(|_| TurnResult::new(Outcome::completed()))
        }
    }

    fn said(message: ToAgent) -> Vec<FromConversation> {
        let (mut conversation, mut out) = (TurnProcess(Echo::default()), Outbox::default());
        conversation.send(message, &mut out);
        out.drain().collect()
    }

    #[test]
    fn the_process_gets_only_the_prompt_and_signals() {
        let write = Action::Write(b"hello".to_vec());
        let prompt = said(ToAgent::Prompt("hello".to_owned()));
        assert_eq!(prompt, [write.into(), Action::CloseInput.into()]);
        assert_eq!(said(ToAgent::Interrupt), [Action::Terminate.into()]);
        assert_eq!(said(ToAgent::Steer("more".to_owned())), []);
        let change = Change::Model("m".to_owned());
        let changed = FromConversation::Changed { id: 7, error: None };
        assert_eq!(said(ToAgent::Change { id: 7, change }), [changed]);
    }

    #[test]
    fn the_spec_identifies_the_session() {
        let spec = Spec::default().dir("/work").model("m");
        let started = identity("agent", &spec);
        assert_eq!(started.agent, "agent");
        assert_eq!(
            (started.model.as_deref(), started.cwd.as_deref()),
            (Some("m"), Some("/work"))
        );
        assert_eq!(started.native_session, None);
    }

    proptest! {
        // Whatever happens and in whichever order, a turn ends at most once, and only if it began.
        #[test]
        fn a_turn_ends_at_most_once(
            steps in proptest::collection::vec(0_u8..5, 0..20),
            code in proptest::option::of(0_i32..3),
        ) {
            let (mut conversation, mut out) = (TurnProcess(Echo::default()), Outbox::default());
            let (mut prompts, mut began) = (0, false);
            for step in steps {
                match step {
                    // A process gets one prompt.
                    0 if prompts == 0 => {
                        prompts += 1;
                        began = true;
                        conversation.send(ToAgent::Prompt(String::new()), &mut out);
                    }
                    1 => conversation.send(ToAgent::Interrupt, &mut out),
                    2 => conversation.on_line("end", &mut out),
                    _ => conversation.on_line("words", &mut out),
                }
            }
            let exit = Exit { code, ..Exit::default() };
            conversation.on_exit(&exit, &mut out);
            conversation.on_exit(&exit, &mut out);
            let ended = |item: &FromConversation| matches!(item, FromConversation::TurnEnded(_));
            let ends = out.drain().filter(ended).count();
            prop_assert!(ends <= usize::from(began));
            prop_assert!(ends == usize::from(began) || code.is_none());
        }
    }
}
