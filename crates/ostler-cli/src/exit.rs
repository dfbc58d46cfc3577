//! Exit codes: one table, the same as in `docs/exit-codes.md`.

use ostler::Cause;

/// An exit code of this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u8);

pub(crate) const OK: Code = Code(0);
pub(crate) const FAILED: Code = Code(1);
pub(crate) const USAGE: Code = Code(2);
pub(crate) const UNAVAILABLE: Code = Code(3);
pub(crate) const INTERNAL: Code = Code(70);

/// Returns success or failure.
pub(crate) fn ok_if(is_ok: bool) -> Code {
    if is_ok { OK } else { FAILED }
}

/// Returns the exit code for the cause that ended a run.
pub(crate) fn of(cause: Cause) -> Code {
    Code(match cause {
        Cause::Completed => 0,
        Cause::Network | Cause::Refused | Cause::AgentDied | Cause::Protocol => 1,
        Cause::BadRequest => 2,
        Cause::Unavailable => 3,
        Cause::Auth => 4,
        Cause::RateLimit | Cause::Overloaded | Cause::ServerError => 5,
        Cause::Budget
        | Cause::TurnLimit
        | Cause::WallLimit
        | Cause::IdleLimit
        | Cause::StartupLimit
        | Cause::OutputLimit => 6,
        Cause::Denied => 7,
        Cause::NeedsInput => 8,
        Cause::Interrupted => 130,
        Cause::Stopped => 143,
    })
}

impl From<Code> for std::process::ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_table_matches() {
        let page = include_str!("../../../docs/exit-codes.md");
        for cause in Cause::ALL {
            let row = format!("| `{}` | {} |", cause, of(cause).0);
            assert!(
                page.contains(&row),
                "docs/exit-codes.md lacks the row {row}"
            );
        }
    }
}
