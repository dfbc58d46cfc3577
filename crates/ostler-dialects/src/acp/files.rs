//! File access for the agent (`fs/*`): Ostler reads and writes files on its behalf, after checking
//! the policy.

use std::collections::BTreeMap;

use ostler_core::dialect::{Action, FileAccess, FileError, FileJob, Outbox};
use ostler_core::permission::{Fallback, PermissionRequest, ToolKind, ToolUse, Verdict};
use ostler_core::raw_json::RawJson;
use serde_json::json;

use super::conversation::{AcpConversation, Request};
use super::permissions::PendingPermission;
use super::rpc::{INTERNAL_ERROR, RESOURCE_NOT_FOUND};
use crate::jsonrpc::{Failure, INVALID_PARAMS, RequestId, V2};

/// Pending file requests.
#[derive(Debug)]
pub(super) struct Files {
    /// Whether Ostler serves file requests at all.
    pub(super) served: bool,
    /// Whether a missing file reads as empty.
    missing_reads_empty: bool,
    /// JSON-RPC id by job id, and whether the job is a read.
    open: BTreeMap<String, (RequestId, bool)>,
}

/// A file that the agent wants to read or write.
#[derive(Debug)]
pub(super) struct FileRequest {
    rpc: RequestId,
    job: FileJob,
}

impl FileRequest {
    pub(super) fn cancel(self, out: &mut Outbox) {
        refuse(&self.rpc, INTERNAL_ERROR, "The turn was interrupted.", out);
    }
}

fn refuse(rpc: &RequestId, code: i32, message: &str, out: &mut Outbox) {
    V2.reply_error(rpc, Failure { code, message }, out);
}

/// Handles a file request.
pub(super) fn on_request(
    conversation: &mut AcpConversation,
    request: &Request<'_>,
    out: &mut Outbox,
) {
    let Request {
        id: rpc,
        method,
        params,
    } = request;
    let Some(path) = params.path.owned() else {
        return refuse(rpc, INVALID_PARAMS, "`path` is missing", out);
    };
    let reads = *method == "fs/read_text_file";
    let access = match (reads, params.content.owned()) {
        (true, _) => FileAccess::Read {
            line: params.line.count(),
            limit: params.limit.count(),
        },
        (false, Some(text)) => FileAccess::Write(text),
        (false, None) => {
            return refuse(rpc, INVALID_PARAMS, "`content` is missing", out);
        }
    };
    let id = format!("file-{}", rpc.as_json());
    let request = FileRequest {
        rpc: rpc.clone(),
        job: FileJob {
            id: id.clone(),
            path: path.clone(),
            access,
        },
    };
    if !conversation.policy {
        return conversation.files.job(request, out);
    }
    let kind = if reads {
        ToolKind::Read
    } else {
        ToolKind::Edit
    };
    let wants = ToolUse {
        paths: vec![path.clone()],
        ..ToolUse::new(method, kind)
    };
    let input = Some(RawJson::of(&json!({ "path": path })));
    out.push(PermissionRequest {
        id: id.clone(),
        call: None,
        input,
        wants,
        fallback: Fallback::Agent,
    });
    conversation
        .permissions
        .insert(id, PendingPermission::File(request));
}

impl Files {
    pub(super) fn new(served: bool, missing_reads_empty: bool) -> Self {
        Self {
            served,
            missing_reads_empty,
            open: BTreeMap::new(),
        }
    }

    fn job(&mut self, request: FileRequest, out: &mut Outbox) {
        let reads = matches!(request.job.access, FileAccess::Read { .. });
        self.open
            .insert(request.job.id.clone(), (request.rpc, reads));
        out.push(Action::AccessFile(request.job));
    }

    /// Carries out or refuses a request according to the policy's verdict. Without a verdict, the
    /// request proceeds.
    pub(super) fn on_verdict(&mut self, request: FileRequest, verdict: &Verdict, out: &mut Outbox) {
        match verdict {
            Verdict::Allow | Verdict::Undecided => self.job(request, out),
            Verdict::Deny(why) => refuse(&request.rpc, INTERNAL_ERROR, why, out),
        }
    }

    /// Replies with the result of a job.
    pub(super) fn on_result(
        &mut self,
        id: &str,
        result: Result<String, FileError>,
        out: &mut Outbox,
    ) {
        let Some((rpc, reads)) = self.open.remove(id) else {
            return;
        };
        match result {
            Ok(content) if reads => V2.reply(&rpc, json!({ "content": content }), out),
            Ok(_) => V2.reply(&rpc, json!({}), out),
            Err(FileError { missing: true, .. }) if reads && self.missing_reads_empty => {
                V2.reply(&rpc, json!({"content": ""}), out);
            }
            // Some agents recognize a file that does not exist yet by this message.
            Err(FileError { missing: true, why }) => {
                let message = format!("Resource not found: {why}");
                refuse(&rpc, RESOURCE_NOT_FOUND, &message, out);
            }
            Err(FileError {
                missing: false,
                why,
            }) => refuse(&rpc, INTERNAL_ERROR, &why, out),
        }
    }
}
