//! Nominations: room on a node that is kept for a pending pod.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use framework::{NominatedPods, NominatingInfo, Pod, Uid};

/// The pods that are nominated to each node.
///
/// The nominator keeps the pods themselves, queued or in flight. This is a deliberate difference:
/// kube-scheduler looks them up in its queue, and counts a nominated pod in flight as a pod without
/// requests and priority, so that another pod may take its room.
#[derive(Debug, Default)]
pub struct Nominator {
    /// Never iterated.
    entries: HashMap<Uid, Entry>,
    /// By node, in the order of nomination.
    by_node: BTreeMap<Arc<str>, BTreeMap<u64, Arc<Pod>>>,
    /// Counts nominations.
    nominations: u64,
}

#[derive(Debug)]
struct Entry {
    node: Arc<str>,
    nomination: u64,
    /// Whether the object shows an earlier nomination to the same node, which is being cleared.
    is_ahead: bool,
}

impl Nominator {
    /// Nominates a pod to the node of an [`Override`](NominatingInfo::Override), otherwise to the node
    /// that its status names. An empty name means no node. Replaces any earlier nomination.
    ///
    /// The caller ensures that the pod exists and is not bound.
    pub fn add(&mut self, pod: Arc<Pod>, info: &NominatingInfo) {
        let before = self.remove(&pod.uid);
        let shown = pod.nominated_node_name();
        let (node, is_new) = match info {
            NominatingInfo::Override(node) => (Some(node), before.is_none()),
            NominatingInfo::Noop => (shown, false),
        };
        let Some(node) = node.filter(|node| !node.is_empty()).cloned() else { return };
        let was_ahead = before.is_some_and(|before| before.is_ahead && before.node == node);
        let is_ahead = shown == Some(&node) && (is_new || was_ahead);
        let nomination = self.nominations;
        self.nominations += 1;
        self.entries.insert(pod.uid.clone(), Entry { node: node.clone(), nomination, is_ahead });
        self.by_node.entry(node).or_default().insert(nomination, pod);
    }

    /// Removes the nomination of a pod, if there is one.
    pub fn delete(&mut self, uid: &Uid) {
        self.remove(uid);
    }

    fn remove(&mut self, uid: &Uid) -> Option<Entry> {
        let entry = self.entries.remove(uid)?;
        let pods = self.by_node.get_mut(&entry.node).expect("an entry is listed under its node");
        pods.remove(&entry.nomination);
        if pods.is_empty() {
            self.by_node.remove(&entry.node);
        }
        Some(entry)
    }

    /// Takes in an update of a pod. If the new version names no node in its status, keeps a nomination that is not
    /// written yet: the old version names none either, or one from before. Otherwise the new status decides.
    pub fn update(&mut self, old: &Pod, new: Arc<Pod>) {
        let is_unwritten = |entry: &&Entry| entry.is_ahead || old.nominated_node_name().is_none();
        let unwritten = self.entries.get(&old.uid).filter(is_unwritten);
        let unnamed = new.nominated_node_name().is_none();
        let kept = unwritten.filter(|_| unnamed).map(|entry| entry.node.clone());
        if old.uid != new.uid {
            self.delete(&old.uid);
        }
        self.add(new, &kept.map_or(NominatingInfo::Noop, NominatingInfo::Override));
    }

    /// Replaces the object of a nominated pod, but keeps its node and its order.
    pub fn refresh(&mut self, pod: &Arc<Pod>) {
        let Some(entry) = self.entries.get_mut(&pod.uid) else { return };
        let Entry { node, nomination, is_ahead } = entry;
        *is_ahead &= pod.nominated_node_name() == Some(node);
        let listed = self.by_node.get_mut(node).and_then(|pods| pods.get_mut(nomination));
        *listed.expect("an entry is listed under its node") = pod.clone();
    }

    /// Returns the node that a pod is nominated to.
    pub fn node_of(&self, uid: &Uid) -> Option<&Arc<str>> {
        self.entries.get(uid).map(|entry| &entry.node)
    }

