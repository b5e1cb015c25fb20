//! Representations of objects in answers: objects, metadata or tables, as JSON or YAML.

use std::borrow::Cow;

use bytes::Bytes;
use framework::Time;
use serde_json::{Value, json};

use super::collection::Stored;
use super::encoding;
use super::list::Page;
use crate::api::Request;
use crate::events;
use crate::metadata;
use crate::resources::{EVENTS_V1, Resource};
use crate::status::Status;
use crate::table::{self, IncludeObject, Layout};

/// The representation that `Accept` requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Representation {
    shape: Shape,
    yaml: bool,
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    Object,
    Metadata,
    Table(IncludeObject),
}

impl Representation {
    /// Returns the first supported representation in `Accept`. Protobuf is not supported.
    pub(super) fn negotiate(request: &Request) -> Result<Self, Status> {
        if request.accept.is_empty() {
            return Ok(Self { shape: Shape::Object, yaml: false });
        }
        let include = match request.parameter("includeObject") {
            Some("None") => IncludeObject::None,
            Some("Object") => IncludeObject::Object,
            _ => IncludeObject::Metadata,
        };
        let mut offers = request.accept.split(',').filter_map(|range| offer(range, include));
        offers.next().ok_or_else(Status::not_acceptable)
    }

    /// Returns the representation for a watch, which is a stream of JSON lines.
    pub(super) fn negotiate_stream(request: &Request) -> Result<Self, Status> {
        let representation = Self::negotiate(request)?;
        if representation.yaml { Err(Status::not_acceptable()) } else { Ok(representation) }
    }

    /// Returns the `Content-Type` of the answer.
    pub(super) fn content_type(self) -> &'static str {
        if self.yaml { "application/yaml" } else { "application/json" }
    }

    /// Encodes a value that has no other shapes.
    pub(super) fn value(self, value: &Value) -> Bytes {
        if self.yaml {
            serde_yaml::to_string(value).unwrap_or_default().into()
        } else {
            value.to_string().into()
        }
    }

    /// Encodes one object. `now` is for the ages in tables.
    pub(super) fn object(self, resource: &'static Resource, stored: &Stored, now: Time) -> Bytes {
        match self.shape {
            Shape::Object if !self.yaml && resource == resource.storage() => {
                let mut bytes = Vec::with_capacity(stored.body().len() + 64);
                encoding::write_object(&mut bytes, resource, stored.body());
                bytes.into()
            }
            _ => self.value(&self.object_value(resource, &stored.object, now, true)),
        }
    }

    /// Returns one object in its shape. Tables have column definitions if `with_headers`.
    fn object_value(
        self,
        resource: &'static Resource,
        object: &Value,
        now: Time,
        with_headers: bool,
    ) -> Value {
        let object = served(resource, object);
        match self.shape {
            Shape::Object => object.into_owned(),
            Shape::Metadata => partial(&object),
            Shape::Table(include) => {
                let list = json!({"resourceVersion": metadata::resource_version(&object)});
                table::table(resource, &[&object], list, now, Layout { include, with_headers })
            }
        }
    }

    /// Encodes a list.
    pub(super) fn list(self, resource: &'static Resource, page: &Page, now: Time) -> Bytes {
        match self.shape {
            Shape::Object if !self.yaml && resource == resource.storage() => {
                list_of_bodies(resource, page)
            }
            _ => self.value(&self.list_value(resource, page, now)),
        }
    }

    fn list_value(self, resource: &'static Resource, page: &Page, now: Time) -> Value {
        let objects: Vec<_> =
            page.items.iter().map(|stored| served(resource, &stored.object)).collect();
        let (kind, api_version, items): (_, _, Vec<Value>) = match self.shape {
            Shape::Table(include) => {
                let objects: Vec<&Value> = objects.iter().map(AsRef::as_ref).collect();
                return table::table(
                    resource,
                    &objects,
                    page.metadata(),
                    now,
                    Layout { include, with_headers: true },
                );
            }
            Shape::Metadata => (
                "PartialObjectMetadataList".to_owned(),
                "meta.k8s.io/v1".to_owned(),
                objects.iter().map(|object| partial(object)).collect(),
            ),
            Shape::Object => (
                resource.list_kind(),
                resource.api_version(),
                objects.iter().map(|object| list_item(resource, object)).collect(),
            ),
        };
        json!({
            "kind": kind, "apiVersion": api_version, "metadata": page.metadata(), "items": items,
        })
    }

    /// Encodes a watch event of an object; `body` is its encoding if known.
    pub(super) fn frame(
        self,
        event: &str,
        resource: &'static Resource,
        object: &Value,
        body: Option<&Bytes>,
        line: Line,
    ) -> Bytes {
        match (self.shape, body) {
            (Shape::Object, Some(body)) if resource == resource.storage() => {
                let mut bytes = Vec::with_capacity(body.len() + 64);
                encoding::write_object(&mut bytes, resource, body);
                encoding::frame(event, &bytes)
            }
            _ => {
                let value = self.object_value(resource, object, line.now, line.first);
                encoding::frame(event, value.to_string().as_bytes())
            }
        }
    }

    /// Encodes a bookmark of a watch.
    pub(super) fn bookmark(
        self,
        resource: &'static Resource,
        version: u64,
        ends_initial_events: bool,
        line: Line,
    ) -> Bytes {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if ends_initial_events {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.shape {
            Shape::Table(include) => table::table(
                resource,
                &[],
                metadata,
                line.now,
                Layout { include, with_headers: line.first },
            ),
            Shape::Metadata => partial(&json!({"metadata": metadata})),
            Shape::Object => {
                let mut object = json!({"metadata": metadata});
                metadata::set_kind(&mut object, resource);
                object
            }
        };
        encoding::frame("BOOKMARK", object.to_string().as_bytes())
    }
}

