//! Changes that are undone, nested in any way, against a copy of the cluster from before them.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::testing::{SetJson, StorageObject, bound_claim, csi_node, volume};
use ::api::{EventResource, LabelSelector, api};

const DRIVER: &str = "disk.example.com";
const APPS: [&str; 3] = ["web", "db", "batch"];

/// What a pod has beside its name.
#[derive(Debug, Clone)]
struct Traits {
    app: usize,
    node: u8,
    cpu: u16,
    /// Its sum over few pods reaches the limit of 64 bits.
    huge: bool,
    gpus: u8,
    port: bool,
    disk: bool,
    claim: bool,
    term: Option<u8>,
    terminating: bool,
}

/// A step inside a savepoint.
#[derive(Debug, Clone)]
enum Step {
    Place(Traits),
    Remove(usize),
    /// A standing query of this app, which stays registered.
    Register(usize),
    /// Steps that are undone before the next step, or kept until the steps around them are undone.
    Nested {
        steps: Vec<Step>,
        kept: bool,
    },
}

#[derive(Debug)]
enum Record {
    Placing(TentativePlacing),
    Removal(TentativeRemoval),
}

fn traits() -> impl Strategy<Value = Traits> {
    let small = (0..3_usize, 0..6_u8, 0..3000_u16, prop::bool::weighted(0.2), 0..3_u8);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(0..3_u8));
    (small, flags, prop::bool::weighted(0.2)).prop_map(
        |((app, node, cpu, huge, gpus), (port, disk, claim, term), terminating)| Traits {
            app,
            node,
            cpu,
            huge,
            gpus,
            port,
            disk,
            claim,
            term,
            terminating,
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let leaf = prop_oneof![
        4 => traits().prop_map(Step::Place),
        4 => any::<usize>().prop_map(Step::Remove),
        1 => (0..3_usize).prop_map(Step::Register),
    ];
    let step = leaf.prop_recursive(3, 40, 6, |inner| {
        (prop::collection::vec(inner, 0..6), any::<bool>())
            .prop_map(|(steps, kept)| Step::Nested { steps, kept })
    });
    prop::collection::vec(step, 0..16)
}

fn term_near(app: &str) -> api::PodAffinityTerm {
    let term = json!({ "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": app } } });
    serde_json::from_value(term).unwrap()
}

fn pod_of(name: &str, traits: &Traits) -> Arc<Pod> {
    let memory = if traits.huge { "8Ei" } else { "1Mi" };
    let mut builder = pod(name).label("app", APPS[traits.app]).memory(memory);
    builder = builder.cpu(&format!("{}m", traits.cpu));
    if traits.gpus > 0 {
        builder = builder.request("example.com/gpu", &traits.gpus.to_string());
    }
    if traits.port {
        builder = builder.host_port(80);
    }
    if traits.disk {
        builder = builder.volume(json!({ "gcePersistentDisk": { "pdName": "d" } }));
    }
    if traits.claim {
        builder = builder.claim("c");
    }
    Arc::new(
        builder
            .with(|pod| {
                if let Some(app) = traits.term {
                    let term = term_near(APPS[usize::from(app)]);
                    let affinity = pod.spec.affinity.get_or_insert_default();
                    affinity.pod_anti_affinity.get_or_insert_default().required.push(term);
                }
                if traits.terminating {
                    pod.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
                }
            })
            .build(),
    )
}

fn query_of(app: usize) -> PodQuery {
    let set = [("app".to_owned(), APPS[app].to_owned())].into();
    PodQuery { namespaces: crate::Namespaces::All, selector: LabelSelector::from_set(&set) }
}

