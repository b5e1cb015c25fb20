use ::api::{Node, api};

/// A node called `name` with 110 pods, 8 CPUs, 32 GiB of memory and its hostname label.
pub fn node(name: &str) -> NodeBuilder {
    let mut api = api::Node::default();
    api.metadata.name = name.to_owned();
    NodeBuilder(api)
        .label("kubernetes.io/hostname", name)
        .allocatable("cpu", "8")
        .allocatable("memory", "32Gi")
        .allocatable("pods", "110")
}

/// Builds a node; see [`node`].
#[derive(Debug, Clone)]
pub struct NodeBuilder(api::Node);

impl NodeBuilder {
    /// Adds or replaces a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.metadata.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets the zone label.
    #[must_use]
    pub fn zone(self, zone: &str) -> Self {
        self.label("topology.kubernetes.io/zone", zone)
    }

    /// Sets an allocatable resource.
    #[must_use]
    pub fn allocatable(mut self, resource: &str, quantity: &str) -> Self {
        let quantity = api::QuantityText(quantity.to_owned());
        self.0.status.allocatable.insert(resource.to_owned(), quantity);
        self
    }

    /// Adds a taint.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let (key, value, effect) = (key.to_owned(), value.to_owned(), effect.to_owned());
        self.0.spec.taints.push(api::Taint { key, value, effect });
        self
    }

    /// Cordons the node.
    #[must_use]
    pub fn unschedulable(mut self) -> Self {
        self.0.spec.unschedulable = true;
        self
    }

    /// Adds an image of `size_bytes`.
    #[must_use]
    pub fn image(mut self, name: &str, size_bytes: i64) -> Self {
        self.0.status.images.push(api::ContainerImage { names: vec![name.to_owned()], size_bytes });
        self
    }

    /// Declares a feature.
    #[must_use]
    pub fn feature(mut self, name: &str) -> Self {
        self.0.status.declared_features.push(name.to_owned());
        self.0.status.declared_features.sort();
        self
    }

    /// Changes the API object directly.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut api::Node)) -> Self {
        change(&mut self.0);
        self
    }

    /// The API object.
    pub fn api(self) -> api::Node {
        self.0
    }

    /// The compact form.
    pub fn build(self) -> Node {
        let (node, problems) = Node::from_api(&self.0);
        assert!(problems.is_empty(), "{problems:?}");
        node
    }
}
