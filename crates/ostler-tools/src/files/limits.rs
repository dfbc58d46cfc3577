//! Limits of the file tools.

/// Maximum bytes returned by one read.
pub(super) const READ_BYTES: u64 = 256 * 1024;
/// Maximum lines returned by a read without a limit.
pub(super) const READ_LINES: u64 = 2_000;
/// Maximum bytes scanned by a read with an offset.
pub(super) const SCAN_BYTES: u64 = 64 * 1024 * 1024;
/// Length at which a line is truncated, in characters.
pub(super) const LINE_CHARS: usize = 2_000;
/// Bytes examined to distinguish text from binary content.
pub(super) const HEAD_BYTES: u64 = 8 * 1024;
/// Maximum size of a file that is written or edited, in bytes.
pub(super) const WRITE_BYTES: u64 = 10 * 1024 * 1024;
/// Maximum size of a text that is compared for a diff, in bytes.
pub(super) const DIFF_INPUT_BYTES: usize = 1024 * 1024;
/// Maximum size of a diff, in bytes.
pub(super) const DIFF_BYTES: usize = 16 * 1024;
/// Maximum lines of a diff.
pub(super) const DIFF_LINES: usize = 200;
/// Maximum entries in a listing.
pub(super) const LIST_ENTRIES: usize = 1_000;
/// Maximum entries examined by a walk.
pub(super) const WALK_ENTRIES: usize = 200_000;
/// Maximum matches returned by a search, whatever was requested.
pub(super) const SEARCH_MATCHES: u64 = 1_000;
/// Matches returned by a search by default.
pub(super) const SEARCH_MATCHES_DEFAULT: u64 = 100;
/// Maximum lines of context around a match.
pub(super) const SEARCH_CONTEXT: u64 = 20;
/// Length at which a found line is truncated, in characters.
pub(super) const SEARCH_LINE_CHARS: usize = 400;
/// Maximum size of a file that is searched, in bytes.
pub(super) const SEARCH_FILE_BYTES: u64 = 32 * 1024 * 1024;
/// Maximum bytes read by one search.
pub(super) const SEARCH_BYTES: u64 = 1024 * 1024 * 1024;
/// Maximum bytes of text returned by a search.
pub(super) const SEARCH_OUTPUT_BYTES: usize = 256 * 1024;
/// Maximum length of a path and of a link's target, in bytes.
pub(super) const PATH_BYTES: usize = 4 * 1024;
/// Maximum length of a glob or regular expression, in bytes.
pub(super) const PATTERN_BYTES: usize = 4 * 1024;
/// Maximum size of a compiled regular expression, in bytes.
pub(super) const REGEX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum size of a `.gitignore` that is honoured, in bytes.
pub(super) const GITIGNORE_BYTES: u64 = 512 * 1024;
/// Maximum size of the policy file, in bytes.
pub(crate) const POLICY_BYTES: u64 = 256 * 1024;
/// Maximum size of a workspace's other settings files, in bytes.
pub(crate) const SETTINGS_BYTES: u64 = 1024 * 1024;
/// Maximum number of symbolic links followed for one path.
pub(super) const LINKS: usize = 40;
