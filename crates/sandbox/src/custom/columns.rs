//! Printer columns: what `kubectl get` shows of a custom resource beside the name.

use framework::Time;
use serde_json::{Value, json};

use super::json_path::JsonPath;
use crate::object::text;
use crate::table;

/// A column, as `additionalPrinterColumns` declares it.
#[derive(Debug)]
pub(super) struct PrinterColumn {
    definition: Value,
    kind: String,
    path: Option<JsonPath>,
}

impl PrinterColumn {
    fn new(declared: &Value) -> Self {
        let kind = text(declared, "/type").to_owned();
        let definition = json!({
            "name": text(declared, "/name"), "type": kind, "format": text(declared, "/format"),
            "description": description(declared),
            "priority": declared["priority"].as_i64().unwrap_or(0),
        });
        Self { definition, kind, path: JsonPath::parse(text(declared, "/jsonPath")) }
    }

    /// Returns the entry in `columnDefinitions`.
    pub(super) fn definition(&self) -> Value {
        self.definition.clone()
    }

    /// Returns the cell of an object, null if the object has no such value.
    pub(super) fn cell(&self, object: &Value, now: Time) -> Value {
        let value = self.path.as_ref().and_then(|path| path.find(object));
        match (self.kind.as_str(), value) {
            (_, None) => Value::Null,
            ("date", Some(value)) => table::since(value, now).into(),
            ("string", Some(Value::String(text))) => text.as_str().into(),
            ("string", Some(value)) => value.to_string().into(),
            ("integer", Some(value)) => value.as_i64().into(),
            ("number", Some(value)) => value.as_f64().into(),
            ("boolean", Some(value)) => value.as_bool().into(),
            (_, Some(value)) => value.clone(),
        }
    }
}

/// Returns the columns of a version of a definition: those declared, or the age.
pub(super) fn of(version: &Value) -> Vec<PrinterColumn> {
    let declared = version["additionalPrinterColumns"].as_array().filter(|some| !some.is_empty());
    declared.map_or_else(
        || {
            let age =
                json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
            vec![PrinterColumn::new(&age)]
        },
        |declared| declared.iter().map(PrinterColumn::new).collect(),
    )
}

fn description(declared: &Value) -> String {
    match (text(declared, "/description"), text(declared, "/jsonPath")) {
        ("", ".metadata.creationTimestamp") => table::AGE_DESCRIPTION.to_owned(),
        ("", path) => {
            format!("Custom resource definition column (in JSONPath format): {path}")
        }
        (description, _) => description.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_type_of_their_column() {
        let version = json!({"additionalPrinterColumns": [
            {"name": "State", "type": "string", "jsonPath": ".spec.state"},
            {"name": "Nodes", "type": "string", "jsonPath": ".spec.nodes"},
            {"name": "Count", "type": "integer", "jsonPath": ".spec.count", "priority": 1},
            {"name": "Since", "type": "date", "jsonPath": ".spec.since"},
            {"name": "Other", "type": "boolean", "jsonPath": ".spec.other"},
        ]});
        let object = json!({"spec": {"state": "Open", "nodes": ["a"], "count": 2,
            "since": "1970-01-01T00:00:10Z"}});
        let columns = of(&version);
        let cells: Vec<Value> =
            columns.iter().map(|column| column.cell(&object, Time::from_secs(70))).collect();
        assert_eq!(json!(cells), json!(["Open", "[\"a\"]", 2, "60s", null]));
        assert_eq!(columns[2].definition()["priority"], 1);
    }

    #[test]
    fn a_version_without_columns_shows_the_age() {
        let columns = of(&json!({}));
        let object = json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"}});
        assert_eq!(columns.len(), 1);
        assert_eq!(columns[0].cell(&object, Time::from_secs(5)), "5s");
    }
}
