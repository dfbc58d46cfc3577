//! JSON-RPC over lines: request ids, messages to a peer, messages from it, and requests that wait
//! for their responses.

use std::collections::BTreeMap;

use ostler_core::dialect::Outbox;
use ostler_core::raw_json::RawJson;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json_lines;
use crate::lenient::{Node, Object, Scalar, wire};

/// Error code: unknown method.
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
/// Error code: invalid parameters.
pub(crate) const INVALID_PARAMS: i32 = -32602;

/// Id of a request, verbatim: a number or a string, or whatever else the peer sent in its place.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct RequestId(RawJson);

impl RequestId {
    /// Creates a number.
    #[cfg(any(feature = "acp", test))]
    pub(crate) fn number(number: u64) -> Self {
        Self(RawJson::of(&number))
    }

    /// Creates a string.
    pub(crate) fn text(text: &str) -> Self {
        Self(RawJson::string(text))
    }

    /// Copies the id of a message. `null` counts as absent.
    pub(crate) fn from_raw(raw: &RawValue) -> Option<Self> {
        (raw.get() != "null").then(|| Self(RawJson::from_raw(raw)))
    }

    /// Returns the id as JSON.
    pub(crate) fn as_json(&self) -> &str {
        self.0.get()
    }

    /// Returns the text of a string, or the JSON of anything else. Some peers return a number as a
    /// string.
    fn key(&self) -> String {
        serde_json::from_str(self.0.get()).unwrap_or_else(|_| self.0.get().to_owned())
    }
}

/// Form of the messages that a peer expects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Framing {
    jsonrpc: Option<&'static str>,
}

/// JSON-RPC 2.0.
pub(crate) const V2: Framing = Framing {
    jsonrpc: Some("2.0"),
};

/// JSON-RPC 2.0 without the field that names the version.
pub(crate) const UNVERSIONED: Framing = Framing { jsonrpc: None };

/// A message to the peer, of any kind.
#[derive(Serialize)]
struct Outgoing<'a, T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonrpc: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure<'a>>,
}

/// Error of a failed request.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Failure<'a> {
    /// Error code.
    pub(crate) code: i32,
    /// Error message.
    pub(crate) message: &'a str,
}

/// Method and parameters of a request.
#[derive(Debug)]
pub(crate) struct Call<'a, T> {
    /// The method.
    pub(crate) method: &'a str,
    /// Its parameters.
    pub(crate) params: T,
}

impl Framing {
    fn message<'a, T: Serialize>(self, id: Option<&'a RequestId>) -> Outgoing<'a, T> {
        Outgoing {
            jsonrpc: self.jsonrpc,
            id,
            method: None,
            params: None,
            result: None,
            error: None,
        }
    }

    /// Returns a notification.
    pub(crate) fn notification<T: Serialize>(self, method: &str, params: Option<T>) -> RawJson {
        RawJson::of(&Outgoing {
            method: Some(method),
            params,
            ..self.message(None)
        })
    }

    /// Returns a response. It has no id if the peer wants an answer to a notification.
    pub(crate) fn response<T: Serialize>(self, id: Option<&RequestId>, result: T) -> RawJson {
        RawJson::of(&Outgoing {
            result: Some(result),
            ..self.message(id)
        })
    }

    /// Returns an error response.
    pub(crate) fn error(self, id: Option<&RequestId>, failure: Failure<'_>) -> RawJson {
        RawJson::of(&Outgoing::<()> {
            error: Some(failure),
            ..self.message(id)
        })
    }

    /// Sends a notification to the agent.
    pub(crate) fn notify<T: Serialize>(self, method: &str, params: Option<T>, out: &mut Outbox) {
        json_lines::send(&self.notification(method, params), out);
    }

    /// Replies to a request of the agent.
    pub(crate) fn reply<T: Serialize>(self, id: &RequestId, result: T, out: &mut Outbox) {
        json_lines::send(&self.response(Some(id), result), out);
    }

    /// Replies to a request of the agent with an error.
    pub(crate) fn reply_error(self, id: &RequestId, failure: Failure<'_>, out: &mut Outbox) {
        json_lines::send(&self.error(Some(id), failure), out);
    }
}

