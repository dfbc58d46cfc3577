//! Tokens of a session by kind.

/// Tokens of a session by kind, as far as known. All but `reasoning` are disjoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenCounters {
    /// Input tokens not read from a cache.
    pub input: Option<u64>,
    /// Input tokens read from a cache.
    pub cache_read: Option<u64>,
    /// Input tokens written to a cache.
    pub cache_write: Option<u64>,
    /// Output tokens, including reasoning.
    pub output: Option<u64>,
    /// Reasoning tokens, a part of the output.
    pub reasoning: Option<u64>,
}

impl TokenCounters {
    /// Parses a JSON list of the counters, in their order. Anything else is unknown.
    pub(crate) fn parse(json: &str) -> Self {
        let [input, cache_read, cache_write, output, reasoning] =
            serde_json::from_str(json).unwrap_or_default();
        Self {
            input,
            cache_read,
            cache_write,
            output,
            reasoning,
        }
    }
}
