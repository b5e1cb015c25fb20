use serde_json::{Value, json};

use ::api::{Pod, Time, api};

/// A pod called `name` in namespace `default` with one container that asks for nothing.
pub fn pod(name: &str) -> PodBuilder {
    let mut api = api::Pod::default();
    api.metadata.name = name.to_owned();
    api.metadata.namespace = "default".to_owned();
    api.metadata.uid = format!("uid-{name}");
    api.spec.scheduler_name = "default-scheduler".to_owned();
    PodBuilder(api).container(&[])
}

/// Builds a pod; see [`pod`].
#[derive(Debug, Clone)]
pub struct PodBuilder(api::Pod);

impl PodBuilder {
    /// Moves the pod to another namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.0.metadata.namespace = namespace.to_owned();
        self
    }

    /// Sets the UID.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.0.metadata.uid = uid.to_owned();
        self
    }

    /// Adds or replaces a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.metadata.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets a request of the first container.
    #[must_use]
    pub fn request(mut self, resource: &str, quantity: &str) -> Self {
        let quantity = api::QuantityText(quantity.to_owned());
        self.0.spec.containers[0].resources.requests.insert(resource.to_owned(), quantity);
        self
    }

    /// Sets the CPU request of the first container.
    #[must_use]
    pub fn cpu(self, quantity: &str) -> Self {
        self.request("cpu", quantity)
    }

    /// Sets the memory request of the first container.
    #[must_use]
    pub fn memory(self, quantity: &str) -> Self {
        self.request("memory", quantity)
    }

    /// Adds a container with these requests.
    #[must_use]
    pub fn container(mut self, requests: &[(&str, &str)]) -> Self {
        let mut container = api::Container {
            name: format!("c{}", self.0.spec.containers.len()),
            ..api::Container::default()
        };
        for (resource, quantity) in requests {
            let quantity = api::QuantityText((*quantity).to_owned());
            container.resources.requests.insert((*resource).to_owned(), quantity);
        }
        self.0.spec.containers.push(container);
        self
    }

    /// Sets the image of the first container.
    #[must_use]
    pub fn image(mut self, image: &str) -> Self {
        self.0.spec.containers[0].image = image.to_owned();
        self
    }

    /// Assigns the pod to a node.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.0.spec.node_name = node.to_owned();
        self
    }

    /// Nominates the pod to a node.
    #[must_use]
    pub fn nominated(mut self, node: &str) -> Self {
        self.0.status.nominated_node_name = node.to_owned();
        self
    }

    /// Sets the time from which it runs, in seconds since the epoch.
    #[must_use]
    pub fn started(mut self, seconds: i64) -> Self {
        self.0.status.start_time = Some(Time::from_secs(seconds).to_string());
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.0.spec.priority = Some(priority);
        self
    }

    /// Chooses a profile.
    #[must_use]
    pub fn scheduler(mut self, name: &str) -> Self {
        self.0.spec.scheduler_name = name.to_owned();
        self
    }

    /// Adds a toleration.
    #[must_use]
    pub fn toleration(mut self, key: &str, operator: &str, value: &str, effect: &str) -> Self {
        self.0.spec.tolerations.push(api::Toleration {
            key: key.to_owned(),
            operator: operator.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
        });
        self
    }

    /// Adds a label to `spec.nodeSelector`.
    #[must_use]
    pub fn node_selector(mut self, key: &str, value: &str) -> Self {
        let selector = self.0.spec.node_selector.get_or_insert_default();
        selector.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a TCP host port to the first container.
    #[must_use]
    pub fn host_port(mut self, port: i32) -> Self {
        let port = api::ContainerPort { host_port: port, ..api::ContainerPort::default() };
        self.0.spec.containers[0].ports.push(port);
        self
    }

    /// Adds a scheduling gate.
    #[must_use]
    pub fn gate(mut self, name: &str) -> Self {
        self.0.spec.scheduling_gates.push(api::SchedulingGate { name: name.to_owned() });
        self
    }

    /// Puts the pod into a PodGroup.
    #[must_use]
    pub fn scheduling_group(mut self, name: &str) -> Self {
        let pod_group_name = Some(name.to_owned());
        self.0.spec.scheduling_group = Some(api::PodSchedulingGroup { pod_group_name });
        self
    }

    /// Adds a volume with this source; its name is `v` and its number.
    ///
    /// # Panics
    /// `source` is not a source of a volume.
    #[must_use]
    pub fn volume(mut self, source: Value) -> Self {
        let mut volume: api::Volume =
            serde_json::from_value(source).expect("the source of a volume");
        volume.name = format!("v{}", self.0.spec.volumes.len());
        self.0.spec.volumes.push(volume);
        self
    }

    /// Adds a volume that is this claim.
    #[must_use]
    pub fn claim(self, name: &str) -> Self {
        self.volume(json!({ "persistentVolumeClaim": { "claimName": name } }))
    }

    /// Changes the API object directly.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut api::Pod)) -> Self {
        change(&mut self.0);
        self
    }

    /// The API object.
    pub fn api(self) -> api::Pod {
        self.0
    }

    /// The compact form.
    pub fn build(self) -> Pod {
        Pod::from_api(&self.0)
    }
}
