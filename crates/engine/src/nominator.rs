//! Nominations: room on a node that is kept for a pending pod.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use foldhash::HashMap;
use framework::{NominatedPods, NominatingInfo, Pod, PodKey, Uid};

use crate::effect::EffectId;

/// Maximum number of requested writes of one pod that the nominator remembers.
const MOST_UNSEEN: usize = 8;
/// Number of changes that are kept. A reader that is further behind looks at every node.
const MOST_CHANGES: usize = 16_384;

/// The pods that are nominated to each node.
///
/// The nominator keeps the pods themselves, queued or in flight. This is a deliberate difference:
/// kube-scheduler looks them up in its queue, and counts a nominated pod in flight as a pod without
/// requests and priority, so that another pod may take its room.
///
/// It also remembers which writes of a nomination were requested and not shown by the watch yet.
/// Until the watch has shown the last one, the status of the pod is outdated and does not change
/// the nomination. kube-scheduler follows each update, so that a nomination that was cleared comes
/// back, or a new one is lost, while its watch lags.
///
/// A write is recognised by the version that the API server gave the pod, once its answer is known,
/// and before that by its node. The watch need not show each write: several go out as one, or
/// change nothing.
#[derive(Debug, Default)]
pub struct Nominator {
    /// Never iterated.
    entries: HashMap<Uid, Entry>,
    /// By node, in the order of nomination.
    by_node: BTreeMap<Arc<str>, BTreeMap<u64, Arc<Pod>>>,
    /// Counts nominations.
    nominations: u64,
    /// The nodes of the latest changes of nominations and of nominated pods.
    changes: VecDeque<Arc<str>>,
    /// Number of changes that were dropped.
    dropped: u64,
    /// The pods with requested writes that the watch has not shown. Never iterated.
    unseen: HashMap<Uid, Unseen>,
    /// The pods of the writes without an answer. Never iterated.
    unanswered: HashMap<EffectId, (PodKey, Uid)>,
}

#[derive(Debug)]
struct Entry {
    node: Arc<str>,
    nomination: u64,
}

/// A nomination that was taken away for a while.
#[derive(Debug)]
pub(crate) struct Nomination {
    pod: Arc<Pod>,
    node: Arc<str>,
    nomination: u64,
}

/// Writes of `status.nominatedNodeName` that were requested, and that the watch has not shown.
#[derive(Debug)]
struct Unseen {
    /// The name that the watch shows.
    shown: Arc<str>,
    /// The writes in the order of the requests. Only the first one may have an answer.
    writes: VecDeque<Write>,
}

/// A requested write.
#[derive(Debug)]
struct Write {
    /// The node, or an empty name to clear the nomination.
    node: Arc<str>,
    effect: Option<EffectId>,
    /// The version of the pod after the write; `None` while it is not known.
    version: Option<u64>,
}

impl Nominator {
    /// Nominates a pod to the node of an [`Override`](NominatingInfo::Override), otherwise to the
    /// node that its status names once all writes are carried out. An empty name means no node.
    /// Replaces any earlier nomination.
    ///
    /// The caller ensures that the pod exists and is not bound.
    pub fn add(&mut self, pod: Arc<Pod>, info: &NominatingInfo) {
        self.delete(&pod.uid);
        let node = match info {
            NominatingInfo::Override(node) => Some(node),
            NominatingInfo::Noop => self.written(&pod),
        };
        let Some(node) = node.filter(|node| !node.is_empty()).cloned() else { return };
        let nomination = self.nominations;
        self.nominations += 1;
        self.note_change(node.clone());
        self.entries.insert(pod.uid.clone(), Entry { node: node.clone(), nomination });
        self.by_node.entry(node).or_default().insert(nomination, pod);
    }

    /// Removes the nomination of a pod, if there is one.
    pub fn delete(&mut self, uid: &Uid) {
        self.take(uid);
    }

