//! Permissions of members on the server.
//!
//! Each member has its own account. What it may ask the server for is imported into that account
//! from the account of the fleet, which holds the streams; nothing else leaves the account.
//! Permissions by subject alone would not be enough: the server answers a request on any subject
//! that the request names, so that a worker could have its own bytes stored as another's result.
//!
//! A worker cannot publish work, write another worker's events, results or artifacts, or read them.
//! An owner cannot publish as a worker. Neither can create or change a stream, because a stream can
//! copy others and republish elsewhere; the administrator creates them.

use crate::subject::{
    EVENTS_STREAM, RESULTS_STREAM, Token, WORK_STREAM, WORKSPACES_BUCKET, artifacts_bucket,
    inbox_prefix,
};

/// Prefix of JetStream's API in the account of a member. Under its usual name, the server answers
/// for the member's account, which has no streams.
pub const API_PREFIX: &str = "ostler.api";
/// Prefix of JetStream's API in the account of the fleet.
const JETSTREAM_API: &str = "$JS.API";

/// What a member may do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    /// What it may ask for.
    pub requests: Vec<RequestSubject>,
    /// Subjects of the fleet that it may follow.
    pub follows: Vec<String>,
    /// Subjects on which it answers requests.
    pub answers: Vec<String>,
    /// Subjects of its own that owners may follow.
    pub announces: Vec<String>,
    /// Subjects of others that it may follow: the worker and the subject.
    pub heartbeats: Vec<(Token, String)>,
}

/// A subject on which a member may publish into the account of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSubject {
    /// The subject in the account of the fleet.
    pub subject: String,
    /// Whether several messages answer one request.
    pub is_streamed: bool,
}

impl RequestSubject {
    /// Returns the subject in the account of the member.
    #[must_use]
    pub fn local(&self) -> String {
        match self.subject.strip_prefix(JETSTREAM_API) {
            Some(rest) => format!("{API_PREFIX}{rest}"),
            None => self.subject.clone(),
        }
    }
}

/// Collects requests.
#[derive(Default)]
struct Requests(Vec<RequestSubject>);

impl Requests {
    fn add(&mut self, subject: String) {
        self.0.push(RequestSubject {
            subject,
            is_streamed: false,
        });
    }

    fn api(&mut self, rest: impl std::fmt::Display) {
        self.add(format!("{JETSTREAM_API}.{rest}"));
    }

    fn pull(&mut self, stream: &str) {
        self.0.push(RequestSubject {
            subject: format!("{JETSTREAM_API}.CONSUMER.MSG.NEXT.{stream}.*"),
            is_streamed: true,
        });
    }

    /// Adds what creating a consumer of a stream needs.
    fn consume(&mut self, stream: &str) {
        self.api(format_args!("CONSUMER.CREATE.{stream}"));
        self.api(format_args!("CONSUMER.CREATE.{stream}.>"));
        self.api(format_args!("CONSUMER.INFO.{stream}.*"));
        self.api(format_args!("CONSUMER.DELETE.{stream}.*"));
        self.add(format!("$JS.FC.{stream}.>"));
    }

    /// Adds what reading a bucket needs.
    fn read_bucket(&mut self, bucket: &str) {
        let stream = bucket_stream(bucket);
        self.api(format_args!("STREAM.INFO.{stream}"));
        self.api(format_args!("DIRECT.GET.{stream}"));
        self.api(format_args!("DIRECT.GET.{stream}.>"));
        self.consume(&stream);
        self.pull(&stream);
    }

    /// Adds what writing to a bucket needs.
    fn write_bucket(&mut self, bucket: &str) {
        let stream = bucket_stream(bucket);
        self.api(format_args!("STREAM.INFO.{stream}"));
        self.api(format_args!("DIRECT.GET.{stream}.$O.{bucket}.M.>"));
        self.api(format_args!("STREAM.PURGE.{stream}"));
        self.add(format!("$O.{bucket}.>"));
    }
}

fn bucket_stream(bucket: &str) -> String {
    format!("OBJ_{bucket}")
}

