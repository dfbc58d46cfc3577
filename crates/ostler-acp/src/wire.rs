//! JSON-RPC with one message per line. Parsing never fails: invalid lines become
//! [`Incoming::Invalid`].

use ostler_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Id of a request, as the editor wrote it.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub(crate) struct Id(Box<RawValue>);

/// A message from the editor.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A request, which expects a response.
    Request {
        id: Id,
        method: String,
        params: Box<RawValue>,
    },
    /// A notification.
    Notification {
        method: String,
        params: Box<RawValue>,
    },
    /// A response to one of our requests; the result is `None` if it failed.
    Reply {
        id: String,
        result: Option<Box<RawValue>>,
    },
    /// An invalid message: the id, if it could be read, and the error.
    Invalid(Option<Id>, Failure),
}

/// Error response to a request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Data>,
}

/// Details of a failure, for programs and people.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Data {
    /// Cause, if a turn failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// What to do about the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// The answer so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
}

impl Failure {
    fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// The line is not valid JSON.
    pub(crate) fn unreadable(why: impl std::fmt::Display) -> Self {
        Self::new(-32700, format!("Parse error: {why}"))
    }

    /// The request is invalid, or not possible now.
    pub(crate) fn request(why: impl std::fmt::Display) -> Self {
        Self::new(-32600, format!("Invalid request: {why}"))
    }

    /// The method does not exist.
    pub(crate) fn method(name: &str) -> Self {
        Self::new(-32601, format!("Method not found: {name}"))
    }

    /// The parameters are invalid.
    pub(crate) fn params(why: impl std::fmt::Display) -> Self {
        Self::new(-32602, format!("Invalid params: {why}"))
    }

    /// The session does not exist.
    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self::new(-32002, why)
    }

    /// The user is not logged in.
    pub(crate) fn auth(data: Data) -> Self {
        Self::new(-32000, "Authentication required").data(data)
    }

    /// The request failed.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(-32603, message).data(Data::default())
    }

    /// Replaces the details.
    pub(crate) fn data(self, data: Data) -> Self {
        Self {
            data: Some(data),
            ..self
        }
    }

    /// Adds a hint about what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.data.get_or_insert_default().hint = Some(hint.into());
        self
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::internal(error.to_string())
    }
}

/// Deserializes a field that is present, even if null: a null result is a response too.
fn present_even_if_null<'de: 'a, 'a, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Parses one line.
pub(crate) fn parse(line: &str) -> Incoming {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow, default)]
        id: Option<&'a RawValue>,
        #[serde(borrow, default)]
        method: Option<&'a RawValue>,
        #[serde(borrow, default)]
        params: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present_even_if_null")]
        result: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present_even_if_null")]
        error: Option<&'a RawValue>,
    }
    let message: Message<'_> = match serde_json::from_str(line) {
        // Checked because serde would accept an array as the fields of a struct in order.
        Ok(message) if line.trim_start().starts_with('{') => message,
        // Data errors mean that the line is valid JSON, but not a JSON-RPC message.
        Err(error) if !error.is_data() => {
            return Incoming::Invalid(None, Failure::unreadable(error));
        }
        _ => {
            return Incoming::Invalid(None, Failure::request("expected a JSON-RPC 2.0 object"));
        }
    };
    let is_id =
        |id: &RawValue| id.get().starts_with(['"', '-']) || id.get().starts_with(char::is_numeric);
    let known = || {
        message
            .id
            .filter(|id| is_id(id))
            .map(|id| Id(id.to_owned()))
    };
    let params = || message.params.unwrap_or(RawValue::NULL).to_owned();
    let has_no_error = message.error.is_none_or(|error| error.get() == "null");
    let method = message
        .method
        .map(|method| serde_json::from_str::<String>(method.get()));
    match (method, message.id) {
        (Some(Err(_)), _) => {
            Incoming::Invalid(known(), Failure::request("`method` is not a string"))
        }
        (Some(Ok(method)), None) => Incoming::Notification {
            method,
            params: params(),
        },
        (Some(Ok(method)), Some(id)) if is_id(id) => Incoming::Request {
            id: Id(id.to_owned()),
            method,
            params: params(),
        },
        (Some(Ok(_)), Some(_)) => Incoming::Invalid(
            None,
            Failure::request("`id` is neither a number nor a string"),
        ),
        (None, id) if message.result.is_some() || message.error.is_some() => {
            // Our ids are strings, so any other id answers no request that we sent. Responses never
            // get a response, not even invalid ones.
            let id = id
                .and_then(|id| serde_json::from_str(id.get()).ok())
                .unwrap_or_default();
            Incoming::Reply {
                id,
                result: message
                    .result
                    .filter(|_| has_no_error)
                    .map(ToOwned::to_owned),
            }
        }
        // The id may belong to a request that we sent; echoing it would look like a response to an
        // unknown request.
        (None, _) => Incoming::Invalid(None, Failure::request("`method` is missing")),
    }
}

