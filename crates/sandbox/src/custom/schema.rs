//! The `openAPIV3Schema` of a custom resource.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Number, Value};

/// A schema, as far as the sandbox evaluates it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Schema {
    /// `object`, `array`, `string`, `integer`, `number` or `boolean`; empty if any type is valid.
    #[serde(rename = "type")]
    pub(super) type_name: String,
    pub(super) nullable: bool,
    pub(super) properties: BTreeMap<String, Schema>,
    pub(super) additional_properties: Option<AdditionalProperties>,
    pub(super) items: Option<Box<Schema>>,
    pub(super) required: Vec<String>,
    #[serde(rename = "enum")]
    pub(super) allowed: Vec<Value>,
    pub(super) minimum: Option<Number>,
    pub(super) exclusive_minimum: bool,
    pub(super) maximum: Option<Number>,
    pub(super) exclusive_maximum: bool,
    pub(super) min_length: Option<usize>,
    pub(super) max_length: Option<usize>,
    pub(super) min_items: Option<usize>,
    pub(super) max_items: Option<usize>,
    pub(super) min_properties: Option<usize>,
    pub(super) max_properties: Option<usize>,
    pub(super) default: Option<Value>,
    /// Whether fields without a schema are kept.
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub(super) preserve_unknown_fields: bool,
    /// Whether the value is an object of Kubernetes, with `apiVersion`, `kind` and `metadata`.
    #[serde(rename = "x-kubernetes-embedded-resource")]
    pub(super) embedded_resource: bool,
    #[serde(rename = "x-kubernetes-int-or-string")]
    pub(super) int_or_string: bool,
}

/// The fields of an object beside its `properties`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum AdditionalProperties {
    /// Whether there may be any.
    Allowed(bool),
    /// The schema of each.
    Schema(Box<Schema>),
}

impl Schema {
    /// Returns the schema of a field, `None` if the field is unknown or may hold anything.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional_properties {
            Some(AdditionalProperties::Schema(schema)) => Some(schema),
            _ => None,
        })
    }

    /// Returns whether an object keeps this field.
    pub(super) fn keeps(&self, name: &str) -> bool {
        self.preserve_unknown_fields
            || self.properties.contains_key(name)
            || self.embedded_resource && is_object_header(name)
            || match &self.additional_properties {
                Some(AdditionalProperties::Allowed(allowed)) => *allowed,
                Some(AdditionalProperties::Schema(_)) => true,
                None => false,
            }
    }
}

/// Returns whether every object of Kubernetes has this field, whatever its schema says.
pub(super) fn is_object_header(field: &str) -> bool {
    matches!(field, "apiVersion" | "kind" | "metadata")
}