/// Returns the permissions of a worker.
#[must_use]
pub fn of_worker(worker: &Token) -> Permissions {
    let mut requests = Requests::default();
    requests.add(format!("ostler.claim.*.*.{worker}"));
    requests.add(format!("ostler.events.{worker}.>"));
    requests.add(format!("ostler.results.{worker}.>"));
    // Its classes of work, and the items of a class.
    requests.api(format_args!("STREAM.INFO.{WORK_STREAM}"));
    requests.api(format_args!("CONSUMER.LIST.{WORK_STREAM}"));
    requests.api(format_args!("CONSUMER.INFO.{WORK_STREAM}.*"));
    requests.pull(WORK_STREAM);
    requests.add(format!("$JS.ACK.{WORK_STREAM}.>"));
    // The last message of its own attempts, to catch up after a lost connection.
    requests.api(format_args!(
        "DIRECT.GET.{EVENTS_STREAM}.ostler.events.{worker}.>"
    ));
    requests.api(format_args!(
        "DIRECT.GET.{RESULTS_STREAM}.ostler.results.{worker}.>"
    ));
    requests.write_bucket(&artifacts_bucket(worker));
    requests.read_bucket(WORKSPACES_BUCKET);
    Permissions {
        requests: requests.0,
        follows: vec![format!("{}.>", inbox_prefix(worker))],
        answers: vec![format!("ostler.control.{worker}.*")],
        announces: vec![heartbeat(worker)],
        heartbeats: Vec::new(),
    }
}

/// Returns the permissions of an owner in a fleet with these workers.
#[must_use]
pub fn of_owner<'a>(owner: &Token, workers: impl IntoIterator<Item = &'a Token>) -> Permissions {
    let mut requests = Requests::default();
    requests.add("ostler.work.*".to_owned());
    requests.add("ostler.control.*.*".to_owned());
    for stream in [WORK_STREAM, EVENTS_STREAM, RESULTS_STREAM] {
        requests.api(format_args!("STREAM.INFO.{stream}"));
        requests.api(format_args!("CONSUMER.LIST.{stream}"));
        requests.consume(stream);
        requests.pull(stream);
    }
    // An item that no worker has taken when its attempt ends.
    requests.api(format_args!("STREAM.MSG.DELETE.{WORK_STREAM}"));
    // Records and results that it has stored.
    for stream in [EVENTS_STREAM, RESULTS_STREAM] {
        requests.api(format_args!("DIRECT.GET.{stream}"));
        requests.api(format_args!("DIRECT.GET.{stream}.>"));
        requests.api(format_args!("STREAM.PURGE.{stream}"));
    }
    requests.write_bucket(WORKSPACES_BUCKET);
    let mut heartbeats = Vec::new();
    for worker in workers {
        requests.read_bucket(&artifacts_bucket(worker));
        heartbeats.push((worker.clone(), heartbeat(worker)));
    }
    Permissions {
        requests: requests.0,
        follows: vec![format!("{}.>", inbox_prefix(owner))],
        answers: vec![format!("ostler.claim.{owner}.>")],
        announces: Vec::new(),
        heartbeats,
    }
}

fn heartbeat(worker: &Token) -> String {
    crate::subject::heartbeat(worker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_administrator_creates_or_changes_streams() {
        let (owner, worker): (Token, Token) = ("o".parse().unwrap(), "w".parse().unwrap());
        for permissions in [of_owner(&owner, [&worker]), of_worker(&worker)] {
            for request in permissions.requests {
                let subject = &request.subject;
                assert!(!subject.contains("STREAM.CREATE"), "{subject}");
                assert!(!subject.contains("STREAM.UPDATE"), "{subject}");
                assert!(!subject.starts_with("$JS.API.>"), "{subject}");
            }
        }
    }

    #[test]
    fn a_worker_names_itself_in_everything_that_it_writes() {
        let permissions = of_worker(&"w1".parse().unwrap());
        let written = permissions.requests.iter().filter(|it| {
            let is_read =
                it.subject.starts_with("$JS.") || it.subject.starts_with("$O.artifacts_w1.");
            !is_read
        });
        for request in written {
            assert!(request.subject.contains(".w1"), "{}", request.subject);
        }
    }
}
