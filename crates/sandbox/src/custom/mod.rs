//! Custom resources: the kinds that CustomResourceDefinitions add to the API.
//!
//! Schemas are structural: they prune unknown fields, set defaults and validate. Not evaluated are
//! `pattern`, `format`, `multipleOf`, `uniqueItems`, `allOf`, `anyOf`, `oneOf`, `not` and rules in
//! CEL.

mod columns;
mod defaults;
mod definition;
mod json_path;
mod prune;
mod schema;
mod validate;

use std::collections::BTreeMap;

use framework::Time;
use serde_json::Value;

pub(crate) use definition::{add_defaults, check, check_change, establish, initial_status};

use crate::metadata::name;
use crate::object::condition_status;
use crate::resources::Resource;
use crate::status::Cause;
use columns::PrinterColumn;
use schema::Schema;

/// One version of a kind, as its CustomResourceDefinition describes it.
#[derive(Debug)]
pub struct Definition {
    list_kind: String,
    schema: Schema,
    columns: Vec<PrinterColumn>,
}

impl Definition {
    /// Kind of lists of the custom resource.
    pub(crate) fn list_kind(&self) -> &str {
        &self.list_kind
    }

    /// Removes the fields that the schema does not know and returns their paths.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.schema, object)
    }

    /// Sets the defaults of the schema.
    pub(crate) fn set_defaults(&self, object: &mut Value) {
        defaults::set(&self.schema, object);
    }

    /// Returns what the schema finds wrong with the object.
    pub(crate) fn validate(&self, object: &Value) -> Vec<Cause> {
        validate::validate(&self.schema, object)
    }

    /// Returns the `columnDefinitions` of tables.
    pub(crate) fn column_definitions(&self) -> impl Iterator<Item = Value> {
        self.columns.iter().map(PrinterColumn::definition)
    }

    /// Returns the cells of an object, one for each column.
    pub(crate) fn cells(&self, object: &Value, now: Time) -> impl Iterator<Item = Value> {
        self.columns.iter().map(move |column| column.cell(object, now))
    }
}

/// The custom resources that are served, by the name of their CustomResourceDefinition.
#[derive(Debug, Default)]
pub(crate) struct CustomResources(BTreeMap<String, Vec<&'static Resource>>);

impl CustomResources {
    /// Serves what the definition declares once it is established.
    pub(crate) fn update(&mut self, definition: &Value) {
        if condition_status(definition, "Established") == "True" {
            let resources = definition::resources(definition);
            self.0.insert(name(definition).to_owned(), resources);
        }
    }

    /// Stops serving the kind of a definition that is gone.
    pub(crate) fn remove(&mut self, definition: &Value) {
        self.0.remove(name(definition));
    }

    /// Returns the custom resource of this group, version and name.
    pub(crate) fn find(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<&'static Resource> {
        self.iter().find(|resource| {
            resource.plural == plural && resource.group == group && resource.version == version
        })
    }

    /// Returns each served version of each definition.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Resource> {
        self.0.values().flatten().copied()
    }
}