/// A cluster of four nodes, of which one has no CSINode, with these pods. Pods on other nodes are
/// on ghosts.
fn cluster_with(pods: &[Traits]) -> Cluster {
    let mut cluster = Cluster::default();
    for number in 0..4 {
        let name = format!("n{number}");
        cluster.set_node(&node(&name).zone("z").allocatable("example.com/gpu", "8").build());
        if number > 0 {
            csi_node(&name, &[(DRIVER, Some(3))]).put(&mut cluster);
        }
    }
    let objects: [StorageObject; 2] = [
        volume("pv", json!({ "csi": { "driver": DRIVER, "volumeHandle": "h" } })),
        bound_claim("c", "pv"),
    ];
    objects.into_iter().for_each(|object| object.put(&mut cluster));
    let budget = json!({ "spec": { "selector": { "matchLabels": { "app": "web" } } } });
    let kind = EventResource::PodDisruptionBudget;
    cluster.set_json(&kind, "default", "b", Some(Arc::new(budget)));
    cluster.register_query(&query_of(0));
    cluster.count_quotas();
    let quota = json!({ "spec": { "min": { "cpu": "4", "example.com/gpu": 2 } } });
    let kind = EventResource::Custom(::api::ELASTIC_QUOTAS.into());
    cluster.set_json(&kind, "default", "q", Some(Arc::new(quota)));
    for (number, traits) in pods.iter().enumerate() {
        cluster.place_pod(pod_of(&format!("p{number}"), traits), &format!("n{}", traits.node));
    }
    cluster
}

/// Returns all that depends on placed pods, by name, with ids and positions.
fn observed(cluster: &Cluster) -> BTreeMap<String, String> {
    let mut observed = BTreeMap::new();
    let mut note = |name: String, value: String| drop(observed.insert(name, value));
    for placed in cluster.pods() {
        let PlacedPod { pod, node, slot, membership } = placed;
        let set = cluster.label_sets.get(membership.set);
        let queries: BTreeSet<_> = set.queries.iter().collect();
        let budgets: BTreeSet<_> = set.budgets.iter().collect();
        let members = (membership, &set.pods, queries.len(), budgets);
        note(format!("pod {}", pod.uid), format!("{node:?} {slot} {members:?}"));
    }
    for ix in (0..cluster.table_len()).map(NodeIx::new) {
        let view = cluster.node(ix);
        let pods: Vec<_> = view.placed().map(|(pod, _)| pod).collect();
        let gpus = view.scalar("example.com/gpu");
        let sums = (view.requested(), view.non_zero_requested(), view.pod_count(), gpus);
        if !view.name().is_empty() {
            note(format!("node {}", view.name()), format!("{ix:?} {pods:?}"));
            note(format!("generation {}", view.name()), format!("{:?}", view.generation()));
        }
        if sums != Default::default() {
            note(format!("sums {ix:?}"), format!("{sums:?}"));
        }
    }
    for (port, nodes) in &cluster.ports {
        note(format!("port {port:?}"), format!("{:?}", nodes.iter().collect::<Vec<_>>()));
    }
    for (disk, nodes) in &cluster.disks {
        note(format!("disk {disk:?}"), format!("{:?}", nodes.iter().collect::<Vec<_>>()));
    }
    for (name, column) in &cluster.scalars {
        note(format!("scalar {name}"), format!("{:?}", column.iter().collect::<Vec<_>>()));
    }
    for (number, app) in APPS.iter().enumerate() {
        let query = query_of(number);
        let counts: Vec<_> = cluster.matching_pods(&query).iter().collect();
        let sums = cluster.requested_by(&query);
        let sets: BTreeSet<_> = cluster.label_sets.matched_by(&query).into_iter().collect();
        note(format!("query {app}"), format!("{counts:?} {sums:?} {sets:?}"));
        let probe = pod("w").label("app", app).build();
        let terms = cluster.terms_matching(&probe);
        let carriers: Vec<_> =
            terms.iter().map(|own| own.carriers.iter().collect::<Vec<_>>()).collect();
        note(format!("terms {app}"), format!("{terms:?} {carriers:?}"));
    }
    let users: Vec<_> = cluster.pods_with_claim("default", "c").map(|pod| &pod.uid).collect();
    note("claim".to_owned(), format!("{users:?}"));
    let attached = cluster.attached_counts(DRIVER);
    let attached = (0..cluster.table_len()).map(|ix| (ix, attached.get(NodeIx::new(ix))));
    let attached: Vec<_> = attached.filter(|(_, count)| *count > 0).collect();
    note("attached".to_owned(), format!("{attached:?}"));
    for view in cluster.quotas().quotas() {
        let resources = cluster.quotas().all_resources().map(|resource| {
            let name = cluster.quotas().resource_name(resource);
            (name, view.used(resource), view.demand(resource))
        });
        let used = resources.filter(|(_, used, demand)| (*used, *demand) != (0, 0));
        let used: BTreeSet<_> = used.collect();
        note(format!("quota {}", view.key()), format!("{used:?} {}", view.waiting()));
    }
    note("count".to_owned(), cluster.pod_count().to_string());
    observed
}

