//! Claims with administrative access to devices, which only labelled namespaces may contain.

use serde_json::Value;

use crate::metadata::namespace;
use crate::object::{entries, text};
use crate::resources::{NAMESPACES, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES, Resource};
use crate::status::Cause;
use crate::store::Store;

const LABEL: &str = "resource.kubernetes.io/admin-access";

/// Returns the fault of a new claim or template that its namespace does not permit.
pub(crate) fn check(store: &Store, resource: &Resource, object: &Value) -> Option<Cause> {
    let requests = match resource {
        _ if resource == RESOURCECLAIMS => "/spec/devices/requests",
        _ if resource == RESOURCECLAIMTEMPLATES => "/spec/spec/devices/requests",
        _ => return None,
    };
    let is_wanted = |request: &Value| request["exactly"]["adminAccess"] == true;
    let index = entries(object, requests).position(is_wanted)?;
    let namespace = store.get(NAMESPACES, "", namespace(object));
    let labels = namespace.map(|namespace| &namespace["metadata"]["labels"]);
    if labels.is_some_and(|labels| text(labels, "/resource.kubernetes.io~1admin-access") == "true")
    {
        return None;
    }
    let field = format!("spec.devices.requests[{index}].adminAccess");
    let why = format!(
        "admin access to devices requires the `{LABEL}: true` label on the containing namespace"
    );
    Some(Cause::forbidden(field, &why))
}
