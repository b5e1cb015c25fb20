//! The protobuf of Kubernetes, which Go clients send: request bodies become JSON, and reads of
//! nodes and pods are answered in protobuf to clients that ask for it. All other answers are JSON,
//! which these clients accept.

mod decode;
mod encode;
mod schema;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::Bytes;
use framework::protobuf::{self, MEDIA_TYPE, Unknown};
use serde_json::Value;

pub(crate) use self::encode::{frame, list, message, object, status};
use self::schema::SCHEMA;
use crate::api::Request;
use crate::resources::{NODES, PODS, Resource};
use crate::status::Status;

/// Why a body does not decode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Malformed {
    #[error(transparent)]
    Wire(#[from] protobuf::Malformed),
    #[error("a field that holds JSON does not parse")]
    Json,
}

/// Returns the frame of a watch event around an object: its length (four bytes), and the event.
/// `None` if the object is of an unknown kind.
pub fn watch_frame(event: &str, json: &Value) -> Option<Bytes> {
    let (api_version, kind) = (json["apiVersion"].as_str()?, json["kind"].as_str()?);
    let mut message = Vec::new();
    encode::write_object(&mut message, SCHEMA.kind(api_version, kind)?, json);
    Some(frame(event, &object(api_version, kind, &message)))
}

/// Whether reads of the resource are answered in protobuf.
pub(crate) fn serves(resource: &Resource) -> bool {
    [NODES, PODS].contains(&resource)
}

/// Returns the request with a JSON body.
///
/// # Errors
/// 400 if the body does not decode, 415 if its kind is unknown.
pub(crate) fn with_json_body(request: &Request) -> Result<Cow<'_, Request>, Status> {
    let media_type = request.content_type.split(';').next().unwrap_or_default().trim();
    if media_type != MEDIA_TYPE || request.body.is_empty() {
        return Ok(Cow::Borrowed(request));
    }
    let body = decoded(&request.body)?.to_string().into();
    let content_type = "application/json".to_owned();
    Ok(Cow::Owned(Request { body, content_type, ..request.clone() }))
}

fn decoded(body: &[u8]) -> Result<Value, Status> {
    let malformed =
        |why: Malformed| Status::bad_request(format!("the body is no Kubernetes protobuf: {why}"));
    let Unknown { api_version, kind, raw } =
        Unknown::read(body).map_err(|error| malformed(error.into()))?;
    let message = SCHEMA.kind(api_version, kind).ok_or_else(Status::unknown_body_format)?;
    let mut object = decode::object(message, raw).map_err(malformed)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(object.into())
}
