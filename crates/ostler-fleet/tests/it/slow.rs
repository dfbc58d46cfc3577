//! Tests that take a minute or more. They run one at a time.

mod chaos;
mod link;
mod proxy;
