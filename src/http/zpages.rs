//! Content negotiation of `/statusz` and `/flagz`.

use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use crate::config::to_yaml;

/// The name of this component.
pub(super) const COMPONENT: &str = "loadmaster";

/// The group of the structured answers.
const GROUP: &str = "config.k8s.io";

/// The warning at the start of the plain answers.
const NOT_PARSEABLE: &str = "Warning: This endpoint is not meant to be machine parseable, has no \
                             formatting compatibility guarantees and is for debugging purposes only.";

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json(Version),
    Yaml(Version),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1Alpha1,
    V1Beta1,
}

impl Version {
    const fn name(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// The media types, in the order in which wildcards select them.
const MEDIA_TYPES: [MediaType<'_>; 3] = [
    MediaType { main: "application", subtype: "json" },
    MediaType { main: "application", subtype: "yaml" },
    MediaType { main: "text", subtype: "plain" },
];

/// A media type, or a range of them with `*`.
#[derive(Clone, Copy)]
struct MediaType<'a> {
    main: &'a str,
    subtype: &'a str,
}

/// A page in its plain and its structured form.
pub(super) struct Page<T> {
    /// `Statusz` or `Flagz`.
    pub(super) kind: &'static str,
    /// The lines behind the warning.
    pub(super) text: String,
    /// The fields of the object.
    pub(super) fields: T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a, T> {
    kind: &'a str,
    api_version: String,
    metadata: Metadata,
    #[serde(flatten)]
    fields: &'a T,
}

#[derive(Serialize)]
struct Metadata {
    name: &'static str,
}

impl<T: Serialize> Page<T> {
    /// Answers in the form that the client accepts; status 406 if there is none.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response {
        let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        match negotiate(accept.unwrap_or_default(), self.kind) {
            Some(Form::Text) => self.plain(),
            Some(Form::Json(version)) => {
                let text = serde_json::to_string(&self.object(version)).unwrap_or_default();
                self.structured(version, "application/json", format!("{text}\n"))
            }
            Some(Form::Yaml(version)) => {
                let object = serde_json::to_value(self.object(version)).unwrap_or_default();
                self.structured(version, "application/yaml", to_yaml(&object))
            }
            None => not_acceptable(),
        }
    }

    fn plain(&self) -> Response {
        let page = self.kind.to_ascii_lowercase();
        let text = format!("\n{COMPONENT} {page}\n{NOT_PARSEABLE}\n{}", self.text);
        ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
    }

    fn object(&self, version: Version) -> Object<'_, T> {
        Object {
            kind: self.kind,
            api_version: format!("{GROUP}/{}", version.name()),
            metadata: Metadata { name: COMPONENT },
            fields: &self.fields,
        }
    }

    fn structured(&self, version: Version, media_type: &'static str, text: String) -> Response {
        let page = self.kind.to_ascii_lowercase();
        let warning = (version == Version::V1Alpha1).then(|| {
            let warning = format!(
                "299 - \"This version of the {page} endpoint is deprecated. Please use a newer \
                 version.\""
            );
            [(header::WARNING, warning)]
        });
        match warning {
            Some(warning) => (warning, typed(media_type), text).into_response(),
            None => (typed(media_type), text).into_response(),
        }
    }
}

const fn typed(media_type: &'static str) -> [(HeaderName, &'static str); 1] {
    [(header::CONTENT_TYPE, media_type)]
}

fn not_acceptable() -> Response {
    let accepted = MEDIA_TYPES.map(|own| format!("{}/{}", own.main, own.subtype)).join(", ");
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("only the following media types are accepted: {accepted}"),
        "reason": "NotAcceptable",
        "code": 406,
    });
    (StatusCode::NOT_ACCEPTABLE, typed("application/json"), format!("{status}\n")).into_response()
}

/// Selects the form for an `Accept` header. Structured forms need the group, version and kind as
/// parameters.
fn negotiate(accept: &str, kind: &str) -> Option<Form> {
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    let mut clauses: Vec<_> = accept.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then(a.wildcards().cmp(&b.wildcards())));
    let offers = |clause: Clause<'_>| {
        let matching = MEDIA_TYPES.into_iter().filter(|media_type| clause.matches(*media_type));
        let forms: Vec<_> =
            matching.filter_map(|media_type| clause.form(media_type.subtype, kind)).collect();
        forms
    };
    clauses.into_iter().flat_map(offers).next()
}

