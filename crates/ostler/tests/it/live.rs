//! Sessions of many turns: their readers, their life, and what can be asked of them.

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
