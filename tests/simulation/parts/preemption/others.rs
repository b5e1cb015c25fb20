//! The API server, its watch, and what others do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::{Change, Input};
use framework::{EventResource, ObjectKey, Pod, PodKey, Uid, api};
use serde_json::{Value, json};
use testkit::{PodBuilder, bound_claim, csi_node, pod, volume};

use super::super::super::rules::Checked;
use super::{CLAIMS, History, InProgress, NAMES, NODES};

impl History<'_> {
    /// Changes a pod of the API server.
    pub(super) fn change(
        &mut self,
        name: &'static str,
        uid: &Uid,
        change: impl FnOnce(&mut api::Pod),
    ) {
        let known = self.server.get(name).filter(|pod| Uid::from(&*pod.metadata.uid) == *uid);
        if let Some(mut pod) = known.cloned() {
            change(&mut pod);
            self.store(name, Some(pod));
        }
    }

    pub(super) fn store(&mut self, name: &'static str, pod: Option<api::Pod>) {
        self.version += 1;
        let version = self.version.to_string();
        let pod = pod.map(|mut pod| {
            pod.metadata.resource_version = version;
            pod
        });
        match &pod {
            Some(pod) => drop(self.server.insert(name, pod.clone())),
            None => drop(self.server.remove(name)),
        }
        self.unseen.push_back((name, pod));
    }

    /// Returns a pod without a name.
    fn some_template(&mut self) -> PodBuilder {
        let cpu = ["1", "1", "2", "3"][self.random.usize(..4)];
        let priority = self.random.i32(0..3) * 10;
        let mut new = pod("template").cpu(cpu).priority(priority);
        if self.random.bool() {
            new = new.label("app", "web");
        }
        if self.random.u8(..4) == 0 {
            new = new.label("waits", "yes");
        }
        if self.has_volumes {
            for claim in CLAIMS {
                new = if self.random.u8(..3) == 0 { new.claim(claim) } else { new };
            }
        }
        new
    }

    /// Puts small pods on all nodes until they are full, and creates a pod that is more important.
    pub(super) fn fill(&mut self) {
        let mut names = NAMES.into_iter();
        let nodes = self.engine.cluster().node_count();
        for node in &NODES[..nodes] {
            for name in names.by_ref().take(3) {
                let mut template = pod("template").cpu("1").priority(0);
                if self.random.bool() {
                    template = template.label("app", "web");
                }
                self.create_from(name, template, Some(node));
            }
        }
        let cpu = ["1", "2", "3"][self.random.usize(..3)];
        let preemptor = pod("template").cpu(cpu).priority([10, 10, 20][self.random.usize(..3)]);
        self.template = Some(preemptor.clone());
        let number = self.random.usize(1..3);
        for name in names.take(number) {
            self.create_from(name, preemptor.clone(), None);
        }
    }

    /// Creates a pod under a name; with a node it is one of another scheduler. It is often like the
    /// one before.
    pub(super) fn create(&mut self, name: &'static str, node: Option<&str>) {
        let known = self.template.clone().filter(|_| self.random.u8(..3) == 0);
        let template = known.unwrap_or_else(|| self.some_template());
        self.template = Some(template.clone());
        self.create_from(name, template, node);
    }

    fn create_from(&mut self, name: &'static str, template: PodBuilder, node: Option<&str>) {
        self.version += 1;
        let uid = format!("uid-{name}-{}", self.version);
        let mut new = template.with(|pod| pod.metadata.name = name.to_owned()).uid(&uid);
        let seconds = self.now.as_nanos() / 1_000_000_000;
        match self.random.u8(..4) {
            0 => {}
            1 | 2 => new = new.started(seconds + self.random.i64(-20..20)),
            _ => new = new.started(i64::try_from(self.version).unwrap_or_default()),
        }
        if let Some(node) = node {
            new = new.scheduler("other").on(node);
        }
        let mut object = new.api();
        if self.random.u8(..6) == 0 {
            object.status.conditions.push(disruption_target());
        }
        self.pods.insert(Uid::from(&*uid));
        self.store(name, Some(object));
    }

    /// Takes a pod off the API server. In a war others take the room of some of them, or of all.
    pub(super) fn delete(&mut self, name: &'static str) {
        let node = self.server.get(name).map(|pod| pod.spec.node_name.clone());
        self.store(name, None);
        let node = node.filter(|node| !node.is_empty() && self.random.u8(..4) < self.war);
        if let Some(node) = node {
            match self.random.bool() && self.war < 4 {
                true => self.create(name, Some(&node)),
                false => {
                    let template = pod("template").cpu("1").priority(0);
                    self.create_from(name, template, Some(&node));
                }
            }
        }
    }

    /// Ends the pods that terminate.
    pub(super) fn end_terminating(&mut self) {
        let is_terminating = |name: &&str| {
            let pod = self.server.get(name);
            pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some())
        };
        let terminating: Vec<&'static str> = NAMES.into_iter().filter(is_terminating).collect();
        terminating.into_iter().for_each(|name| self.delete(name));
    }

    /// Lets a pod end: at once, or it terminates first.
    pub(super) fn end(&mut self, name: &'static str, trace: &mut Vec<String>) -> Checked {
        let Some(pod) = self.server.get(name) else { return Ok(()) };
        let is_terminating = pod.metadata.deletion_timestamp.is_some();
        let uid = Uid::from(&*pod.metadata.uid);
        if is_terminating || self.random.bool() {
            trace.push(format!("{name} is gone"));
            self.delete(name);
        } else if !pod.spec.node_name.is_empty() {
            trace.push(format!("{name} terminates"));
            let now = "2026-01-01T00:00:00Z".to_owned();
            self.change(name, &uid, |pod| pod.metadata.deletion_timestamp = Some(now));
        }
        Ok(())
    }

    /// Lets the watch show the next change.
    pub(super) fn watch(&mut self, trace: &mut Vec<String>) -> Checked {
        let Some((name, object)) = self.unseen.pop_front() else { return Ok(()) };
        let key = PodKey::new("default", name);
        let known = self.shown.values().find(|pod| *pod.metadata.name == *name);
        let known = known.map(|pod| Uid::from(&*pod.metadata.uid));
        let Some(object) = object else {
            trace.push(format!("the watch shows that {name} is gone"));
            let Some(uid) = known else { return Ok(()) };
            self.ends(&uid);
            let gone = uid.clone();
            let (_, asked) = self.call(|engine, now, ports| {
                engine.step(Input::Change(Change::PodDeleted { key, uid: gone }), now, ports);
            });
            let shown = self.shown.remove(&uid);
            self.charged.remove(&uid);
            if shown.is_some_and(|shown| shown.spec.node_name.is_empty()) {
                self.leaves(&uid, None);
            }
            return self.nothing_is_evicted(&asked);
        };
        let uid = Uid::from(&*object.metadata.uid);
        let new = Pod::from_api(&object);
        trace.push(format!(
            "the watch shows {name} on {:?}, terminating: {}",
            new.node_name, new.terminating
        ));
        let before = self.shown.insert(uid.clone(), object);
        let was_bound = before.is_some_and(|before| !before.spec.node_name.is_empty());
        if new.terminating && new.node_name.is_some() {
            self.ends(&uid);
        }
        let node = new.node_name.clone();
        let (_, asked) = self.call(|engine, now, ports| {
            engine.step(Input::Change(Change::Pod(new.into())), now, ports)
        });
        if let Some(node) = node.filter(|_| !was_bound) {
            self.arrivals.insert(node.clone(), self.attempt);
            self.leaves(&uid, Some(&node));
        }
        self.nothing_is_evicted(&asked)
    }

    /// Notes that the watch shows the end of a pod.
    pub(super) fn ends(&mut self, pod: &Uid) {
        self.ending.remove(pod);
        self.last_ends(pod, None);
    }

    /// Notes that a pod is bound or gone.
    pub(super) fn leaves(&mut self, pod: &Uid, node: Option<&str>) {
        self.fruitless.end(pod, node, self.now);
        self.paused.remove(pod);
        self.pauses.remove(pod);
        let stays = |own: &InProgress| own.preemptor.uid != *pod || !own.requested.is_empty();
        self.preemptions.retain(stays);
    }

    /// Sets the budget of the pods with the label `app`, or removes it.
    pub(super) fn set_budget(&mut self) {
        let is_gone = self.budget.is_some() && self.random.u8(..5) == 0;
        let disrupted: BTreeSet<String> = NAMES
            .iter()
            .filter(|_| self.random.u8(..6) == 0)
            .map(|name| (*name).to_owned())
            .collect();
        let of_status: BTreeMap<&String, &str> =
            disrupted.iter().map(|name| (name, "2026-01-01T00:00:00Z")).collect();
        let object = Arc::new(json!({
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": self.random.i32(0..3), "disruptedPods": of_status},
        }));
        let object = (!is_gone).then_some(object);
        self.set_object(EventResource::PodDisruptionBudget, "web", object);
        self.budget = (!is_gone).then_some(disrupted);
        // The new status counts the victims that have ended.
        let charged = std::mem::take(&mut self.charged);
        let stays = |uid: &Uid| !is_gone && self.is_running(uid);
        self.charged = charged.into_iter().filter(stays).collect();
    }

    pub(super) fn set_object(
        &mut self,
        kind: EventResource,
        name: &str,
        object: Option<Arc<Value>>,
    ) {
        let is_cluster_scoped =
            matches!(kind, EventResource::PersistentVolume | EventResource::CsiNode);
        let namespace: Arc<str> = if is_cluster_scoped { "" } else { "default" }.into();
        let name: Arc<str> = name.into();
        let key = (kind.clone(), namespace.clone(), name.clone());
        self.related.set(key, object.as_ref());
        let key = ObjectKey::namespaced(kind, namespace, name);
        let change = Change::decode(key, object).expect("the object decodes");
        self.call(|engine, now, ports| {
            engine.step(Input::Change(change), now, ports);
        });
    }

    /// Creates claims with volumes, of which each node can attach one or two.
    pub(super) fn create_volumes(&mut self) {
        for name in CLAIMS {
            let modes = ["ReadWriteOncePod", "ReadWriteMany", "ReadWriteMany"];
            let modes = json!([modes[self.random.usize(..modes.len())]]);
            let claim = bound_claim(name, name).set("/spec/accessModes", modes.clone());
            let reference = json!({"namespace": "default", "name": name});
            let spec = json!({"csi": {"driver": "d", "volumeHandle": name},
                "accessModes": modes, "claimRef": reference});
            let volume = volume(name, spec);
            let kind = EventResource::PersistentVolumeClaim;
            self.set_object(kind, name, Some(Arc::new(claim.json().clone())));
            let kind = EventResource::PersistentVolume;
            self.set_object(kind, name, Some(Arc::new(volume.json().clone())));
        }
        for name in NODES {
            let limits = csi_node(name, &[("d", Some(self.random.i32(1..3)))]);
            self.set_object(EventResource::CsiNode, name, Some(Arc::new(limits.json().clone())));
        }
    }
}

/// The condition of a victim.
pub(super) fn disruption_target() -> api::PodCondition {
    api::PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: "PreemptionByScheduler".to_owned(),
        message: String::new(),
    }
}
