//! An API server, the scheduler's view of it, and pods that are being bound.

use std::collections::{BTreeMap, BTreeSet};

use framework::{
    Answer, Cluster, Command, EventResource, NodeBits, Verdicts, Write, WriteAction, merge_patch,
};
use serde_json::json;
use testkit::{FakeDryRun, HandleParts, SetJson, cluster, node};

use super::super::*;

/// Nodes `a` and `b`, the class `gpu`, and two devices of the driver `d` on each node.
pub(super) struct World {
    /// The scheduler's view.
    pub(super) cluster: Cluster,
    pub(super) parts: HandleParts,
    pub(super) shared: Arc<Shared>,
    pub(super) plugin: Plugin,
    /// The objects of the API server, by resource and name.
    pub(super) server: BTreeMap<(String, String), Value>,
    versions: u64,
}

/// A pod that is being bound to a node.
#[derive(Clone)]
pub(super) struct Reservation {
    pub(super) state: CycleState,
    pub(super) pod: Arc<Pod>,
    pub(super) node: &'static str,
}

pub(super) fn pod(name: &str, spec: &Value) -> Pod {
    pod_with(name, spec, &json!({}))
}

pub(super) fn pod_with(name: &str, spec: &Value, status: &Value) -> Pod {
    let metadata = json!({"namespace": "default", "name": name, "uid": format!("uid-{name}")});
    let object = json!({"metadata": metadata, "spec": spec, "status": status});
    Pod::from_json(&object, &framework::ExtraFields::default()).unwrap()
}

/// A pod with these claims.
pub(super) fn pod_using(name: &str, claims: &[&str]) -> Pod {
    let claims = claims.iter().map(|own| json!({"name": own, "resourceClaimName": own}));
    pod(name, &json!({"resourceClaims": claims.collect::<Vec<_>>()}))
}

/// A claim for a number of devices of the class `gpu`.
pub(super) fn claim(name: &str, count: i64) -> Value {
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count});
    claim_with(name, &json!([{"name": "r", "exactly": exactly}]))
}

pub(super) fn claim_with(name: &str, requests: &Value) -> Value {
    json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {"devices": {"requests": requests}},
    })
}

pub(super) fn slice(node: &str, devices: &[&str]) -> Value {
    let devices: Vec<Value> = devices.iter().map(|name| json!({"name": name})).collect();
    slice_with(node, &devices.into())
}

