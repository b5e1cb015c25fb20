//! Kubelet admission: the checks before a pod starts.

use framework::{Node, Pod, Resources, TaintEffect, find_untolerated, is_extended_resource_name};

/// Why a kubelet rejects a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejection {
    /// `status.reason`, for example `OutOfcpu`.
    pub(super) reason: String,
    /// The text of `status.message` after `Pod was rejected: `.
    pub(super) message: String,
}

impl Rejection {
    fn predicate(name: &str, why: &str) -> Self {
        let message = format!("Predicate {name} failed: {why}");
        Self { reason: name.to_owned(), message }
    }
}

/// Admits `pod` to `node` beside the pods that run there.
///
/// # Errors
/// The first check that fails, in the order of the kubelet: resources, node affinity, node name,
/// host ports, NoExecute taints.
pub(super) fn admit<'a>(
    pod: &Pod,
    node: &Node,
    others: impl Iterator<Item = &'a Pod> + Clone,
) -> Result<(), Rejection> {
    fits(pod, node, others.clone())?;
    if !pod.spec.required_node_affinity.matches(node).unwrap_or(false) {
        let why = "node(s) didn't match Pod's node affinity/selector";
        return Err(Rejection::predicate("NodeAffinity", why));
    }
    if pod.node_name.as_ref() != Some(&node.name) {
        let why = "node(s) didn't match the requested node name";
        return Err(Rejection::predicate("NodeName", why));
    }
    let mut used = others.flat_map(|other| &other.spec.host_ports);
    if used.any(|used| pod.spec.host_ports.iter().any(|wanted| wanted.conflicts_with(used))) {
        let why = "node(s) didn't have free ports for the requested pod ports";
        return Err(Rejection::predicate("NodePorts", why));
    }
    let evicts = |taint: &framework::Taint| taint.effect == TaintEffect::NoExecute;
    if find_untolerated(&node.taints, &pod.spec.tolerations, evicts).is_some() {
        let why = "node(s) had taints that the pod didn't tolerate";
        return Err(Rejection::predicate("TaintToleration", why));
    }
    Ok(())
}

/// Checks the number of pods, then cpu, memory and ephemeral storage, then other resources by name.
fn fits<'a>(
    pod: &Pod,
    node: &Node,
    others: impl Iterator<Item = &'a Pod> + Clone,
) -> Result<(), Rejection> {
    let mut used = Resources::default();
    for other in others.clone() {
        used.add(&other.requests.placed);
    }
    let pods = i64::try_from(others.count()).unwrap_or(i64::MAX);
    let (wanted, room) = (&pod.requests.fit, &node.allocatable);
    has_room("pods", 1, pods, node.allowed_pods)?;
    has_room("cpu", wanted.milli_cpu, used.milli_cpu, room.milli_cpu)?;
    has_room("memory", wanted.memory, used.memory, room.memory)?;
    let storage = (wanted.ephemeral_storage, used.ephemeral_storage, room.ephemeral_storage);
    has_room("ephemeral-storage", storage.0, storage.1, storage.2)?;
    for (name, amount) in &wanted.scalars {
        // The kubelet ignores extended resources that no device plugin of the node offers.
        let unknown = !room.scalars.iter().any(|(own, _)| own == name);
        if !(unknown && is_extended_resource_name(name)) {
            has_room(name, *amount, used.scalar(name), room.scalar(name))?;
        }
    }
    Ok(())
}