    /// Removes the nomination of a pod, and returns what [restores](Self::restore) it.
    pub(crate) fn take(&mut self, uid: &Uid) -> Option<Nomination> {
        let Entry { node, nomination } = self.entries.remove(uid)?;
        let pods = self.by_node.get_mut(&node).expect("an entry is listed under its node");
        let pod = pods.remove(&nomination).expect("an entry is listed under its node");
        if pods.is_empty() {
            self.by_node.remove(&node);
        }
        self.note_change(node.clone());
        Some(Nomination { pod, node, nomination })
    }

    /// Restores a nomination at its place among the nominations of the node. The pod must have no
    /// other nomination.
    pub(crate) fn restore(&mut self, Nomination { pod, node, nomination }: Nomination) {
        self.note_change(node.clone());
        self.entries.insert(pod.uid.clone(), Entry { node: node.clone(), nomination });
        self.by_node.entry(node).or_default().insert(nomination, pod);
    }

    /// Forgets a pod that is not pending any more.
    pub fn forget(&mut self, uid: &Uid) {
        self.delete(uid);
        let unseen = self.unseen.remove(uid);
        self.drop_effects(unseen.into_iter().flat_map(|unseen| unseen.writes));
    }

    fn drop_effects(&mut self, writes: impl IntoIterator<Item = Write>) {
        for effect in writes.into_iter().filter_map(|write| write.effect) {
            self.unanswered.remove(&effect);
        }
    }

    /// Returns the node that the status of a pod names once all requested writes are carried out.
    pub fn written<'a>(&'a self, pod: &'a Pod) -> Option<&'a Arc<str>> {
        let last = self.unseen.get(&pod.uid).and_then(|unseen| unseen.writes.back());
        match last {
            Some(last) => Some(&last.node).filter(|node| !node.is_empty()),
            None => pod.nominated_node_name(),
        }
    }

    /// Returns the node to write into the status of a pod, or an empty name to clear it: the watch
    /// shows another one, or another one was requested. A write that the watch does not show is
    /// repeated, since it may have failed.
    pub fn to_write(&self, pod: &Pod, info: &NominatingInfo) -> Option<Arc<str>> {
        let NominatingInfo::Override(node) = info else { return None };
        let names = |known: Option<&Arc<str>>| known.map_or("", |known| known) == &**node;
        (!names(self.written(pod)) || !names(pod.nominated_node_name())).then(|| node.clone())
    }

    /// Notes the request to write a node into the status of a pod, or an empty name
    /// to clear it. The effect is the request, if its answer follows.
    pub fn write(&mut self, pod: &Pod, node: Arc<str>, effect: Option<EffectId>) {
        if self.written(pod).map_or("", |written| written) == &*node {
            return;
        }
        let unseen = self
            .unseen
            .entry(pod.uid.clone())
            .or_insert_with(|| Unseen { shown: shown(pod), writes: VecDeque::new() });
        let is_full = unseen.writes.len() == MOST_UNSEEN;
        let dropped = is_full.then(|| unseen.writes.pop_front()).flatten();
        unseen.writes.push_back(Write { node, effect, version: None });
        self.drop_effects(dropped);
        if let Some(effect) = effect {
            self.unanswered.insert(effect, (pod.key.clone(), pod.uid.clone()));
        }
    }

    /// Notes the version of the pod in the answer to a write. The writes before it were carried
    /// out earlier, or as one with it. Returns the pod; `None` if the watch has shown the write, or
    /// the effect is another write.
    pub fn written_as(&mut self, effect: EffectId, version: u64) -> Option<(PodKey, Uid)> {
        let (pod, uid) = self.unanswered.remove(&effect)?;
        let writes = &mut self.unseen.get_mut(&uid)?.writes;
        let place = writes.iter().position(|write| write.effect == Some(effect))?;
        writes[place].version = Some(version);
        let earlier: Vec<Write> = writes.drain(..place).collect();
        self.drop_effects(earlier);
        Some((pod, uid))
    }

