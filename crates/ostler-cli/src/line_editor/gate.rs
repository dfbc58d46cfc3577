//! Writers that print above the prompt while it is shown, so that output does not disturb the line
//! being typed.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Prints above the prompt.
type Above = Box<dyn FnMut(String) + Send>;

/// Whether the prompt is shown, and how to print above it.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    above: Option<Above>,
    is_up: bool,
}

impl Gate {
    /// Sets the printer that prints above the prompt.
    pub(super) fn set_printer(&self, above: Above) {
        self.state().above = Some(above);
    }

    /// Sets whether the prompt is shown.
    pub(super) fn set(&self, is_up: bool) {
        self.state().is_up = is_up;
    }

    /// Wraps a writer so that output goes above the prompt while it is shown.
    pub(crate) fn writer(&self, inner: Box<dyn Write + Send>) -> Box<dyn Write + Send> {
        Box::new(Gated {
            gate: self.clone(),
            inner,
            partial_line: Vec::new(),
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Gated {
    gate: Gate,
    inner: Box<dyn Write + Send>,
    /// An incomplete line.
    partial_line: Vec<u8>,
}

impl Write for Gated {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.gate.state();
        if let State {
            above: Some(above),
            is_up: true,
        } = &mut *state
        {
            self.partial_line.extend_from_slice(bytes);
            // Only complete lines go above the prompt.
            if let Some(end) = self.partial_line.iter().rposition(|byte| *byte == b'\n') {
                let lines: Vec<u8> = self.partial_line.drain(..=end).collect();
                above(String::from_utf8_lossy(&lines).into_owned());
            }
            return Ok(bytes.len());
        }
        drop(state);
        if !self.partial_line.is_empty() {
            self.inner
                .write_all(&std::mem::take(&mut self.partial_line))?;
        }
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn complete_lines_go_above_the_prompt() {
        let (gate, (to, above)) = (Gate::default(), channel());
        gate.set_printer(Box::new(move |lines| to.send(lines).unwrap()));
        let mut writer = gate.writer(Box::new(io::sink()));
        writer.write_all(b"direct\n").unwrap();
        gate.set(true);
        writer.write_all(b"one\ntw").unwrap();
        assert_eq!(above.try_iter().collect::<String>(), "one\n");
        writer.write_all(b"o\n").unwrap();
        assert_eq!(above.try_iter().collect::<String>(), "two\n");
    }
}
