//! Request bodies in the protobuf of Kubernetes, which Go clients send, converted to JSON. Answers
//! are JSON, which these clients accept.

mod decode;
mod schema;
#[cfg(test)]
mod tests;
mod wire;

use std::borrow::Cow;

use serde_json::Value;

use self::schema::SCHEMA;
use self::wire::Fields;
use crate::api::Request;
use crate::status::Status;

/// The media type.
const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The prefix of bodies.
const MAGIC: &[u8] = b"k8s\0";

/// Why a body does not decode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Malformed {
    #[error("the prefix \"k8s\\0\" is missing")]
    Magic,
    #[error("the body ends within a field")]
    Truncated,
    #[error("a number has more than ten bytes")]
    Varint,
    #[error("wire type {0} is unknown")]
    WireType(u64),
    #[error("a field has the wire type of another type")]
    Mismatch,
    #[error("a text is not UTF-8")]
    Text,
    #[error("a field that holds JSON does not parse")]
    Json,
    #[error("content encoding {0:?} is not supported")]
    Encoding(String),
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
    let body = object(&request.body)?.to_string().into();
    let content_type = "application/json".to_owned();
    Ok(Cow::Owned(Request { body, content_type, ..request.clone() }))
}

fn object(body: &[u8]) -> Result<Value, Status> {
    let malformed = |why| Status::bad_request(format!("the body is no Kubernetes protobuf: {why}"));
    let Unknown { api_version, kind, raw } = Unknown::read(body).map_err(malformed)?;
    let message = SCHEMA.kind(&api_version, &kind).ok_or_else(Status::unknown_body_format)?;
    let mut object = decode::object(message, raw).map_err(malformed)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(object.into())
}

/// The envelope, `runtime.Unknown`: type and content.
#[derive(Debug, Default)]
struct Unknown<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Unknown<'a> {
    fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut unknown = Self::default();
        for field in Fields::of(body.strip_prefix(MAGIC).ok_or(Malformed::Magic)?) {
            match field? {
                (1, content) => unknown.read_type(decode::delimited(content)?)?,
                (2, content) => unknown.raw = decode::delimited(content)?,
                (3, content) => match decode::text(content)? {
                    plain if plain.is_empty() => {}
                    encoding => return Err(Malformed::Encoding(encoding)),
                },
                _ => {}
            }
        }
        Ok(unknown)
    }

    fn read_type(&mut self, type_meta: &[u8]) -> Result<(), Malformed> {
        for field in Fields::of(type_meta) {
            match field? {
                (1, content) => self.api_version = decode::text(content)?,
                (2, content) => self.kind = decode::text(content)?,
                _ => {}
            }
        }
        Ok(())
    }
}