    /// Notes the version of a pod that the watch shows. A write with an answer is shown by its
    /// version and all later ones. The name may be one of the other writes. An unknown name was
    /// written by others, after the requested ones.
    pub fn see(&mut self, pod: &Pod) {
        let Some(unseen) = self.unseen.get_mut(&pod.uid) else { return };
        let (name, version) = (shown(pod), pod.resource_version);
        let answered = unseen.writes.front().and_then(|write| write.version);
        if answered.is_some_and(|answered| version < answered) {
            unseen.shown = name;
            return;
        }
        if answered.is_some()
            && let Some(write) = unseen.writes.pop_front()
        {
            unseen.shown = write.node;
        }
        let own = unseen.writes.iter().position(|write| write.node == name);
        let seen = match own {
            _ if name == unseen.shown => 0,
            Some(place) => place + 1,
            None => unseen.writes.len(),
        };
        unseen.shown = name;
        let seen: Vec<Write> = unseen.writes.drain(..seen).collect();
        if unseen.writes.is_empty() {
            self.unseen.remove(&pod.uid);
        }
        self.drop_effects(seen);
    }

    /// Whether the watch has shown all requested writes of a pod.
    pub fn has_seen_all(&self, pod: &Uid) -> bool {
        !self.unseen.contains_key(pod)
    }

    /// Handles an update of a pod that the nominator [has seen](Self::see). The new status decides,
    /// unless it is outdated, or names no node like the old one: then the nomination is not written
    /// yet.
    pub fn update(&mut self, old: &Pod, new: Arc<Pod>) {
        let is_outdated = !self.has_seen_all(&new.uid);
        let node = self.entries.get(&old.uid).map(|entry| entry.node.clone());
        let unnamed = |pod: &Pod| pod.nominated_node_name().is_none();
        let info = match node {
            Some(node) if is_outdated || unnamed(old) && unnamed(&new) => {
                NominatingInfo::Override(node)
            }
            None if is_outdated => NominatingInfo::Override("".into()),
            _ => NominatingInfo::Noop,
        };
        if old.uid != new.uid {
            self.forget(&old.uid);
        }
        self.add(new, &info);
    }

    /// Replaces the object of a nominated pod, but keeps its node and its order.
    pub fn refresh(&mut self, pod: &Arc<Pod>) {
        let Some(Entry { node, nomination }) = self.entries.get(&pod.uid) else { return };
        let listed = self.by_node.get_mut(node).and_then(|pods| pods.get_mut(nomination));
        *listed.expect("an entry is listed under its node") = pod.clone();
        let node = node.clone();
        self.note_change(node);
    }

    fn note_change(&mut self, node: Arc<str>) {
        if self.changes.len() == MOST_CHANGES {
            self.changes.pop_front();
            self.dropped += 1;
        }
        self.changes.push_back(node);
    }

    /// Returns the number of changes of nominations and of nominated pods so far. One that is
    /// undone counts twice.
    pub(crate) fn revision(&self) -> u64 {
        self.dropped + self.changes.len() as u64
    }

