//! An API server, the scheduler's view of it, and pods that are being bound.

use std::collections::BTreeMap;

use framework::{Answer, Pod, Write, merge_patch};
use testkit::{PodBuilder, SetJson, cluster, handle, node};

use super::*;

/// Nodes `a` and `b` in zones of their names, and storage.
pub(super) struct World {
    /// The scheduler's view.
    pub(super) cluster: Cluster,
    pub(super) caches: Arc<AssumeCaches>,
    pub(super) plugin: Plugin,
    /// The objects of the API server, by resource, namespace and name.
    server: BTreeMap<(String, String, String), Value>,
    versions: u64,
}

/// A pod that is being bound to a node.
pub(super) struct Reservation {
    state: CycleState,
    pub(super) pod: Arc<Pod>,
    node: &'static str,
}

impl World {
    pub(super) fn new(args: Value, objects: impl IntoIterator<Item = StorageObject>) -> Self {
        let caches = Arc::<AssumeCaches>::default();
        let plugin = plugin_with(&PluginArgs::new(args), &caches).unwrap();
        let nodes = ["a", "b"].map(|name| node(name).label("zone", name).build());
        let mut world = Self {
            cluster: cluster(nodes, []),
            caches,
            plugin,
            server: BTreeMap::new(),
            versions: 0,
        };
        objects.into_iter().for_each(|object| world.put(object));
        world
    }

    /// Creates or replaces an object, which the scheduler observes.
    pub(super) fn put(&mut self, object: StorageObject) {
        let object = object.json();
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let resource = match (object["provisioner"].is_null(), text("namespace").is_empty()) {
            (false, _) => "storageclasses",
            (true, false) => "persistentvolumeclaims",
            (true, true) => "persistentvolumes",
        };
        let (namespace, name) = (text("namespace"), text("name"));
        self.store(resource, &namespace, &name, object.clone());
        self.watch(resource, &name);
    }

    fn store(&mut self, resource: &str, namespace: &str, name: &str, mut object: Value) -> Value {
        self.versions += 1;
        object["metadata"]["resourceVersion"] = json!(self.versions.to_string());
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.server.insert(key, object.clone());
        object
    }

    /// Changes an object on the server only.
    pub(super) fn change(&mut self, resource: &str, name: &str, patch: Value) {
        let (key, mut object) = self.find(resource, name);
        merge_patch(&mut object, &patch);
        self.store(resource, &key.1, name, object);
    }

    /// Changes an object, which the scheduler observes.
    pub(super) fn show(&mut self, resource: &str, name: &str, patch: Value) {
        self.change(resource, name, patch);
        self.watch(resource, name);
    }

    fn find(&self, resource: &str, name: &str) -> ((String, String, String), Value) {
        let mut found = self.server.iter().filter(|(key, _)| key.0 == resource && key.2 == name);
        let (key, object) = found.next().expect("the object is on the server");
        (key.clone(), object.clone())
    }

    /// Delivers the object of the server to the scheduler.
    pub(super) fn watch(&mut self, resource: &str, name: &str) {
        let (key, object) = self.find(resource, name);
        self.cluster.set_json(&kind(resource), &key.1, name, Some(Arc::new(object)));
    }

    /// Deletes an object, which the scheduler observes.
    pub(super) fn delete(&mut self, resource: &str, name: &str) {
        let (key, _) = self.find(resource, name);
        self.server.remove(&key);
        self.cluster.set_json(&kind(resource), &key.1, name, None);
    }

    /// Performs a write on the server. The scheduler does not observe it yet.
    pub(super) fn write(&mut self, write: &Write) -> Answer {
        let key = (write.resource.to_string(), write.namespace.to_string(), write.name.to_string());
        let Some(stored) = self.server.get(&key) else {
            return Answer::Gone(format!("{} {:?} not found", write.resource, &*write.name));
        };
        for field in ["uid", "resourceVersion"] {
            if write.body()["metadata"][field] != stored["metadata"][field] {
                return Answer::Conflict(format!("another {field}"));
            }
        }
        let mut object = stored.clone();
        merge_patch(&mut object, write.body());
        if object == *stored {
            return Answer::Ok(Some(object));
        }
        Answer::Ok(Some(self.store(&write.resource, &write.namespace, &write.name, object)))
    }