/// One alternative of an `Accept` header.
struct Clause<'a> {
    media_type: MediaType<'a>,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let media_type = match parts.next()? {
            "*" => MediaType { main: "*", subtype: "*" },
            media_type => {
                let (main, subtype) = media_type.split_once('/')?;
                MediaType { main, subtype }
            }
        };
        let parameters = parts.filter_map(|parameter| parameter.split_once('='));
        let parameters: Vec<_> =
            parameters.map(|(name, value)| (name.trim(), value.trim().trim_matches('"'))).collect();
        let quality = parameters.iter().find(|(name, _)| *name == "q");
        let quality = quality.map_or(1.0, |(_, quality)| quality.parse().unwrap_or(1.0));
        Some(Self { media_type, quality, parameters })
    }

    fn wildcards(&self) -> usize {
        let MediaType { main, subtype } = self.media_type;
        usize::from(main == "*") + usize::from(subtype == "*")
    }

    fn matches(&self, offered: MediaType<'_>) -> bool {
        let matches = |wanted: &str, offered: &str| wanted == "*" || wanted == offered;
        matches(self.media_type.main, offered.main)
            && matches(self.media_type.subtype, offered.subtype)
    }

    /// Returns the form of the media type with this subtype, unless the parameters exclude it.
    fn form(&self, subtype: &str, kind: &str) -> Option<Form> {
        let value = |wanted: &str| {
            self.parameters.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
        };
        let wanted = (value("g"), value("v"), value("as"));
        if subtype == "plain" {
            return (wanted == (None, None, None)).then_some(Form::Text);
        }
        let version = match wanted {
            (Some(GROUP), Some("v1beta1"), Some(as_kind)) if as_kind == kind => Version::V1Beta1,
            (Some(GROUP), Some("v1alpha1"), Some(as_kind)) if as_kind == kind => Version::V1Alpha1,
            _ => return None,
        };
        Some(if subtype == "json" { Form::Json(version) } else { Form::Yaml(version) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_follows_the_accept_header() {
        let (json, yaml) = (Form::Json(Version::V1Beta1), Form::Yaml(Version::V1Beta1));
        for (accept, expected) in [
            ("", Some(Form::Text)),
            ("  ", Some(Form::Text)),
            ("text/plain", Some(Form::Text)),
            ("text/*", Some(Form::Text)),
            ("*/*", Some(Form::Text)),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Statusz", Some(json)),
            ("application/yaml; v=v1beta1; g=config.k8s.io; as=Statusz", Some(yaml)),
            (
                "application/json;v=v1alpha1;g=config.k8s.io;as=Statusz",
                Some(Form::Json(Version::V1Alpha1)),
            ),
            ("application/json;v=v2;g=config.k8s.io;as=Statusz,*/*", Some(Form::Text)),
            ("*/*;v=v1beta1;g=config.k8s.io;as=Statusz", Some(json)),
            ("text/plain;q=0.5,application/json;v=v1beta1;g=config.k8s.io;as=Statusz", Some(json)),
            (
                "text/plain,application/json;v=v1beta1;g=config.k8s.io;as=Statusz;q=0.9",
                Some(Form::Text),
            ),
            ("*/*,application/json;v=v1beta1;g=config.k8s.io;as=Statusz", Some(json)),
            ("application/json", None),
            ("application/json;v=v1beta1;g=config.k8s.io", None),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz", None),
            ("application/json;v=v1beta1;g=other;as=Statusz", None),
            ("text/plain;as=Statusz", None),
            ("application/xml", None),
            ("application/vnd.kubernetes.protobuf;v=v1beta1;g=config.k8s.io;as=Statusz", None),
            ("nonsense", None),
        ] {
            assert_eq!(negotiate(accept, "Statusz"), expected, "{accept:?}");
        }
    }
}
