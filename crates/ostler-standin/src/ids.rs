//! Unique identifiers, also across servers on one machine, since a session may be resumed against
//! another server.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

static SEED: LazyLock<u32> = LazyLock::new(|| {
    // The standard library's only source of randomness, which is enough here.
    let hash = RandomState::new().hash_one(std::process::id());
    u32::try_from(hash >> 32).unwrap_or_default()
});
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Returns a fresh identifier that starts with `prefix`, such as `toolu_`.
pub(super) fn fresh(prefix: &str) -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{:08x}{number:012x}", *SEED)
}
