//! How much is read, written and shown: every number of the file tools in one place.

/// The most that one read gives, in bytes.
pub(super) const READ_BYTES: u64 = 256 * 1024;
/// The most lines that a read without a limit gives.
pub(super) const READ_LINES: u64 = 2_000;
/// How far a read with an offset looks into a file, in bytes.
pub(super) const SCAN_BYTES: u64 = 64 * 1024 * 1024;
/// Where a line is cut, in characters.
pub(super) const LINE_CHARS: usize = 2_000;
/// How much of a file is looked at to tell text from other things, in bytes.
pub(super) const HEAD_BYTES: u64 = 8 * 1024;
/// The largest file that is written or edited, in bytes.
pub(super) const WRITE_BYTES: u64 = 10 * 1024 * 1024;
/// The largest text that is compared for a diff, in bytes.
pub(super) const DIFF_INPUT_BYTES: usize = 1024 * 1024;
/// The longest diff, in bytes.
pub(super) const DIFF_BYTES: usize = 16 * 1024;
/// The longest diff, in lines.
pub(super) const DIFF_LINES: usize = 200;
/// The most entries that a listing gives.
pub(super) const LIST_ENTRIES: usize = 1_000;
/// How many entries a walk looks at before it gives up.
pub(super) const WALK_ENTRIES: usize = 200_000;
/// The most matches that a search gives, whatever was asked.
pub(super) const SEARCH_MATCHES: u64 = 1_000;
/// The matches that a search gives when nothing was asked.
pub(super) const SEARCH_MATCHES_DEFAULT: u64 = 100;
/// The most lines of context around a match.
pub(super) const SEARCH_CONTEXT: u64 = 20;
/// Where a found line is cut, in characters.
pub(super) const SEARCH_LINE_CHARS: usize = 400;
/// The largest file that is searched, in bytes.
pub(super) const SEARCH_FILE_BYTES: u64 = 32 * 1024 * 1024;
/// How much one search reads in all, in bytes.
pub(super) const SEARCH_BYTES: u64 = 1024 * 1024 * 1024;
/// The most text that a search gives, in bytes.
pub(super) const SEARCH_OUTPUT_BYTES: usize = 256 * 1024;
/// The longest path, and the longest target of a link, in bytes.
pub(super) const PATH_BYTES: usize = 4 * 1024;
/// The longest glob or regular expression, in bytes.
pub(super) const PATTERN_BYTES: usize = 4 * 1024;
/// How large a regular expression may become when it is compiled, in bytes.
pub(super) const REGEX_BYTES: usize = 4 * 1024 * 1024;
/// The largest `.gitignore` that is honoured, in bytes.
pub(super) const GITIGNORE_BYTES: u64 = 512 * 1024;
/// The largest policy file, in bytes.
pub(crate) const POLICY_BYTES: u64 = 256 * 1024;
/// The largest of a workspace's other settings files, in bytes.
pub(crate) const SETTINGS_BYTES: u64 = 1024 * 1024;
/// How many symbolic links one path may go through.
pub(super) const LINKS: usize = 40;