/// The context of a watch event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) now: Time,
    /// Whether it is the first event of the watch, which has the column definitions of tables.
    pub(super) first: bool,
}

/// Returns the representation of a media range, `None` if it is not supported.
fn offer(range: &str, include: IncludeObject) -> Option<Representation> {
    let mut parts = range.split(';').map(str::trim);
    let media_type = parts.next()?;
    let mut shape = ("", "", "");
    for part in parts {
        match part.split_once('=')? {
            ("as", value) => shape.0 = value,
            ("g", value) => shape.1 = value,
            ("v", value) => shape.2 = value,
            _ => {}
        }
    }
    let shape = match shape {
        ("", ..) => Shape::Object,
        ("Table", "meta.k8s.io", "v1") => Shape::Table(include),
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
            Shape::Metadata
        }
        _ => return None,
    };
    match media_type {
        "application/json" | "application/*" | "*/*" => Some(Representation { shape, yaml: false }),
        "application/yaml" => Some(Representation { shape, yaml: true }),
        _ => None,
    }
}

/// Converts an object to the requested group and version.
fn served<'a>(resource: &'static Resource, object: &'a Value) -> Cow<'a, Value> {
    if resource == EVENTS_V1 {
        Cow::Owned(events::from_core(object))
    } else if resource.custom.is_some() {
        let mut object = object.clone();
        metadata::set_kind(&mut object, resource);
        Cow::Owned(object)
    } else {
        Cow::Borrowed(object)
    }
}

fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

/// Returns an item of a list: without kind and version, except for custom resources.
fn list_item(resource: &Resource, object: &Value) -> Value {
    let mut object = object.clone();
    if resource.custom.is_some() {
        return object;
    }
    let fields = metadata::fields_mut(&mut object);
    fields.remove("kind");
    fields.remove("apiVersion");
    object
}

/// Encodes a list from the encodings of its objects.
fn list_of_bodies(resource: &Resource, page: &Page) -> Bytes {
    let size: usize = page.items.iter().map(|stored| stored.body().len() + 1).sum();
    let mut bytes = Vec::with_capacity(size + 512);
    let head = format!(
        r#"{{"kind":"{}","apiVersion":"{}","metadata":{},"items":["#,
        resource.list_kind(),
        resource.api_version(),
        page.metadata(),
    );
    bytes.extend_from_slice(head.as_bytes());
    for (index, stored) in page.items.iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        match resource.custom {
            Some(_) => encoding::write_object(&mut bytes, resource, stored.body()),
            None => bytes.extend_from_slice(stored.body()),
        }
    }
    bytes.extend_from_slice(b"]}");
    bytes.into()
}
