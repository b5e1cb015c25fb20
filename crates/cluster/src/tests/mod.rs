mod histories;
mod storage;
mod tentative;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::testing::{PodBuilder, node, pod};

/// A change of a cluster. There are few names, so changes collide.
#[derive(Debug, Clone)]
enum Step {
    SetNode { name: u8, zone: u8, taint: bool, cordoned: bool, image: u8, gpus: u8 },
    RemoveNode(u8),
    Place { node: u8, cpu: u16, gpus: u8, port: bool },
    UpdatePod { pick: usize, cpu: u16, gpus: u8, port: bool },
    RemovePod(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..6_u8, 0..3_u8, any::<bool>(), any::<bool>(), 0..3_u8, 0..3_u8).prop_map(
            |(name, zone, taint, cordoned, image, gpus)| Step::SetNode {
                name, zone, taint, cordoned, image, gpus
            }
        ),
        1 => (0..6_u8).prop_map(Step::RemoveNode),
        4 => (0..6_u8, 0..5000_u16, 0..3_u8, any::<bool>())
            .prop_map(|(node, cpu, gpus, port)| Step::Place { node, cpu, gpus, port }),
        3 => (any::<usize>(), 0..3_u16, 0..3_u8, any::<bool>())
            .prop_map(|(pick, cpu, gpus, port)| Step::UpdatePod { pick, cpu, gpus, port }),
        2 => any::<usize>().prop_map(Step::RemovePod),
    ];
    prop::collection::vec(step, 0..60)
}

fn a_node(name: u8, zone: u8, taint: bool, cordoned: bool, image: u8, gpus: u8) -> Node {
    let mut builder = node(&format!("n{name}"))
        .zone(&format!("z{zone}"))
        .image(&format!("image-{image}"), 1000)
        .allocatable("example.com/gpu", &gpus.to_string());
    if taint {
        builder = builder.taint("dedicated", &format!("z{zone}"), "NoSchedule");
    }
    if cordoned {
        builder = builder.unschedulable();
    }
    builder.build()
}

fn a_pod(number: usize, cpu: u16, gpus: u8, port: bool) -> Pod {
    let mut builder = pod(&format!("p{number}")).cpu(&format!("{cpu}m"));
    if gpus > 0 {
        builder = builder.request("example.com/gpu", &gpus.to_string());
    }
    if port {
        builder = builder.host_port(80);
    }
    builder.build()
}

/// Returns everything that can be read of a cluster, by name.
fn snapshot(cluster: &Cluster) -> BTreeMap<String, String> {
    let wanted = pod("w").host_port(80).build().spec.host_ports[0].clone();
    let names = |posting: Option<&Posting>| {
        let nodes = posting.into_iter().flat_map(Posting::iter);
        let mut names: Vec<_> = nodes.map(|ix| cluster.node_name(ix).to_string()).collect();
        names.sort();
        names
    };
    let mut snapshot = BTreeMap::new();
    for ix in cluster.nodes().iter() {
        let view = cluster.node(ix);
        let text = format!(
            "{:?} {:?} {:?} {:?} {} {:?} {:?}",
            cluster.to_node(ix),
            view.requested(),
            view.non_zero_requested(),
            view.scalar("example.com/gpu"),
            view.pod_count(),
            view.has_port_conflict(&wanted),
            view.labels(),
        );
        snapshot.insert(view.name().to_string(), text);
    }
    for zone in ["z0", "z1", "z2"] {
        let posting = cluster.with_label("topology.kubernetes.io/zone", zone);
        snapshot.insert(format!("zone {zone}"), format!("{:?}", names(posting)));
    }
    for image in ["image-0", "image-1", "image-2"] {
        let posting = cluster.image(image).map(|image| &image.nodes);
        snapshot.insert(image.to_owned(), format!("{:?}", names(posting)));
    }
    for (taint, posting) in cluster.taints() {
        snapshot.insert(format!("taint {}", taint.value), format!("{:?}", names(Some(posting))));
    }
    snapshot.insert("cordoned".to_owned(), cluster.unschedulable().count().to_string());
    snapshot
        .insert("counts".to_owned(), format!("{} {}", cluster.node_count(), cluster.pod_count()));
    snapshot
}

