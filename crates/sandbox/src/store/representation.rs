//! Representations of objects in answers: objects, metadata or tables, as JSON, YAML or protobuf.

use std::sync::Arc;

use bytes::Bytes;
use framework::Time;
use framework::protobuf::MEDIA_TYPE;
use serde_json::{Value, json};

use super::collection::Stored;
use super::encoding;
use super::list::Page;
use crate::api::{Request, Response};
use crate::conversion;
use crate::metadata;
use crate::protobuf;
use crate::resources::{EVENTS_V1, Resource};
use crate::status::Status;
use crate::table::{self, IncludeObject, Layout};

/// The representation that `Accept` requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Representation {
    shape: Shape,
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Yaml,
    /// Of whole objects only.
    Protobuf,
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    Object,
    Metadata,
    Table(IncludeObject),
}

impl Representation {
    /// Returns the first supported representation in `Accept`. Protobuf is supported for reads of
    /// some resources.
    pub(super) fn negotiate(resource: &Resource, request: &Request) -> Result<Self, Status> {
        if request.accept.is_empty() {
            return Ok(Self { shape: Shape::Object, format: Format::Json });
        }
        let has_protobuf = request.method == "GET" && protobuf::serves(resource);
        let include = match request.parameter("includeObject") {
            Some("None") => IncludeObject::None,
            Some("Object") => IncludeObject::Object,
            _ => IncludeObject::Metadata,
        };
        let offers = request.accept.split(',').filter_map(|range| offer(range, include));
        let mut offers = offers.filter(|offer| has_protobuf || offer.format != Format::Protobuf);
        offers.next().ok_or_else(Status::not_acceptable)
    }

    /// Returns the representation for a watch, which is a stream of JSON lines or of frames.
    pub(super) fn negotiate_stream(resource: &Resource, request: &Request) -> Result<Self, Status> {
        let representation = Self::negotiate(resource, request)?;
        match representation.format {
            Format::Yaml => Err(Status::not_acceptable()),
            Format::Json | Format::Protobuf => Ok(representation),
        }
    }

    /// Returns the `Content-Type` of the answer.
    pub(super) const fn content_type(self) -> &'static str {
        match self.format {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
            Format::Protobuf => MEDIA_TYPE,
        }
    }

    /// Returns the `Content-Type` of a watch.
    pub(super) const fn stream_content_type(self) -> &'static str {
        match self.format {
            Format::Json | Format::Yaml => "application/json",
            Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    /// Encodes a value that has no other shapes.
    pub(super) fn value(self, value: &Value) -> Bytes {
        match self.format {
            Format::Yaml => yaml::to_string(value).unwrap_or_default().into(),
            Format::Json | Format::Protobuf => value.to_string().into(),
        }
    }

    /// Returns the answer of a refused request.
    pub(super) fn refusal(self, status: &Status) -> Response {
        let response = status.response();
        match self.format {
            Format::Json | Format::Yaml => response,
            Format::Protobuf => {
                let body = protobuf::status(&status.to_value()).into();
                Response { content_type: self.content_type(), body, ..response }
            }
        }
    }

    /// Encodes one object. `now` is for the ages in tables.
    pub(super) fn object(self, resource: &'static Resource, stored: &Stored, now: Time) -> Bytes {
        match self.shape {
            Shape::Object if self.format == Format::Protobuf => {
                let api_version = resource.api_version();
                protobuf::object(&api_version, resource.kind, stored.message(resource)).into()
            }
            Shape::Object if self.format == Format::Json && !resource.is_converted() => {
                let mut bytes = Vec::with_capacity(stored.body().len() + 64);
                encoding::write_object(&mut bytes, resource, stored.body());
                bytes.into()
            }
            Shape::Object if self.format == Format::Json && resource == EVENTS_V1 => {
                let body = encoding::body_of_event(&stored.object);
                let mut bytes = Vec::with_capacity(body.len() + 64);
                encoding::write_object(&mut bytes, resource, &body);
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
        let object = conversion::served(resource, object);
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
            Shape::Object if self.format == Format::Protobuf => {
                let items = page.items.iter().map(|stored| &**stored.message(resource));
                protobuf::list(resource, &page.metadata(), items)
            }
            Shape::Object if self.format == Format::Json && !resource.is_converted() => {
                list_of_bodies(resource, page)
            }
            _ => self.value(&self.list_value(resource, page, now)),
        }
    }

    fn list_value(self, resource: &'static Resource, page: &Page, now: Time) -> Value {
        let objects: Vec<_> =
            page.items.iter().map(|stored| conversion::served(resource, &stored.object)).collect();
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

    /// Encodes a watch event of an object.
    pub(super) fn frame(
        self,
        event: &str,
        resource: &'static Resource,
        stored: &Stored,
        line: Line,
    ) -> Bytes {
        match self.shape {
            Shape::Object if self.format == Format::Protobuf => {
                protobuf::frame(event, &self.object(resource, stored, line.now))
            }
            Shape::Object if !resource.is_converted() => {
                let body = stored.body();
                let mut bytes = Vec::with_capacity(body.len() + 64);
                encoding::write_object(&mut bytes, resource, body);
                encoding::frame(event, &bytes)
            }
            _ => {
                let value = self.object_value(resource, &stored.object, line.now, line.first);
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
        match self.format {
            Format::Protobuf => {
                let bookmark = Stored::new(Arc::new(object));
                protobuf::frame("BOOKMARK", &self.object(resource, &bookmark, line.now))
            }
            Format::Json | Format::Yaml => {
                encoding::frame("BOOKMARK", object.to_string().as_bytes())
            }
        }
    }

    /// Encodes the error that ends a watch.
    pub(super) fn error(self, status: &Status) -> Bytes {
        let status = status.to_value();
        match self.format {
            Format::Protobuf => protobuf::frame("ERROR", &protobuf::status(&status)),
            Format::Json | Format::Yaml => encoding::frame("ERROR", status.to_string().as_bytes()),
        }
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
    let format = match media_type {
        "application/json" | "application/*" | "*/*" => Format::Json,
        "application/yaml" => Format::Yaml,
        MEDIA_TYPE if matches!(shape, Shape::Object) => Format::Protobuf,
        _ => return None,
    };
    Some(Representation { shape, format })
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
