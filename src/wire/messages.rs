//! Messages in protobuf around the objects: lists, the metadata of an object, and `Status`.

use framework::api;
use framework::protobuf::{Content, Fields, Malformed, Message};

use super::watch::{Details, ListMeta, Status};

/// Returns the metadata and the items of a list.
///
/// # Errors
/// The bytes are not a list.
pub(super) fn list(message: &[u8]) -> Result<(ListMeta, Vec<&[u8]>), Malformed> {
    let (mut metadata, mut items) = (ListMeta::default(), Vec::new());
    for field in Fields::of(message) {
        match field? {
            (1, content) => list_metadata(content, &mut metadata)?,
            (2, item) => items.push(item.delimited()?),
            _ => {}
        }
    }
    Ok((metadata, items))
}

fn list_metadata(content: Content<'_>, to: &mut ListMeta) -> Result<(), Malformed> {
    for field in Fields::of(content.delimited()?) {
        match field? {
            (2, version) => version.text()?.clone_into(&mut to.resource_version),
            (3, token) => token.text()?.clone_into(&mut to.next),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the metadata of an object of any kind.
///
/// # Errors
/// The bytes are not an object.
pub(super) fn metadata(object: &[u8]) -> Result<api::ObjectMeta, Malformed> {
    let mut metadata = api::ObjectMeta::default();
    for field in Fields::of(object) {
        if let (1, content) = field? {
            metadata.merge_all(content.delimited()?)?;
        }
    }
    Ok(metadata)
}

/// Returns a `Status`.
///
/// # Errors
/// The bytes are not such a message.
pub(super) fn status(message: &[u8]) -> Result<Status, Malformed> {
    let mut status = Status::default();
    for field in Fields::of(message) {
        match field? {
            (3, text) => text.text()?.clone_into(&mut status.message),
            (4, reason) => reason.text()?.clone_into(&mut status.reason),
            (5, details) => status.details = Some(status_details(details)?),
            (6, code) => status.code = u16::try_from(code.varint()?).unwrap_or_default(),
            _ => {}
        }
    }
    Ok(status)
}

fn status_details(content: Content<'_>) -> Result<Details, Malformed> {
    let mut details = Details::default();
    for field in Fields::of(content.delimited()?) {
        if let (5, seconds) = field? {
            details.retry_after_seconds = seconds.varint()?;
        }
    }
    Ok(details)
}