/// Carries out the steps. The records of changes that are not undone yet are added to `journal`.
fn carry_out(cluster: &mut Cluster, steps: &[Step], journal: &mut Vec<Record>) {
    for step in steps {
        match step {
            Step::Place(traits) => {
                let pod = pod_of(&format!("q{}", journal.len()), traits);
                let placing = cluster.place_pod_tentatively(pod, &format!("n{}", traits.node));
                journal.push(Record::Placing(placing));
            }
            Step::Remove(pick) => {
                let uids = cluster.pods().map(|placed| placed.pod.uid.clone());
                let mut uids: Vec<_> = uids.collect();
                uids.sort();
                let Some(uid) = uids.get(pick % uids.len().max(1)) else { continue };
                let ix = ix_of(cluster, uid);
                journal.push(Record::Removal(cluster.remove_pod_tentatively(ix)));
            }
            Step::Register(app) => cluster.register_query(&query_of(*app)),
            Step::Nested { steps, kept } => {
                let start = journal.len();
                carry_out(cluster, steps, journal);
                if !kept {
                    undo(cluster, journal, start);
                }
            }
        }
    }
}

fn ix_of(cluster: &Cluster, uid: &::api::Uid) -> PodIx {
    let rows = (0..cluster.table_len()).map(|ix| cluster.node(NodeIx::new(ix)));
    let mut placed = rows.flat_map(|view| view.placed().collect::<Vec<_>>());
    placed.find(|(_, pod)| pod.uid == *uid).unwrap().0
}

fn undo(cluster: &mut Cluster, journal: &mut Vec<Record>, start: usize) {
    for record in journal.drain(start..).rev() {
        match record {
            Record::Placing(placing) => cluster.undo_placing(placing),
            Record::Removal(removal) => drop(cluster.undo_removing(removal).pod.clone()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What is undone leaves no trace: the cluster reads as before, and later changes get the same
    /// ids.
    #[test]
    fn undone_changes_leave_no_trace(
        pods in prop::collection::vec(traits(), 0..12),
        tried in steps(),
        later in steps(),
    ) {
        let mut cluster = cluster_with(&pods);
        let mut untouched = cluster.clone();
        let mut journal = Vec::new();
        carry_out(&mut cluster, &tried, &mut journal);
        undo(&mut cluster, &mut journal, 0);
        // Standing queries stay.
        (0..3).for_each(|app| untouched.register_query(&query_of(app)));
        (0..3).for_each(|app| cluster.register_query(&query_of(app)));
        prop_assert_eq!(observed(&cluster), observed(&untouched));
        for cluster in [&mut cluster, &mut untouched] {
            // New changes have generations that no change had.
            cluster.last_generation = 1 << 32;
            carry_out(cluster, &later, &mut Vec::new());
        }
        prop_assert_eq!(observed(&cluster), observed(&untouched));
    }

    /// Kept changes are those of the plain methods.
    #[test]
    fn kept_changes_are_plain_changes(pods in prop::collection::vec(traits(), 0..12)) {
        let plain = cluster_with(&pods);
        let mut tentative = cluster_with(&[]);
        for (number, traits) in pods.iter().enumerate() {
            let pod = pod_of(&format!("p{number}"), traits);
            let _ = tentative.place_pod_tentatively(pod, &format!("n{}", traits.node));
        }
        prop_assert_eq!(observed(&tentative), observed(&plain));
    }
}

#[test]
fn undone_change_of_a_node_does_not_free_its_generation() {
    let mut cluster = cluster_with(&[]);
    let node = cluster.node_named("n1").unwrap();
    let before = cluster.node(node).generation();
    let tried = cluster.place_pod_tentatively(Arc::new(pod("p").build()), "n1");
    let within = cluster.node(node).generation();
    cluster.undo_placing(tried);
    assert_eq!(cluster.node(node).generation(), before);
    cluster.place_pod(Arc::new(pod("q").build()), "n1");
    assert!(cluster.node(node).generation() > within && within > before);
}
