//! ACP agents: replayed recordings, and each difference between agents on its own.

mod adapters;
mod ask_mode;
mod differences;
mod goose_qwen;
mod handshake;
mod recordings;
mod robust;
mod rules;
mod servers;
mod harness;