proptest! {
    /// After any history the cluster equals a new cluster built from the remaining objects.
    #[test]
    fn cluster_depends_only_on_the_remaining_objects(steps in steps()) {
        let mut cluster = Cluster::default();
        let mut nodes = BTreeMap::new();
        let mut pods: Vec<(PodIx, Arc<Pod>, String)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::SetNode { name, zone, taint, cordoned, image, gpus } => {
                    let node = a_node(name, zone, taint, cordoned, image, gpus);
                    cluster.set_node(&node);
                    nodes.insert(node.name.clone(), node);
                }
                Step::RemoveNode(name) => {
                    let name = format!("n{name}");
                    prop_assert_eq!(cluster.remove_node(&name), nodes.remove(&*name).is_some());
                }
                Step::Place { node, cpu, gpus, port } => {
                    let pod = Arc::new(a_pod(number, cpu, gpus, port));
                    let node = format!("n{node}");
                    pods.push((cluster.place_pod(pod.clone(), &node), pod, node));
                }
                Step::UpdatePod { pick, cpu, gpus, port } if !pods.is_empty() => {
                    let pick = pick % pods.len();
                    let (ix, pod, _) = &mut pods[pick];
                    let shape = a_pod(0, cpu, gpus, port);
                    let new = Pod { requests: shape.requests, spec: shape.spec, ..(**pod).clone() };
                    let counts = new != **pod;
                    *pod = Arc::new(new);
                    prop_assert_eq!(cluster.update_pod(*ix, pod.clone()), counts);
                }
                Step::RemovePod(pick) if !pods.is_empty() => {
                    let (ix, pod, _) = pods.swap_remove(pick % pods.len());
                    prop_assert_eq!(&cluster.remove_pod(ix).pod, &pod);
                }
                Step::UpdatePod { .. } | Step::RemovePod(_) => {}
            }
        }
        let mut fresh = Cluster::default();
        for node in nodes.values() {
            fresh.set_node(node);
        }
        for (_, pod, node) in &pods {
            fresh.place_pod(pod.clone(), node);
        }
        prop_assert_eq!(snapshot(&cluster), snapshot(&fresh));
    }
}

#[test]
fn pods_of_a_ghost_count_once_the_node_is_added() {
    let mut cluster = Cluster::default();
    cluster.place_pod(Arc::new(pod("early").cpu("2").build()), "n1");
    assert_eq!((cluster.node_count(), cluster.node_named("n1")), (0, None));
    let (ix, _) = cluster.set_node(&node("n1").build());
    assert_eq!(cluster.node(ix).requested().milli_cpu, 2000);
    assert!(cluster.remove_node("n1") && !cluster.remove_node("n1"));
    let (ix, _) = cluster.set_node(&node("n1").build());
    assert_eq!(cluster.node(ix).pod_count(), 1);
}

#[test]
fn row_of_a_ghost_is_reused() {
    let mut cluster = Cluster::default();
    for number in 0..100 {
        let placed = cluster.place_pod(Arc::new(pod("p").build()), &format!("n{number}"));
        cluster.remove_pod(placed);
    }
    assert_eq!((cluster.table_len(), cluster.pod_count()), (1, 0));
}

#[test]
fn port_is_free_after_its_last_user_is_removed() {
    let mut cluster = Cluster::default();
    let (ix, _) = cluster.set_node(&node("n1").build());
    let user = |name| Arc::new(pod(name).host_port(80).build());
    let first = cluster.place_pod(user("a"), "n1");
    let second = cluster.place_pod(user("b"), "n1");
    let wanted = &user("c").spec.host_ports[0];
    cluster.remove_pod(first);
    assert!(cluster.node(ix).has_port_conflict(wanted));
    cluster.remove_pod(second);
    assert!(!cluster.node(ix).has_port_conflict(wanted));
}

