//! `fs/*`: files that the agent has read and written by Ostler. Where there are rules, they are asked first.

use std::collections::BTreeMap;

use ostler_core::dialect::{FileAccess, FileFault, FileOrder, FromConversation, Outbox};
use ostler_core::permission::{Otherwise, PermissionRequest, ToolKind, ToolUse, Verdict};
use ostler_core::raw_json::RawJson;
use serde::Serialize;

use super::conversation::AcpConversation;
use super::permissions::Question;
use super::rpc;
use super::wire::Params;

/// The files that the agent waits for.
#[derive(Debug)]
pub(super) struct Files {
    /// Whether files are read and written for it at all.
    pub(super) served: bool,
    /// Whether a missing file reads as an empty one.
    missing_reads_empty: bool,
    /// By the name of the order: the request, and whether it was to read.
    open: BTreeMap<String, (RawJson, bool)>,
}

/// A file that the agent wants read or written.
#[derive(Debug)]
pub(super) struct Wish {
    rpc: RawJson,
    order: FileOrder,
}

impl Wish {
    pub(super) fn cancel(self, out: &mut Outbox) {
        rpc::refuse(&self.rpc, rpc::INTERNAL, "The turn was interrupted.", out);
    }
}

/// Reads a request.
pub(super) fn hear(
    talk: &mut AcpConversation,
    (method, rpc): (&str, &RawJson),
    params: &Params<'_>,
    out: &mut Outbox,
) {
    let Some(path) = params.path.owned() else {
        return rpc::refuse(rpc, rpc::BAD_PARAMS, "a path is missing", out);
    };
    let reads = method == "fs/read_text_file";
    let access = match (reads, params.content.owned()) {
        (true, _) => FileAccess::Read {
            line: params.line.count(),
            limit: params.limit.count(),
        },
        (false, Some(text)) => FileAccess::Write(text),
        (false, None) => return rpc::refuse(rpc, rpc::BAD_PARAMS, "the content is missing", out),
    };
    let id = format!("file-{}", rpc.get());
    let wish = Wish {
        rpc: rpc.clone(),
        order: FileOrder {
            id: id.clone(),
            path: path.clone(),
            access,
        },
    };
    if !talk.policy {
        return talk.files.order(wish, out);
    }
    #[derive(Serialize)]
    struct Input<'a> {
        path: &'a str,
    }
    let kind = if reads {
        ToolKind::Read
    } else {
        ToolKind::Edit
    };
    let wants = ToolUse {
        paths: vec![path.clone()],
        ..ToolUse::of(method, kind)
    };
    let input = Some(RawJson::of(&Input { path: &path }));
    out.push(FromConversation::Ask(PermissionRequest {
        id: id.clone(),
        call: None,
        input,
        wants,
        otherwise: Otherwise::Agent,
    }));
    talk.permissions.insert(id, Question::File(wish));
}

#[derive(Serialize)]
struct Read {
    content: String,
}

impl Files {
    pub(super) fn new(served: bool, missing_reads_empty: bool) -> Self {
        Self {
            served,
            missing_reads_empty,
            open: BTreeMap::new(),
        }
    }

    fn order(&mut self, wish: Wish, out: &mut Outbox) {
        let reads = matches!(wish.order.access, FileAccess::Read { .. });
        self.open.insert(wish.order.id.clone(), (wish.rpc, reads));
        out.push(FromConversation::File(wish.order));
    }

    /// The rules have spoken. What no rule is about goes on as if nobody had been asked.
    pub(super) fn decided(&mut self, wish: Wish, verdict: &Verdict, out: &mut Outbox) {
        match verdict {
            Verdict::Allow | Verdict::Undecided => self.order(wish, out),
            Verdict::Deny(why) => rpc::refuse(&wish.rpc, rpc::INTERNAL, why, out),
        }
    }

    /// What came of an order.
    pub(super) fn done(&mut self, id: &str, result: Result<String, FileFault>, out: &mut Outbox) {
        let Some((rpc, reads)) = self.open.remove(id) else {
            return;
        };
        match result {
            Ok(content) if reads => rpc::reply(&rpc, Read { content }, out),
            Ok(_) => rpc::reply(&rpc, BTreeMap::<&str, &str>::new(), out),
            Err(FileFault { missing: true, .. }) if reads && self.missing_reads_empty => {
                rpc::reply(
                    &rpc,
                    Read {
                        content: String::new(),
                    },
                    out,
                );
            }
            // Some agents know by these words that the file is only not there yet.
            Err(FileFault { missing: true, why }) => {
                rpc::refuse(
                    &rpc,
                    rpc::NOT_FOUND,
                    &format!("Resource not found: {why}"),
                    out,
                );
            }
            Err(FileFault {
                missing: false,
                why,
            }) => rpc::refuse(&rpc, rpc::INTERNAL, &why, out),
        }
    }
}