/// Compares amounts: cpu in thousandths, other resources in units.
fn has_room(resource: &str, requested: i64, used: i64, capacity: i64) -> Result<(), Rejection> {
    if requested <= 0 || requested <= capacity.saturating_sub(used) {
        return Ok(());
    }
    Err(Rejection {
        reason: format!("OutOf{resource}"),
        message: format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, \
             capacity: {capacity}"
        ),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testkit::{node, pod};

    use super::*;

    #[test]
    fn rejections_have_the_texts_of_the_kubelet() {
        let node = node("n")
            .allocatable("cpu", "1")
            .allocatable("memory", "1Gi")
            .allocatable("pods", "2")
            .allocatable("example.com/gpu", "1")
            .label("disk", "ssd")
            .taint("gone", "", "NoExecute")
            .build();
        let other = pod("other").cpu("800m").host_port(80).request("example.com/gpu", "1").build();
        let tolerant = |name: &str| pod(name).on("n").toleration("gone", "Exists", "", "");
        let table = [
            (tolerant("fits").cpu("200m"), None),
            (
                tolerant("cpu").cpu("500m"),
                Some((
                    "OutOfcpu",
                    "Node didn't have enough resource: cpu, requested: 500, used: 800, capacity: \
                     1000",
                )),
            ),
            (
                tolerant("memory").memory("2Gi"),
                Some((
                    "OutOfmemory",
                    "Node didn't have enough resource: memory, requested: 2147483648, used: 0, \
                     capacity: 1073741824",
                )),
            ),
            (
                tolerant("gpu").request("example.com/gpu", "1"),
                Some((
                    "OutOfexample.com/gpu",
                    "Node didn't have enough resource: example.com/gpu, requested: 1, used: 1, \
                     capacity: 1",
                )),
            ),
            (tolerant("unknown device").request("example.com/fpga", "1"), None),
            (
                tolerant("selector").node_selector("disk", "hdd"),
                Some((
                    "NodeAffinity",
                    "Predicate NodeAffinity failed: node(s) didn't match Pod's node \
                     affinity/selector",
                )),
            ),
            (
                tolerant("port").host_port(80),
                Some((
                    "NodePorts",
                    "Predicate NodePorts failed: node(s) didn't have free ports for the requested \
                     pod ports",
                )),
            ),
            (
                pod("taint").on("n"),
                Some((
                    "TaintToleration",
                    "Predicate TaintToleration failed: node(s) had taints that the pod didn't \
                     tolerate",
                )),
            ),
        ];
        for (pod, expected) in table {
            let pod = pod.build();
            let rejection = admit(&pod, &node, std::iter::once(&other)).err();
            let found = rejection.as_ref().map(|own| (own.reason.as_str(), own.message.as_str()));
            assert_eq!(found, expected, "{}", pod.key.name);
        }
    }

    #[test]
    fn node_admits_its_number_of_pods() {
        let node = node("n").allocatable("pods", "1").build();
        let (one, two) = (pod("one").on("n").build(), pod("two").on("n").build());
        assert_eq!(admit(&one, &node, std::iter::empty()), Ok(()));
        let rejection = admit(&two, &node, std::iter::once(&one)).unwrap_err();
        assert_eq!(rejection.reason, "OutOfpods");
    }

    proptest! {
        #[test]
        fn no_order_of_arrivals_makes_a_kubelet_admit_more_than_there_is(
            cpu in 0..4000_u32,
            requests in proptest::collection::vec((0..2000_u32, 0..3000_u32), 0..30),
        ) {
            let node = node("n")
                .allocatable("cpu", &format!("{cpu}m"))
                .allocatable("memory", "4Ki")
                .allocatable("pods", "5")
                .build();
            let mut admitted: Vec<Pod> = Vec::new();
            for (index, (cpu, memory)) in requests.iter().enumerate() {
                let pod = pod(&format!("p{index}"))
                    .on("n")
                    .cpu(&format!("{cpu}m"))
                    .memory(&memory.to_string())
                    .build();
                if admit(&pod, &node, admitted.iter()).is_ok() {
                    admitted.push(pod);
                }
            }
            let mut used = Resources::default();
            for pod in &admitted {
                used.add(&pod.requests.placed);
            }
            prop_assert!(used.milli_cpu <= node.allocatable.milli_cpu);
            prop_assert!(used.memory <= node.allocatable.memory);
            prop_assert!(admitted.len() <= 5);
        }
    }
}