    /// Returns the nodes of the changes since this revision, with repetitions, or `None` if some of
    /// the changes were dropped.
    pub(crate) fn changed_since(&self, revision: u64) -> Option<impl Iterator<Item = &str>> {
        let start = usize::try_from(revision.checked_sub(self.dropped)?).ok()?;
        (start <= self.changes.len()).then(|| self.changes.range(start..).map(|node| &**node))
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

/// The node that the status of a pod names, or an empty name.
fn shown(pod: &Pod) -> Arc<str> {
    pod.nominated_node_name().cloned().unwrap_or_default()
}

/// Returns the pod with this node in its status, if that names none.
pub(crate) fn nominated_to(mut pod: Arc<Pod>, node: Arc<str>) -> Arc<Pod> {
    if pod.nominated_node_name().is_none() {
        Arc::make_mut(&mut pod).set_nominated_node_name(Some(node));
    }
    pod
}

#[cfg(test)]
mod tests {
    use testkit::pod;

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
    fn changes_name_the_nodes_of_nominations() {
        let mut nominator = Nominator::default();
        let p = Arc::new(pod("p").build());
        let changed = |nominator: &Nominator, revision: u64| -> Vec<String> {
            nominator.changed_since(revision).unwrap().map(ToOwned::to_owned).collect()
        };
        let start = nominator.revision();
        nominator.add(p.clone(), &to("a"));
        assert_eq!(changed(&nominator, start), ["a"]);
        let after_first = nominator.revision();
        nominator.add(p.clone(), &to("b"));
        nominator.refresh(&p);
        assert_eq!(changed(&nominator, after_first), ["a", "b", "b"]);
        let taken = nominator.take(&p.uid).unwrap();
        let without = nominator.revision();
        nominator.restore(taken);
        assert_eq!(changed(&nominator, without), ["b"]);
        let end = nominator.revision();
        nominator.delete(&pod("another").build().uid);
        assert_eq!((changed(&nominator, end).len(), nominator.revision()), (0, end));
        for _ in 0..=MOST_CHANGES {
            nominator.refresh(&p);
        }
        assert!(nominator.changed_since(end).is_none());
        assert_eq!(changed(&nominator, end + 1).len(), MOST_CHANGES);
        assert!(nominator.changed_since(nominator.revision() + 1).is_none());
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

    /// Shows versions of a pod whose status names these nodes, after the first one. Returns the
    /// node that the pod is nominated to after each.
    fn show<const N: usize>(
        nominator: &mut Nominator,
        first: &str,
        versions: [&str; N],
    ) -> [Option<String>; N] {
        let mut old = version(first);
        versions.map(|node| {
            let new = version(node);
            nominator.see(&new);
            nominator.update(&old, new.clone());
            old = new.clone();
            nominator.node_of(&new.uid).map(ToString::to_string)
        })
    }

    fn own(node: &str) -> Option<String> {
        Some(node.to_owned())
    }

    fn version(node: &str) -> Arc<Pod> {
        Arc::new(if node.is_empty() { pod("p") } else { pod("p").nominated(node) }.build())
    }

    /// Nominates a pod of which the watch shows this node to another one, or clears its nomination,
    /// and requests the write.
    fn renominate(nominator: &mut Nominator, shown: &str, node: &str) {
        nominator.add(version(shown), &to(node));
        nominator.write(&version(shown), node.into(), None);
    }

    #[test]
    fn nomination_that_was_cleared_does_not_come_back_with_an_older_version() {
        let mut nominator = Nominator::default();
        renominate(&mut nominator, "", "x");
        renominate(&mut nominator, "", "");
        assert_eq!(show(&mut nominator, "", ["", "x", "x", ""]), [const { None }; 4]);
        assert_eq!(show(&mut nominator, "", ["x"]), [own("x")], "others have written it");
    }

    #[test]
    fn nomination_stays_until_the_watch_has_shown_the_last_write() {
        // It was nominated and cleared before; the watch shows the one or the other.
        for (first, versions) in [("x", ["x", "", "x"]), ("", ["x", "", "x"])] {
            let mut nominator = Nominator::default();
            if first.is_empty() {
                renominate(&mut nominator, first, "x");
            }
            renominate(&mut nominator, first, "");
            renominate(&mut nominator, first, "x");
            let nodes = show(&mut nominator, first, versions);
            assert_eq!(nodes, [own("x"), own("x"), own("x")], "after {first:?}");
            assert_eq!(show(&mut nominator, "x", [""]), [None], "the present one is cleared");
            assert!(nominator.unseen.is_empty());
        }
    }

    #[test]
    fn node_that_others_have_written_replaces_the_nomination() {
        let mut nominator = Nominator::default();
        renominate(&mut nominator, "", "x");
        renominate(&mut nominator, "", "y");
        assert_eq!(show(&mut nominator, "", ["", "z", ""]), [own("y"), own("z"), None]);
        assert!(nominator.unseen.is_empty());
    }

    /// Requests the writes of these nodes for a pod without a nomination, as effects 0, 1 and so
    /// on.
    fn request<const N: usize>(nominator: &mut Nominator, nodes: [&str; N]) {
        for (effect, node) in (0..).zip(nodes) {
            nominator.add(version(""), &to(node));
            nominator.write(&version(""), node.into(), Some(EffectId::from_u64(effect)));
        }
    }

    /// Shows a pod in this version, whose status names the node. Returns the node that the pod is
    /// nominated to.
    fn show_version(nominator: &mut Nominator, number: u64, node: &str) -> Option<String> {
        let mut pod = Pod::clone(&version(node));
        pod.resource_version = number;
        nominator.see(&pod);
        nominator.update(&version(""), Arc::new(pod));
        nominator.node_of(&version("").uid).map(ToString::to_string)
    }

    #[test]
    fn node_of_a_write_that_the_watch_never_showed_is_that_of_others_after_the_answer() {
        let mut nominator = Nominator::default();
        request(&mut nominator, ["x", ""]);
        let pod = nominator.written_as(EffectId::from_u64(1), 5);
        assert_eq!(pod.map(|(_, uid)| uid), Some(version("").uid.clone()));
        assert_eq!(show_version(&mut nominator, 4, "x"), None, "it is older than the write");
        assert_eq!(show_version(&mut nominator, 6, "x"), own("x"));
        assert!(nominator.unseen.is_empty() && nominator.unanswered.is_empty());
    }

    #[test]
    fn writes_after_the_answered_one_stay_unseen() {
        let mut nominator = Nominator::default();
        request(&mut nominator, ["x", "", "y"]);
        nominator.written_as(EffectId::from_u64(1), 5);
        assert_eq!(show_version(&mut nominator, 5, ""), own("y"));
        assert_eq!(nominator.written(&version("")).map(|node| &**node), Some("y"));
        assert_eq!(nominator.written_as(EffectId::from_u64(0), 9), None, "it was before the other");
        assert_eq!(show_version(&mut nominator, 7, "y"), own("y"));
        assert!(nominator.unseen.is_empty() && nominator.unanswered.is_empty());
    }

    #[test]
    fn forgotten_pod_leaves_no_effects() {
        let mut nominator = Nominator::default();
        request(&mut nominator, ["x", "y"]);
        nominator.forget(&version("").uid);
        assert_eq!(nominator.written_as(EffectId::from_u64(1), 5), None);
        assert!(nominator.unseen.is_empty() && nominator.unanswered.is_empty());
    }

    #[test]
    fn status_as_written_decides_without_an_override() {
        let mut nominator = Nominator::default();
        let node_of = |nominator: &mut Nominator| {
            nominator.add(version("x"), &NominatingInfo::Noop);
            nominator.node_of(&version("x").uid).map(ToString::to_string)
        };
        for (written, node) in [("x", Some("x")), ("", None), ("y", Some("y"))] {
            nominator.write(&version("x"), written.into(), None);
            assert_eq!(node_of(&mut nominator).as_deref(), node);
            assert_eq!(nominator.written(&version("x")).map(|node| &**node), node);
        }
        nominator.forget(&version("x").uid);
        assert_eq!(node_of(&mut nominator).as_deref(), Some("x"));
    }

    #[test]
    fn nomination_is_written_unless_shown_and_requested_last() {
        let mut nominator = Nominator::default();
        nominator.write(&version("x"), "y".into(), None);
        for node in ["x", "y", ""] {
            assert_eq!(nominator.to_write(&version("x"), &to(node)).as_deref(), Some(node));
        }
        assert_eq!(nominator.to_write(&version("x"), &NominatingInfo::Noop), None);
        assert_eq!(nominator.to_write(&version("y"), &to("y")), None);
        nominator.see(&version("y"));
        assert_eq!(nominator.to_write(&version("y"), &to("y")), None);
        assert_eq!(nominator.to_write(&version(""), &to("")), None, "it is not nominated");
    }

    #[test]
    fn few_writes_are_remembered() {
        let mut nominator = Nominator::default();
        for number in 0..100 {
            renominate(&mut nominator, "", &number.to_string());
        }
        assert_eq!(nominator.unseen[&version("").uid].writes.len(), MOST_UNSEEN);
        assert_eq!(show(&mut nominator, "", ["92", "99"]), [own("99"), own("99")]);
        assert!(nominator.unseen.is_empty());
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