/// Purpose of a request to the peer, which determines how its response is handled.
pub(crate) trait Purpose {
    /// Returns an unused id. `count` is the number of numbered requests so far.
    fn id(&self, count: &mut u64) -> RequestId;
}

/// Requests that wait for their responses.
#[derive(Debug)]
pub(crate) struct Client<P> {
    framing: Framing,
    count: u64,
    pending: BTreeMap<String, P>,
}

impl<P: Purpose> Client<P> {
    pub(crate) fn new(framing: Framing) -> Self {
        Self {
            framing,
            count: 0,
            pending: BTreeMap::new(),
        }
    }

    /// Sends a request to the agent.
    pub(crate) fn request<T: Serialize>(
        &mut self,
        purpose: P,
        call: Call<'_, T>,
        out: &mut Outbox,
    ) {
        let id = purpose.id(&mut self.count);
        let message = Outgoing {
            method: Some(call.method),
            params: Some(call.params),
            ..self.framing.message(Some(&id))
        };
        json_lines::send(&message, out);
        self.pending.insert(id.key(), purpose);
    }

    /// Removes the request with this id and returns its purpose, or `None` if none is pending.
    pub(crate) fn complete(&mut self, id: &RequestId) -> Option<P> {
        self.pending.remove(&id.key())
    }

    /// Returns the purposes of all pending requests.
    #[cfg(any(feature = "acp", test))]
    pub(crate) fn pending(&self) -> impl Iterator<Item = &P> {
        self.pending.values()
    }
}

/// A message from the peer, with parameters of type `P` and a result of type `R`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(
    default,
    bound(deserialize = "'de: 'a, P: Deserialize<'de> + Default, R: Deserialize<'de> + Default")
)]
pub(crate) struct Incoming<'a, P, R> {
    id: Option<&'a RawValue>,
    method: Scalar<'a>,
    /// Parameters of a request or notification.
    pub(crate) params: Object<P>,
    /// Result of one of our requests.
    pub(crate) result: R,
    error: Node<'a, RpcError<'a>>,
}

wire! {
    /// Error of a request. The code is usually negative, but some agents send an HTTP status.
    struct RpcError {
        code,
        message,
        data: Option<&'a RawValue>,
    }
}

impl RpcError<'_> {
    /// Returns the code, if it is a whole number of a plausible size.
    pub(crate) fn code(&self) -> Option<i64> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "JSON-RPC codes have five digits"
        )]
        let code = self.code.amount().filter(|code| code.abs() < 1e9)? as i64;
        Some(code)
    }
}