    /// Filters the pod, assumes it on the node and reserves its volumes.
    pub(super) fn reserve(
        &mut self,
        pod: PodBuilder,
        node: &'static str,
    ) -> Result<Reservation, Status> {
        let (pod, mut state) = (pod.build(), CycleState::new());
        match self.plugin.pre_filter.as_ref().unwrap().pre_filter(framework::AttemptMut::new(
            &mut state,
            &pod,
            &handle(&self.cluster),
        )) {
            Err(status) if status.is_skip() => {}
            Err(status) => return Err(status),
            Ok(_) => {
                self.filter(&state, &pod, node).ok()?;
            }
        }
        state.end_search();
        let pod = Arc::new(Pod { node_name: Some(node.into()), ..pod });
        self.cluster.place_pod(pod.clone(), node);
        let reserve = self.plugin.reserve.as_ref().unwrap();
        reserve
            .reserve(framework::AttemptMut::new(&mut state, &pod, &handle(&self.cluster)), node)
            .ok()?;
        Ok(Reservation { state, pod, node })
    }

    /// Returns the verdict on the node, after checking that both forms agree.
    fn filter(&self, state: &CycleState, pod: &Pod, node: &str) -> Status {
        let filter = self.plugin.filter.as_ref().unwrap();
        let ix = self.cluster.node_named(node).unwrap();
        let status = filter.filter(
            &framework::Attempt::new(state, pod, &handle(&self.cluster)),
            &self.cluster.node(ix),
        );
        let mut kept = NodeBits::with_len(self.cluster.table_len());
        kept.insert(ix);
        filter
            .filter_set(&framework::Attempt::new(state, pod, &handle(&self.cluster)), &mut kept)
            .unwrap();
        assert_eq!(kept.contains(ix), status.is_success(), "{status:?}");
        status
    }

    /// Returns the score of the node for the pod.
    pub(super) fn score(&self, pod: PodBuilder, node: &str) -> i64 {
        let (pod, mut state) = (pod.build(), CycleState::new());
        let pre_filter = self.plugin.pre_filter.as_ref().unwrap();
        pre_filter
            .pre_filter(framework::AttemptMut::new(&mut state, &pod, &handle(&self.cluster)))
            .unwrap();
        let node = self.cluster.node(self.cluster.node_named(node).unwrap());
        self.plugin
            .score
            .as_ref()
            .unwrap()
            .score(&framework::Attempt::new(&state, &pod, &handle(node.cluster())), &node)
            .unwrap()
    }

    pub(super) fn pre_flight(&self, attempt: &Reservation) -> PreBindPreFlight {
        let point = self.plugin.pre_bind.as_ref().unwrap();
        point.pre_flight(
            &framework::Attempt::new(&attempt.state, &attempt.pod, &handle(&self.cluster)),
            attempt.node,
        )
    }

    pub(super) fn step(&self, attempt: &mut Reservation, input: PreBindInput<'_>) -> PreBindStep {
        let Reservation { state, pod, node } = attempt;
        let point = self.plugin.pre_bind.as_ref().unwrap();
        point.pre_bind(framework::AttemptMut::new(state, pod, &handle(&self.cluster)), node, input)
    }

    /// Performs and delivers every write; returns the step after the last one.
    pub(super) fn write_all(&mut self, attempt: &mut Reservation) -> PreBindStep {
        let mut step = self.step(attempt, PreBindInput::Start);
        while let PreBindStep::Write(write) = step {
            let answer = self.write(&write);
            self.watch(&write.resource, &write.name);
            step = self.step(attempt, PreBindInput::Answer(&answer));
        }
        step
    }

    pub(super) fn unreserve(&self, attempt: &mut Reservation) {
        let point = self.plugin.reserve.as_ref().unwrap();
        let handle = handle(&self.cluster);
        point.unreserve(
            framework::AttemptMut::new(&mut attempt.state, &attempt.pod, &handle),
            attempt.node,
        );
    }

    /// Returns the claim that this volume is assumed to be reserved for.
    pub(super) fn claim_of(&self, volume: &str) -> Option<String> {
        let volume = self.cluster.volume(volume).unwrap();
        let volume = self.caches.lock().volumes.latest(volume);
        volume.claim_ref.as_ref().map(|claim| claim.name.to_string())
    }

    /// Returns the node for which the volume of this claim is assumed to be provisioned.
    pub(super) fn node_of(&self, claim: &str) -> Option<String> {
        let claim = self.cluster.claim("default", claim).unwrap();
        let claim = self.caches.lock().claims.latest(claim);
        claim.selected_node.as_ref().map(ToString::to_string)
    }
}

fn kind(resource: &str) -> EventResource {
    match resource {
        "persistentvolumes" => EventResource::PersistentVolume,
        "persistentvolumeclaims" => EventResource::PersistentVolumeClaim,
        _ => EventResource::StorageClass,
    }
}
