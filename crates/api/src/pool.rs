//! Sharing of equal parts of pods.

use std::hash::Hash;
use std::sync::Arc;

use foldhash::HashSet;

use crate::{
    ContainerResources, Controller, Labels, Pod, PodRequests, PodSpec, ScheduledCondition,
};

/// A pool that shares equal parts between pods. It keeps the memory of a pod small if other pods
/// have the same template.
#[derive(Debug, Default)]
pub struct PodPool {
    specs: Shared<PodSpec>,
    requests: Shared<PodRequests>,
    labels: Shared<Labels>,
    controllers: Shared<Controller>,
    containers: Shared<[ContainerResources]>,
    conditions: Shared<ScheduledCondition>,
    texts: Shared<str>,
}

impl PodPool {
    /// Replaces parts of `pod` by equal parts of other pods, apart from the name of its node.
    pub fn share(&mut self, pod: &mut Pod) {
        self.specs.share(&mut pod.spec);
        self.requests.share(&mut pod.requests);
        self.share_labels(&mut pod.labels);
        self.texts.share(&mut pod.key.namespace);
        if let Some(controller) = &mut pod.controller {
            self.controllers.share(controller);
        }
        if let Some(containers) = pod.extra.containers_mut() {
            self.containers.share(containers);
        }
        if let Some(condition) = &mut pod.scheduled_condition {
            self.conditions.share(condition);
        }
    }

    /// Replaces `text` by an equal text of pods.
    pub fn share_text(&mut self, text: &mut Arc<str>) {
        self.texts.share(text);
    }

    /// Shares labels. Labels that are unique to a pod share keys and values with other pods.
    fn share_labels(&mut self, labels: &mut Arc<Labels>) {
        if !self.labels.replace(labels) {
            Arc::make_mut(labels).texts_mut().for_each(|text| self.texts.share(text));
            self.labels.add(labels);
        }
    }
}

/// One copy of each value that is in use.
#[derive(Debug, Clone)]
pub struct Shared<T: ?Sized> {
    known: HashSet<Arc<T>>,
    sweep_at: usize,
}

const FIRST_SWEEP: usize = 64;

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self { known: HashSet::default(), sweep_at: FIRST_SWEEP }
    }
}

impl<T: ?Sized + Eq + Hash> Shared<T> {
    /// Replaces `value` by an equal known value, or remembers it.
    pub fn share(&mut self, value: &mut Arc<T>) {
        if !self.replace(value) {
            self.add(value);
        }
    }

    /// Replaces `value` by an equal known value; returns whether there is one.
    fn replace(&self, value: &mut Arc<T>) -> bool {
        let known = self.known.get(value);
        if let Some(known) = known {
            value.clone_from(known);
        }
        known.is_some()
    }

    fn add(&mut self, value: &Arc<T>) {
        if self.known.len() >= self.sweep_at {
            self.known.retain(|value| Arc::strong_count(value) > 1);
            self.sweep_at = (2 * self.known.len()).max(FIRST_SWEEP);
        }
        self.known.insert(value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_share_equal_keys_and_values() {
        let labels = |name: &str| Arc::new(Labels::from_iter([("app", "web"), ("pod", name)]));
        let mut pool = PodPool::default();
        let mut all = ["p0", "p1", "p0"].map(labels);
        all.iter_mut().for_each(|labels| pool.share_labels(labels));
        assert!(Arc::ptr_eq(&all[0], &all[2]) && !Arc::ptr_eq(&all[0], &all[1]));
        let mut pairs = all[0].pairs().zip(all[1].pairs());
        let (app, pod) = (pairs.next().unwrap(), pairs.next().unwrap());
        assert!(Arc::ptr_eq(app.0.0, app.1.0) && Arc::ptr_eq(app.0.1, app.1.1));
        assert!(Arc::ptr_eq(pod.0.0, pod.1.0));
        assert_eq!((all[1].get("app"), all[1].get("pod")), (Some("web"), Some("p1")));
    }

    #[test]
    fn equal_values_are_shared_and_unused_ones_are_freed() {
        let mut shared = Shared::<str>::default();
        let mut first: Arc<str> = "team-a".into();
        let mut second: Arc<str> = "team-a".into();
        shared.share(&mut first);
        shared.share(&mut second);
        assert!(Arc::ptr_eq(&first, &second));
        for n in 0..10_000 {
            shared.share(&mut Arc::from(format!("gone-{n}")));
        }
        assert!(shared.known.len() <= FIRST_SWEEP + 1, "{} left", shared.known.len());
        assert!(shared.known.contains("team-a"));
    }
}