    /// Returns the nodes with nominations, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.by_node.keys().map(|node| &**node)
    }

    /// Number of nominated pods.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no pod is nominated.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl NominatedPods for Nominator {
    fn nominated_to(&self, node: &str) -> Vec<Arc<Pod>> {
        self.by_node.get(node).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    fn nodes(&self) -> Vec<Arc<str>> {
        self.by_node.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use framework::testing::pod;

    use super::*;

    fn to(node: &str) -> NominatingInfo {
        NominatingInfo::Override(node.into())
    }

    fn names(nominator: &Nominator, node: &str) -> Vec<String> {
        nominator.nominated_to(node).iter().map(|pod| pod.key.name.to_string()).collect()
    }

    #[test]
    fn override_wins_over_the_status() {
        let mut nominator = Nominator::default();
        let pod = Arc::new(pod("p").nominated("stated").build());
        // Info, expected node.
        let rows = [
            (NominatingInfo::Noop, Some("stated")),
            (to("chosen"), Some("chosen")),
            (to(""), None),
        ];
        for (info, expected) in rows {
            nominator.add(pod.clone(), &info);
            assert_eq!(nominator.node_of(&pod.uid).map(|node| &**node), expected, "{info:?}");
            assert_eq!(nominator.len(), usize::from(expected.is_some()));
        }
        assert!(nominator.is_empty() && nominator.by_node.is_empty());
    }

    #[test]
    fn pods_of_a_node_are_listed_in_the_order_of_nomination() {
        let mut nominator = Nominator::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| Arc::new(pod(name).build()));
        for pod in [&c, &a, &b] {
            nominator.add(pod.clone(), &to("n"));
        }
        assert_eq!(names(&nominator, "n"), ["c", "a", "b"]);
        nominator.delete(&a.uid);
        nominator.delete(&a.uid);
        nominator.add(c, &to("n"));
        assert_eq!(names(&nominator, "n"), ["b", "c"]);
        assert_eq!(names(&nominator, "elsewhere"), [""; 0]);
    }

    #[test]
    fn update_keeps_a_nomination_that_is_not_written_yet() {
        let bare = || Arc::new(pod("p").build());
        let stated = |node| Arc::new(pod("p").nominated(node).build());
        // Old, new, expected after an in-memory nomination to `m`.
        let rows = [
            (bare(), bare(), Some("m")),
            (bare(), stated("x"), Some("x")),
            (stated("x"), stated("y"), Some("y")),
            (stated("x"), bare(), None),
        ];
        for (old, new, expected) in rows {
            let mut nominator = Nominator::default();
            nominator.add(old.clone(), &to("m"));
            nominator.update(&old, new.clone());
            assert_eq!(nominator.node_of(&new.uid).map(|node| &**node), expected);
        }
        let mut nominator = Nominator::default();
        nominator.update(&bare(), bare());
        assert!(nominator.is_empty());
    }

    #[test]
    fn update_that_clears_an_earlier_nomination_keeps_the_present_one() {
        let [bare, stated] = [pod("p"), pod("p").nominated("x")].map(|own| Arc::new(own.build()));
        let node_of = |nominator: &Nominator| nominator.node_of(&bare.uid).map(ToString::to_string);
        let mut nominator = Nominator::default();
        nominator.add(stated.clone(), &NominatingInfo::Noop);
        nominator.delete(&stated.uid);
        nominator.add(stated.clone(), &to("x"));
        nominator.update(&stated, bare.clone());
        assert_eq!(node_of(&nominator).as_deref(), Some("x"));
        nominator.update(&bare, stated.clone());
        nominator.update(&stated, bare.clone());
        assert_eq!(node_of(&nominator), None, "the present one is cleared");
    }

    /// The update may reach the pod while it waits or while it is in flight.
    #[test]
    fn other_update_before_the_one_that_clears_an_earlier_nomination_changes_nothing() {
        let [bare, stated] = [pod("p"), pod("p").nominated("x")].map(|own| Arc::new(own.build()));
        let relabelled = Arc::new(pod("p").nominated("x").label("app", "web").build());
        let node_of = |nominator: &Nominator| nominator.node_of(&bare.uid).map(ToString::to_string);
        let ahead = || {
            let mut nominator = Nominator::default();
            nominator.add(stated.clone(), &to("x"));
            nominator
        };
        let mut nominator = ahead();
        nominator.update(&stated, relabelled.clone());
        nominator.add(relabelled.clone(), &to("x"));
        nominator.update(&relabelled, bare.clone());
        assert_eq!(node_of(&nominator).as_deref(), Some("x"));
        let mut nominator = ahead();
        nominator.refresh(&bare);
        nominator.update(&bare, stated.clone());
        nominator.update(&stated, bare.clone());
        assert_eq!(node_of(&nominator), None, "the present one is cleared");
    }

    #[test]
    fn refresh_keeps_node_and_order() {
        let mut nominator = Nominator::default();
        let [a, b] = ["a", "b"].map(|name| Arc::new(pod(name).build()));
        nominator.add(a, &to("n"));
        nominator.add(b, &to("n"));
        let newer = Arc::new(pod("a").label("app", "web").nominated("x").build());
        nominator.refresh(&newer);
        nominator.refresh(&Arc::new(pod("stranger").build()));
        assert_eq!(nominator.nominated_to("n")[0], newer);
        assert_eq!(names(&nominator, "n"), ["a", "b"]);
    }
}