/// Parses the parameters of a request; missing fields take their default.
pub(crate) fn params<T: serde::de::DeserializeOwned>(params: &RawValue) -> Result<T, Failure> {
    serde_json::from_str(params.get()).map_err(Failure::params)
}

/// Returns the text of a value. Strings, numbers and validated raw values always serialize.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Returns the response to a request.
pub(crate) fn response(id: &Id, result: &impl Serialize) -> String {
    let (id, result) = (json(id), json(result));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// Returns the response to a request that has no result.
pub(crate) fn done(id: &Id) -> String {
    response(id, &serde_json::Map::new())
}

/// Returns a notification.
pub(crate) fn notification(method: &str, params: &impl Serialize) -> String {
    let (method, params) = (json(&method), json(params));
    format!(r#"{{"jsonrpc":"2.0","method":{method},"params":{params}}}"#)
}

/// Returns a request.
pub(crate) fn request(id: &str, method: &str, params: &impl Serialize) -> String {
    let (id, method, params) = (json(&id), json(&method), json(params));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#)
}

/// Returns the error response to a request. The id is null if it could not be read.
pub(crate) fn failure(id: Option<&Id>, error: &Failure) -> String {
    let (id, error) = (json(&id), json(error));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

/// Returns the response or error response to a request.
pub(crate) fn answer(id: &Id, result: &Result<impl Serialize, Failure>) -> String {
    match result {
        Ok(result) => response(id, result),
        Err(error) => failure(Some(id), error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_parses() {
        let table = [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1}}"#,
                r#"request 1 a {"x":1}"#,
            ),
            (r#"{"id":"one","method":"a"}"#, r#"request "one" a null"#),
            (
                r#"{"id":-1,"method":"a","params":null}"#,
                "request -1 a null",
            ),
            (r#"{"id":null,"method":"a"}"#, "notice a null"),
            (r#"{"method":"a","params":[],"more":{}}"#, "notice a []"),
            (r#"{"id":"s/1","result":{"y":2}}"#, r#"reply s/1 {"y":2}"#),
            (
                r#"{"id":"s/1","error":{"code":1,"message":"no"}}"#,
                "reply s/1 -",
            ),
            (r#"{"id":7,"result":{}}"#, "reply  {}"),
            (r#"{"id":"s/1","result":null}"#, "reply s/1 null"),
            (r#"{"id":"s/1","error":null}"#, "reply s/1 -"),
            (
                r#"{"id":"s/1","result":{"y":2},"error":null}"#,
                r#"reply s/1 {"y":2}"#,
            ),
            (
                r#"{"id":"s/1","result":null,"error":{"code":1,"message":"no"}}"#,
                "reply s/1 -",
            ),
            (
                r#"{"id":null,"error":{"code":-32700,"message":"no"}}"#,
                "reply  -",
            ),
            (r#"{"result":{}}"#, "reply  {}"),
            (r#"{"id":"s/1"}"#, "wrong - -32600"),
            (r#"{"id":{},"method":"a"}"#, "wrong - -32600"),
            (r#"{"id":1,"method":2}"#, "wrong 1 -32600"),
            (r#"{"method":[],"id":"x"}"#, r#"wrong "x" -32600"#),
            (r#"{"id":1}"#, "wrong - -32600"),
            (r#"{"method":2}"#, "wrong - -32600"),
            (r#"{"id":[1],"method":2}"#, "wrong - -32600"),
            ("[1]", "wrong - -32600"),
            (r#"[1,"a",{}]"#, "wrong - -32600"),
            ("3", "wrong - -32600"),
            ("{\"id\":1,", "wrong - -32700"),
            ("hello", "wrong - -32700"),
            ("", "wrong - -32700"),
        ];
        for (line, want) in table {
            let got = match parse(line) {
                Incoming::Request { id, method, params } => {
                    format!("request {} {method} {}", id.0.get(), params.get())
                }
                Incoming::Notification { method, params } => {
                    format!("notice {method} {}", params.get())
                }
                Incoming::Reply { id, result } => {
                    format!("reply {id} {}", result.as_ref().map_or("-", |r| r.get()))
                }
                Incoming::Invalid(id, failure) => {
                    format!(
                        "wrong {} {}",
                        id.as_ref().map_or("-", |id| id.0.get()),
                        failure.code
                    )
                }
            };
            assert_eq!(got, want, "{line}");
        }
    }

    #[test]
    fn messages_are_single_json_rpc_lines() {
        let Incoming::Request { id, .. } = parse(r#"{"id":"x","method":"m"}"#) else {
            panic!()
        };
        assert_eq!(
            response(&id, &[1]),
            r#"{"jsonrpc":"2.0","id":"x","result":[1]}"#
        );
        assert_eq!(
            notification("m", &"a\nb"),
            r#"{"jsonrpc":"2.0","method":"m","params":"a\nb"}"#
        );
        assert_eq!(
            request("s/1", "m", &0),
            r#"{"jsonrpc":"2.0","id":"s/1","method":"m","params":0}"#
        );
        let error = Failure::method("m");
        assert_eq!(
            failure(None, &error),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found: m"}}"#
        );
    }
}
