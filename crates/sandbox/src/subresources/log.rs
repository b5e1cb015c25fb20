//! `pods/log`: a fixed text, since containers do not run.

use super::Call;
use crate::api::Response;
use crate::object::{entries, text};
use crate::resources::PODS;
use crate::status::Status;
use crate::store::Store;

pub(super) fn get(store: &Store, call: &Call<'_>) -> Result<Response, Status> {
    let pod = store.get(PODS, call.namespace, call.name);
    let pod = pod.ok_or_else(|| Status::not_found(PODS, call.name))?;
    let names = |list| entries(pod, list).map(|container| text(container, "/name"));
    let mut containers = names("/spec/containers").chain(names("/spec/initContainers"));
    let container = match call.request.parameter("container") {
        Some(wanted) => containers.find(|name| *name == wanted).ok_or_else(|| {
            Status::bad_request(format!("container {wanted} is not valid for pod {}", call.name))
        })?,
        None => containers.next().unwrap_or_default(),
    };
    if entries(pod, "/status/containerStatuses").next().is_none() {
        return Err(Status::bad_request(format!(
            "container {container:?} in pod {:?} is waiting to start: ContainerCreating",
            call.name
        )));
    }
    Ok(Response {
        status: 200,
        content_type: "text/plain",
        retry_after: None,
        warnings: Vec::new(),
        body: format!("{container}: a container of the sandbox only pretends to run\n").into(),
    })
}
