//! The priority levels and flow schemas of a new cluster. The sandbox stores them and queues no
//! request.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::resources::{FLOWSCHEMAS, PRIORITYLEVELCONFIGURATIONS, Resource};

/// Specs by name.
#[derive(Deserialize)]
struct Bootstrap {
    levels: BTreeMap<String, Value>,
    schemas: BTreeMap<String, Value>,
}

static BOOTSTRAP: LazyLock<Bootstrap> = LazyLock::new(|| {
    yaml::decode(include_str!("flow_control.yaml")).expect("the file is part of the crate")
});

/// Returns the priority levels and flow schemas that kube-apiserver creates.
pub(crate) fn bootstrap_flow_control() -> impl Iterator<Item = (&'static Resource, Value)> {
    let levels = BOOTSTRAP.levels.iter().map(|level| (PRIORITYLEVELCONFIGURATIONS, level));
    let schemas = BOOTSTRAP.schemas.iter().map(|schema| (FLOWSCHEMAS, schema));
    levels.chain(schemas).map(|(resource, (name, spec))| (resource, object(name, spec)))
}

fn object(name: &str, spec: &Value) -> Value {
    let annotations = json!({"apf.kubernetes.io/autoupdate-spec": "true"});
    json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec})
}