pub(super) fn slice_with(node: &str, devices: &Value) -> Value {
    json!({
        "metadata": {"name": format!("slice-{node}"), "uid": format!("uid-slice-{node}")},
        "spec": {
            "driver": "d", "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        },
    })
}

impl World {
    pub(super) fn new(objects: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        Self::with(PluginArgs::default(), objects)
    }

    pub(super) fn with(
        args: PluginArgs,
        objects: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Self {
        let shared = Arc::<Shared>::default();
        let plugin = plugin_with(&args, &shared).unwrap();
        let nodes = ["a", "b"].map(|name| node(name).build());
        let mut world = Self {
            cluster: cluster(nodes, []),
            parts: HandleParts::default(),
            shared,
            plugin,
            server: BTreeMap::new(),
            versions: 0,
        };
        world.parts.now = framework::Time::from_secs(1_000);
        world.put("deviceclasses", json!({"metadata": {"name": "gpu", "uid": "uid-gpu"}}));
        for node in ["a", "b"] {
            world.put("resourceslices", slice(node, &["0", "1"]));
        }
        objects.into_iter().for_each(|(resource, object)| world.put(resource, object));
        world
    }

    pub(super) fn handle(&self) -> Handle<'_> {
        self.parts.handle(&self.cluster)
    }

    /// Creates or replaces an object, which the scheduler observes.
    pub(super) fn put(&mut self, resource: &str, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.store(resource, &name, object);
        self.watch(resource, &name);
    }

    fn store(&mut self, resource: &str, name: &str, mut object: Value) -> Value {
        self.versions += 1;
        object["metadata"]["resourceVersion"] = json!(self.versions.to_string());
        self.server.insert((resource.to_owned(), name.to_owned()), object.clone());
        object
    }

    /// Changes an object on the server only.
    pub(super) fn change(&mut self, resource: &str, name: &str, patch: &Value) {
        let mut object = self.find(resource, name);
        merge_patch(&mut object, patch);
        self.store(resource, name, object);
    }

    /// Changes an object, which the scheduler observes.
    pub(super) fn show(&mut self, resource: &str, name: &str, patch: &Value) {
        self.change(resource, name, patch);
        self.watch(resource, name);
    }

    pub(super) fn find(&self, resource: &str, name: &str) -> Value {
        self.server[&(resource.to_owned(), name.to_owned())].clone()
    }

    /// Returns a claim on the server.
    pub(super) fn claim(&self, name: &str) -> Value {
        self.find("resourceclaims", name)
    }

    /// Delivers the object of the server, or its absence, to the scheduler.
    pub(super) fn watch(&mut self, resource: &str, name: &str) {
        let object = self.server.get(&(resource.to_owned(), name.to_owned())).cloned();
        let (kind, namespace) = match resource {
            "resourceclaims" => (EventResource::ResourceClaim, "default"),
            "resourceslices" => (EventResource::ResourceSlice, ""),
            "podgroups" => (EventResource::PodGroup, "default"),
            "devicetaintrules" => {
                (EventResource::Custom(framework::device::DEVICE_TAINT_RULES.into()), "")
            }
            _ => (EventResource::DeviceClass, ""),
        };
        self.cluster.set_json(&kind, namespace, name, object.map(Arc::new));
    }

    /// Delivers every claim of the server.
    pub(super) fn watch_claims(&mut self) {
        let names: BTreeSet<String> = self.claim_names();
        names.iter().for_each(|name| self.watch("resourceclaims", name));
    }

    pub(super) fn claim_names(&self) -> BTreeSet<String> {
        let claims = self.server.keys().filter(|(resource, _)| resource == "resourceclaims");
        claims.map(|(_, name)| name.clone()).collect()
    }

    /// Deletes an object, which the scheduler observes.
    pub(super) fn delete(&mut self, resource: &str, name: &str) {
        self.server.remove(&(resource.to_owned(), name.to_owned()));
        self.watch(resource, name);
    }

    /// Performs a write on the server. The scheduler does not observe it yet.
    pub(super) fn write(&mut self, write: &Write) -> Answer {
        let (resource, name) = (&*write.resource, &*write.name);
        let key = (resource.to_owned(), name.to_owned());
        let stored = self.server.get(&key).cloned();
        if let WriteAction::Create(object) = &write.action {
            if stored.is_some() {
                return Answer::Conflict(format!("{resource} {name:?} already exists"));
            }
            assert_eq!(object["metadata"]["name"], json!(name));
            let mut object = object.clone();
            object["metadata"]["uid"] = json!(format!("uid-{name}"));
            return Answer::Ok(Some(self.store(resource, name, object)));
        }
        if resource == "pods" {
            return Answer::ok();
        }
        let Some(stored) = stored else {
            return Answer::Gone(format!("{resource} {name:?} not found"));
        };
        let mut object = stored.clone();
        match &write.action {
            WriteAction::Delete(uid) => {
                if stored["metadata"]["uid"] != json!(uid.to_string()) {
                    return Answer::Conflict("another uid".to_owned());
                }
                match stored["metadata"]["finalizers"].as_array() {
                    Some(finalizers) if !finalizers.is_empty() => {
                        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                    }
                    _ => {
                        self.server.remove(&key);
                        return Answer::ok();
                    }
                }
            }
            action => {
                let patch = write.body();
                for field in ["uid", "resourceVersion"] {
                    let wanted = &patch["metadata"][field];
                    if !wanted.is_null() && *wanted != stored["metadata"][field] {
                        return Answer::Conflict(format!("another {field}"));
                    }
                }
                match action {
                    WriteAction::MergePatch(_) => merge_patch(&mut object, patch),
                    _ => strategic(&mut object, patch),
                }
            }
        }
        if object == stored {
            return Answer::Ok(Some(object));
        }
        Answer::Ok(Some(self.store(resource, name, object)))
    }

    /// Performs the writes that were commanded outside PreBind, and returns them.
    pub(super) fn write_commands(&mut self) -> Vec<Write> {
        let commands = self.parts.commands.take();
        let writes: Vec<Write> = commands
            .into_iter()
            .filter_map(|command| match command {
                Command::Write { write, .. } => Some(write),
                _ => None,
            })
            .collect();
        writes.iter().for_each(|write| drop(self.write(write)));
        writes
    }

    pub(super) fn pre_filter(&self, pod: &Pod) -> (CycleState, Result<PreFilterResult, Status>) {
        let mut state = CycleState::new();
        let point = self.plugin.pre_filter.as_ref().unwrap();
        let result = point.pre_filter(framework::AttemptMut::new(&mut state, pod, &self.handle()));
        (state, result)
    }

    /// Returns the verdict on each node, after checking that both forms agree.
    pub(super) fn filter(&self, state: &CycleState, pod: &Pod) -> [Status; 2] {
        let filter = self.plugin.filter.as_ref().unwrap();
        let mut kept = NodeBits::with_len(self.cluster.table_len());
        let nodes = ["a", "b"].map(|name| self.cluster.node_named(name).unwrap());
        for node in nodes {
            kept.insert(node);
        }
        let all = kept.clone();
        let handle = self.handle();
        let statuses = nodes.map(|node| {
            filter.filter(&framework::Attempt::new(state, pod, &handle), &self.cluster.node(node))
        });
        let error = statuses.iter().find(|own| !own.is_success() && !own.is_rejection());
        match filter.filter_set(&framework::Attempt::new(state, pod, &handle), &mut kept) {
            Err(status) => assert_eq!(Some(&status), error),
            Ok(()) => {
                assert_eq!(error, None);
                let mut rejected = all;
                rejected.subtract(&kept);
                let mut verdicts = Verdicts::with_len(self.cluster.table_len());
                filter.explain_set(
                    &framework::Attempt::new(state, pod, &handle),
                    &rejected,
                    &mut verdicts,
                );
                for (node, status) in nodes.iter().zip(&statuses) {
                    assert_eq!(kept.contains(*node), status.is_success(), "{status:?}");
                    if !status.is_success() {
                        assert_eq!(verdicts.get(*node), status);
                    }
                }
            }
        }
        statuses
    }

    /// Returns the message for each node, empty for success; PreFilter's if it rejects the pod.
    pub(super) fn messages(&self, pod: &Pod) -> [String; 2] {
        let (state, result) = self.pre_filter(pod);
        match result {
            Err(status) if !status.is_skip() => [status.message(), status.message()],
            _ => self.filter(&state, pod).map(|status| status.message()),
        }
    }

    /// Runs PostFilter after all nodes were rejected by the plugin.
    pub(super) fn post_filter(&self, pod: &Pod) -> Status {
        let (mut state, result) = self.pre_filter(pod);
        let mut verdicts = Verdicts::with_len(self.cluster.table_len());
        verdicts.attribute_to(&NAME.into());
        if result.is_ok() {
            let statuses = self.filter(&state, pod);
            for (name, status) in ["a", "b"].iter().zip(statuses) {
                verdicts.record(self.cluster.node_named(name).unwrap(), status.by(&NAME.into()));
            }
        }
        let point = self.plugin.post_filter.as_ref().unwrap();
        let handle = self.handle();
        let mut dry_run = FakeDryRun::new(&self.cluster, |_| Status::success());
        point
            .post_filter(
                framework::AttemptMut::new(&mut state, pod, &handle),
                &verdicts,
                &mut dry_run,
            )
            .status
    }

    /// Filters the pod, assumes it on the node and reserves its devices.
    pub(super) fn reserve(&self, pod: &Pod, node: &'static str) -> Result<Reservation, Status> {
        let (mut state, result) = self.pre_filter(pod);
        match result {
            Err(status) if !status.is_skip() => return Err(status),
            _ => {}
        }
        let place = usize::from(node == "b");
        self.filter(&state, pod)[place].clone().ok()?;
        state.end_search();
        let pod = Arc::new(Pod { node_name: Some(node.into()), ..pod.clone() });
        let reserve = self.plugin.reserve.as_ref().unwrap();
        reserve.reserve(framework::AttemptMut::new(&mut state, &pod, &self.handle()), node).ok()?;
        Ok(Reservation { state, pod, node })
    }

    pub(super) fn step(&self, attempt: &mut Reservation, input: PreBindInput<'_>) -> PreBindStep {
        let Reservation { state, pod, node } = attempt;
        let point = self.plugin.pre_bind.as_ref().unwrap();
        point.pre_bind(framework::AttemptMut::new(state, pod, &self.handle()), node, input)
    }

    /// Performs every write and delivers the results; returns the step after the last one.
    pub(super) fn write_all(&mut self, attempt: &mut Reservation) -> PreBindStep {
        let mut step = self.step(attempt, PreBindInput::Start);
        while let PreBindStep::Write(write) = step {
            let answer = self.write(&write);
            if *write.resource != *"pods" {
                self.watch(&write.resource, &write.name);
            }
            step = self.step(attempt, PreBindInput::Answer(&answer));
        }
        step
    }

    pub(super) fn unreserve(&self, attempt: &mut Reservation) {
        let point = self.plugin.reserve.as_ref().unwrap();
        point.unreserve(
            framework::AttemptMut::new(&mut attempt.state, &attempt.pod, &self.handle()),
            attempt.node,
        );
    }

    pub(super) fn undo_reserve(&self, attempt: &mut Reservation) {
        let point = self.plugin.reserve.as_ref().unwrap();
        point.undo_reserve(
            framework::AttemptMut::new(&mut attempt.state, &attempt.pod, &self.handle()),
            attempt.node,
        );
    }

    /// Checks that the kept allocations beyond the watch are those of the tracked claims.
    pub(super) fn check_overlay(&self) {
        let mut tracked = self.shared.tracker.lock();
        let expected = tracked.overlay_from_nothing(&self.cluster);
        assert_eq!(*tracked.overlay(&self.cluster), expected);
    }

    /// Returns the devices that the claims of the server name, sorted.
    pub(super) fn devices_on_server(&self) -> Vec<String> {
        let mut devices = Vec::new();
        for name in self.claim_names() {
            devices.extend(devices_of(&self.claim(&name)));
        }
        devices.sort_unstable();
        devices
    }
}

/// Returns the devices of a claim, as `node/device`.
pub(super) fn devices_of(claim: &Value) -> Vec<String> {
    let results = claim["status"]["allocation"]["devices"]["results"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let device = |own: &Value| format!("{}/{}", text(&own["pool"]), text(&own["device"]));
    results.into_iter().flatten().map(device).collect()
}

/// Applies the strategic merge patches that the plugin uses.
fn strategic(object: &mut Value, patch: &Value) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut finalizers = list(&object["metadata"]["finalizers"]);
    let removed = list(&patch["metadata"]["$deleteFromPrimitiveList/finalizers"]);
    finalizers.retain(|own| !removed.contains(own));
    let added = list(&patch["metadata"]["finalizers"]);
    finalizers
        .extend(added.into_iter().filter(|own| !finalizers.contains(own)).collect::<Vec<_>>());
    if object["metadata"]["finalizers"] != json!(finalizers)
        && !(finalizers.is_empty() && object["metadata"]["finalizers"].is_null())
    {
        object["metadata"]["finalizers"] = finalizers.into();
    }
    for user in list(&patch["status"]["reservedFor"]) {
        assert_eq!(user["$patch"], "delete");
        if let Some(users) = object["status"]["reservedFor"].as_array_mut() {
            users.retain(|own| own["uid"] != user["uid"]);
        }
    }
}
