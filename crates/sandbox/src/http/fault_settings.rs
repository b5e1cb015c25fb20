//! `/sandbox/faults`: reads (GET) and replaces (PUT) the fault settings at run time.

use super::cluster::Cluster;
use crate::api::{Request, Response};
use crate::faults::Settings;
use crate::status::Status;

/// The path of the fault settings.
pub(super) const PATH: &str = "/sandbox/faults";

pub(super) fn answer(cluster: &Cluster, request: &Request) -> Response {
    match settings(cluster, request) {
        Ok(settings) => Response {
            status: 200,
            content_type: "application/json",
            retry_after: None,
            warnings: Vec::new(),
            body: serde_json::json!(settings).to_string().into(),
        },
        Err(status) => status.response(),
    }
}

fn settings(cluster: &Cluster, request: &Request) -> Result<Settings, Status> {
    if !request.user.groups.iter().any(|group| group == "system:masters") {
        let user = &request.user.name;
        return Err(Status::forbidden_path(format!(
            "forbidden: User \"{user}\" cannot {} path \"{PATH}\"",
            request.method.to_lowercase()
        )));
    }
    let mut faults = cluster.faults();
    match request.method.as_str() {
        "GET" => {}
        "PUT" => faults.set(
            serde_json::from_slice(&request.body)
                .map_err(|error| Status::bad_request(error.to_string()))?,
        ),
        _ => return Err(Status::method_not_allowed()),
    }
    Ok(faults.settings().clone())
}
