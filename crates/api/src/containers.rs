//! The requests and limits of the single containers of a pod.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::resources::{Resources, is_sidecar, parse_resource_list};
use crate::api;

/// When a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ContainerKind {
    /// An init container: it ends before the next container starts.
    Init,
    /// An init container with `restartPolicy: Always`: it keeps running.
    Sidecar,
    /// A container of `spec.containers`.
    App,
}

/// The requests and limits of one container, as its spec has them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ContainerResources {
    /// Name of the container.
    pub name: Arc<str>,
    /// When the container runs.
    pub kind: ContainerKind,
    /// The requests. CPU, memory and ephemeral storage are 0 if absent.
    pub requests: Resources,
    /// The limits. 0 means no limit.
    pub limits: Resources,
}

impl ContainerResources {
    /// Returns the containers of a pod: init containers and sidecars in their order, then the
    /// others. A quantity that cannot be read is left out.
    pub(super) fn of_pod(spec: &api::PodSpec) -> Arc<[Self]> {
        let init = spec.init_containers.iter().map(|container| match is_sidecar(container) {
            true => Self::of(container, ContainerKind::Sidecar),
            false => Self::of(container, ContainerKind::Init),
        });
        let app = spec.containers.iter().map(|container| Self::of(container, ContainerKind::App));
        init.chain(app).collect()
    }

    fn of(container: &api::Container, kind: ContainerKind) -> Self {
        // The sums over the pod report unreadable requests.
        let parse = |list| parse_resource_list(list, "", &mut Vec::new());
        Self {
            name: container.name.as_str().into(),
            kind,
            requests: parse(&container.resources.requests),
            limits: parse(&container.resources.limits),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{ExtraFields, Pod, PodPool};

    fn decoded(name: &str, wanted: &ExtraFields) -> Pod {
        let object = json!({
            "metadata": {"name": name},
            "spec": {
                "initContainers": [
                    {"name": "proxy", "restartPolicy": "Always"},
                    {"name": "setup", "resources": {"requests": {"memory": "1Gi"}}},
                ],
                "containers": [{"name": "main", "resources": {
                    "requests": {"cpu": "500m", "example.com/gpu": "1"},
                    "limits": {"cpu": "2", "memory": "much"},
                }}],
            },
        });
        Pod::from_json(&object, wanted).unwrap()
    }

    #[test]
    fn containers_are_in_start_order() {
        let wanted = ExtraFields { containers: true, ..ExtraFields::default() };
        let pod = decoded("p", &wanted);
        let kinds: Vec<_> = pod.containers().iter().map(|one| (&*one.name, one.kind)).collect();
        let (init, sidecar, app) =
            (ContainerKind::Init, ContainerKind::Sidecar, ContainerKind::App);
        assert_eq!(kinds, [("proxy", sidecar), ("setup", init), ("main", app)]);
        let main = &pod.containers()[2];
        assert_eq!((main.requests.milli_cpu, main.requests.scalar("example.com/gpu")), (500, 1));
        assert_eq!((main.limits.milli_cpu, main.limits.memory), (2000, 0));
        assert_eq!(pod.containers()[1].requests.memory, 1 << 30);
    }

    #[test]
    fn containers_are_kept_only_on_request() {
        let pod = decoded("p", &ExtraFields::default());
        assert!(pod.containers().is_empty());
        assert_eq!(pod.extra, crate::Extra::default());
    }

    #[test]
    fn pods_of_one_template_share_their_containers() {
        let wanted = ExtraFields { containers: true, ..ExtraFields::default() };
        let mut pool = PodPool::default();
        let pods = ["a", "b"].map(|name| {
            let mut pod = decoded(name, &wanted);
            pool.share(&mut pod);
            pod
        });
        assert!(std::ptr::eq(pods[0].containers(), pods[1].containers()));
    }
}