#[test]
fn requests_are_exact_after_an_overflow() {
    let mut cluster = Cluster::default();
    let (ix, _) = cluster.set_node(&node("n1").build());
    let huge = |name| Arc::new(pod(name).memory("8Ei").cpu("1").build());
    let (first, second) = (cluster.place_pod(huge("a"), "n1"), cluster.place_pod(huge("b"), "n1"));
    cluster.place_pod(Arc::new(pod("small").memory("1Gi").build()), "n1");
    assert_eq!(cluster.node(ix).requested().memory, i64::MAX);
    cluster.remove_pod(first);
    cluster.remove_pod(second);
    assert_eq!(cluster.node(ix).requested().memory, 1 << 30);
    assert_eq!(cluster.node(ix).requested().milli_cpu, 0);
}

#[test]
fn overlay_changes_the_view_but_not_the_cluster() {
    let mut cluster = Cluster::default();
    let (ix, _) = cluster.set_node(&node("n1").build());
    let there = cluster.place_pod(Arc::new(pod("there").cpu("1").host_port(80).build()), "n1");
    let mut overlay = Overlay::default();
    overlay.add(Arc::new(pod("new").cpu("3").request("example.com/gpu", "2").build()));
    overlay.remove(&cluster, there);
    let view = cluster.node(ix).with(&overlay);
    let wanted = pod("w").host_port(80).build().spec.host_ports[0].clone();
    assert_eq!((view.requested().milli_cpu, view.pod_count()), (3000, 1));
    assert_eq!(view.scalar("example.com/gpu").requested, 2);
    assert!(view.generation().is_none() && cluster.node(ix).generation().is_some());
    assert!(!view.has_port_conflict(&wanted) && cluster.node(ix).has_port_conflict(&wanted));
    assert!(view.pods().map(|pod| &*pod.key.name).eq(["new"]));
    assert_eq!(cluster.node(ix).requested().milli_cpu, 1000);
}

#[test]
fn update_of_uncounted_fields_replaces_only_the_object() {
    let mut cluster = Cluster::default();
    let (ix, _) = cluster.set_node(&node("n1").build());
    let old = || pod("p").cpu("1").label("app", "web");
    let placed = cluster.place_pod(Arc::new(old().build()), "n1");
    let rows: [(PodBuilder, bool); 6] = [
        (old().nominated("n2"), false),
        (old().with(|pod| pod.metadata.resource_version = "7".to_owned()), false),
        (old().cpu("2"), true),
        (old().label("app", "db"), true),
        (old().host_port(80), true),
        (old().with(|pod| pod.metadata.deletion_timestamp = Some(String::new())), true),
    ];
    for (place, (builder, counts)) in rows.into_iter().enumerate() {
        let new = Arc::new(builder.build());
        let before = cluster.node(ix).generation();
        assert_eq!(cluster.update_pod(placed, new.clone()), counts, "row {place}");
        assert_eq!(cluster.node(ix).generation() != before, counts, "row {place}");
        assert_eq!(cluster.pod(placed).pod, new);
        cluster.update_pod(placed, Arc::new(old().build()));
    }
}

#[test]
fn run_is_nodes_that_follow_each_other() {
    let run = |indexes: &[usize]| {
        let nodes: Vec<NodeIx> = indexes.iter().copied().map(NodeIx::new).collect();
        NodeIx::run(&nodes)
    };
    assert_eq!(run(&[7, 8, 9]), Some(7..10));
    assert_eq!(run(&[7]), Some(7..8));
    for others in [&[][..], &[7, 9], &[7, 9, 8, 10], &[8, 7]] {
        assert_eq!(run(others), None, "{others:?}");
    }
}