/// Kind of a message from the peer.
#[derive(Debug, PartialEq)]
pub(crate) enum Kind<'m> {
    /// A request, which expects a response with its id.
    Request(RequestId, &'m str),
    /// A notification.
    Notification(&'m str),
    /// The response to a request.
    Response(RequestId),
    /// Neither a method nor an id.
    Invalid,
}

impl<'a, P, R> Incoming<'a, P, R> {
    /// Returns the id of a request or response.
    pub(crate) fn id(&self) -> Option<RequestId> {
        self.id.and_then(RequestId::from_raw)
    }

    /// Returns the method of a request or notification.
    pub(crate) fn method(&self) -> Option<&str> {
        self.method.text()
    }

    /// Returns what kind of message this is.
    pub(crate) fn kind(&self) -> Kind<'_> {
        match (self.method(), self.id()) {
            (Some(method), Some(id)) => Kind::Request(id, method),
            (Some(method), None) => Kind::Notification(method),
            (None, Some(id)) => Kind::Response(id),
            (None, None) => Kind::Invalid,
        }
    }

    /// Returns the error of a failed request. Some peers send only its text.
    pub(crate) fn error(&self) -> Option<RpcError<'a>> {
        match &self.error {
            Node::Map(error) => Some(error.clone()),
            Node::Text(text) => Some(RpcError {
                message: Scalar::Text(text.clone()),
                ..RpcError::default()
            }),
            Node::None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use ostler_core::dialect::{Action, FromConversation};
    use proptest::prelude::*;
    use serde::de::IgnoredAny;
    use serde_json::{Value, json};

    use super::*;

    /// Purpose of a test request: numbered if even, named if odd.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Job(u64);

    impl Purpose for Job {
        fn id(&self, count: &mut u64) -> RequestId {
            *count += 1;
            match self.0 % 2 {
                0 => RequestId::number(*count),
                _ => RequestId::text(&format!("job-{count}")),
            }
        }
    }

    type Message<'a> = Incoming<'a, IgnoredAny, Option<&'a RawValue>>;

    fn parse(text: &str) -> Message<'_> {
        serde_json::from_str(text).unwrap()
    }

    fn id_of(json: &str) -> Option<RequestId> {
        parse(&format!(r#"{{"id":{json}}}"#)).id()
    }

    /// Sends a request and returns it as it was written.
    fn sent(client: &mut Client<Job>, job: Job) -> Value {
        let mut out = Outbox::default();
        let call = Call {
            method: "run",
            params: job.0,
        };
        client.request(job, call, &mut out);
        let written: Vec<_> = out.drain().collect();
        let [FromConversation::Do(Action::Write(bytes))] = &written[..] else {
            panic!("{written:?}")
        };
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn messages_have_exactly_the_fields_of_their_kind() {
        let (id, text) = (RequestId::number(7), RequestId::text("a\"b"));
        let failure = Failure {
            code: METHOD_NOT_FOUND,
            message: "no",
        };
        for (message, expected) in [
            (
                V2.notification("m", Some([1])),
                r#"{"jsonrpc":"2.0","method":"m","params":[1]}"#,
            ),
            (
                UNVERSIONED.notification("m", None::<()>),
                r#"{"method":"m"}"#,
            ),
            (
                V2.response(Some(&id), "r"),
                r#"{"jsonrpc":"2.0","id":7,"result":"r"}"#,
            ),
            (V2.response(None, ()), r#"{"jsonrpc":"2.0","result":null}"#),
            (
                UNVERSIONED.response(Some(&text), 1),
                r#"{"id":"a\"b","result":1}"#,
            ),
            (
                V2.error(Some(&id), failure),
                r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}"#,
            ),
        ] {
            assert_eq!(message.get(), expected);
        }
        let mut client = Client::new(V2);
        let request = sent(&mut client, Job(0));
        assert_eq!(
            request,
            json!({"jsonrpc": "2.0", "id": 1, "method": "run", "params": 0})
        );
        let mut client = Client::new(UNVERSIONED);
        let request = sent(&mut client, Job(1));
        assert_eq!(
            request,
            json!({"id": "job-1", "method": "run", "params": 1})
        );
    }

    #[test]
    fn fields_determine_the_kind() {
        let id = RequestId::number(1);
        for (text, kind) in [
            (r#"{"id":1,"method":"m"}"#, Kind::Request(id.clone(), "m")),
            (r#"{"method":"m"}"#, Kind::Notification("m")),
            (r#"{"id":null,"method":"m"}"#, Kind::Notification("m")),
            (r#"{"id":1,"result":{}}"#, Kind::Response(id.clone())),
            (r#"{"id":1,"method":7}"#, Kind::Response(id)),
            (r#"{"id":null,"error":{}}"#, Kind::Invalid),
            ("{}", Kind::Invalid),
        ] {
            assert_eq!(parse(text).kind(), kind, "{text}");
        }
    }

    #[test]
    fn errors_have_a_code_and_a_message() {
        for (error, code, message) in [
            (r#"{"code":-32601,"message":"m"}"#, Some(-32601), "m"),
            (r#"{"code":429,"message":"m"}"#, Some(429), "m"),
            (r#"{"code":1e300}"#, None, ""),
            (r#"{"code":"x","message":7}"#, None, ""),
            (r#""only text""#, None, "only text"),
        ] {
            let text = format!(r#"{{"id":1,"error":{error}}}"#);
            let parsed = parse(&text).error().unwrap();
            assert_eq!(
                (parsed.code(), parsed.message.or_empty()),
                (code, message),
                "{error}"
            );
        }
        for none in [
            r#"{"id":1}"#,
            r#"{"id":1,"error":null}"#,
            r#"{"id":1,"error":7}"#,
        ] {
            assert!(parse(none).error().is_none(), "{none}");
        }
    }

    #[test]
    fn ids_are_returned_verbatim() {
        for json in [
            "0",
            "-1",
            "1.50",
            "1e2",
            r#""a\u0062""#,
            "true",
            "[1, 2]",
            r#"{"a":1}"#,
        ] {
            let id = id_of(json).unwrap();
            assert_eq!(id.as_json(), json);
            let reply = V2.response(Some(&id), ());
            assert!(
                reply.get().contains(&format!(r#""id":{json},"#)),
                "{reply:?}"
            );
        }
        assert_eq!(id_of("null"), None);
    }

    #[test]
    fn a_number_may_come_back_as_a_string() {
        let mut client = Client::new(V2);
        sent(&mut client, Job(0));
        assert_eq!(client.complete(&id_of(r#""1""#).unwrap()), Some(Job(0)));
        assert_eq!(client.complete(&id_of("1").unwrap()), None, "only once");
    }

    /// One step of an exchange.
    #[derive(Debug, Clone)]
    enum Step {
        Request,
        /// Answers the request at this position among those sent, if any, perhaps again.
        Respond(proptest::sample::Index),
        /// A response with any JSON as its id.
        Stray(String),
    }

    fn step() -> impl Strategy<Value = Step> {
        let id = prop_oneof![
            Just("null".to_owned()),
            any::<f64>().prop_map(|number| json!(number).to_string()),
            (i64::MIN..0).prop_map(|number| number.to_string()),
            "x.{0,5}".prop_map(|text| json!(text).to_string()),
            Just(r#""\ud83d""#.to_owned()),
            Just(r#"{"a":[1,null]}"#.to_owned()),
            Just("[]".to_owned()),
        ];
        prop_oneof![
            3 => Just(Step::Request),
            3 => any::<proptest::sample::Index>().prop_map(Step::Respond),
            1 => id.prop_map(Step::Stray),
        ]
    }

    proptest! {
        // Whatever arrives and in whichever order, each response completes its request once.
        #[test]
        fn each_response_completes_its_request_once(
            steps in proptest::collection::vec(step(), 0..60),
        ) {
            let mut client = Client::new(V2);
            let mut ids: Vec<String> = Vec::new();
            let mut open = std::collections::BTreeSet::new();
            for step in steps {
                match step {
                    Step::Request => {
                        let job = ids.len();
                        ids.push(sent(&mut client, Job(job as u64))["id"].to_string());
                        open.insert(job);
                    }
                    Step::Respond(_) if ids.is_empty() => {}
                    Step::Respond(at) => {
                        let job = at.index(ids.len());
                        let completed = client.complete(&id_of(&ids[job]).unwrap());
                        let expected = open.remove(&job).then_some(Job(job as u64));
                        prop_assert_eq!(completed, expected);
                    }
                    Step::Stray(id) => {
                        let known = ids.contains(&id);
                        let completed = id_of(&id).and_then(|id| client.complete(&id));
                        prop_assert!(known || completed.is_none(), "{}", id);
                    }
                }
                prop_assert_eq!(client.pending().count(), open.len());
            }
        }

        // Any object is a message of exactly one kind, and reading it never fails.
        #[test]
        fn any_fields_are_read(
            id in proptest::option::of("0|[1-9][0-9]{0,2}|\"[a-z]{0,3}\"|null|true|\\[\\]|\\{\\}"),
            method in proptest::option::of("\"[a-z]{0,3}\"|null|7|\\[\\]"),
            rest in proptest::sample::subsequence(
                vec![r#""params":7"#, r#""result":[]"#, r#""error":"x""#, r#""new":{}"#], 0..4),
        ) {
            let fields = id.iter().map(|id| format!(r#""id":{id}"#));
            let fields = fields.chain(method.iter().map(|method| format!(r#""method":{method}"#)));
            let fields: Vec<String> = fields.chain(rest.iter().map(ToString::to_string)).collect();
            let text = format!("{{{}}}", fields.join(","));
            let message = parse(&text);
            let has_id = id.is_some_and(|id| id != "null");
            let has_method = method.is_some_and(|method| method.starts_with('"'));
            let expected = match message.kind() {
                Kind::Request(..) => (true, true),
                Kind::Response(_) => (true, false),
                Kind::Notification(_) => (false, true),
                Kind::Invalid => (false, false),
            };
            prop_assert_eq!((has_id, has_method), expected, "{}", text);
        }
    }
}
