//! Multi-turn sessions: their readers, their lifecycle, and the requests they accept.

mod asks;
mod attacks;
mod bounds;
mod documents;
mod hold;
mod kept;
mod languages;
mod life;
mod per_turn;
mod provider;
mod readers;
