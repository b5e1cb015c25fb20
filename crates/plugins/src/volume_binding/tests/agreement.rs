//! Checks that both forms agree, for any storage and any assumed changes.

use framework::storage::{MIGRATED_PLUGINS, SELECTED_NODE};
use framework::{Attempt, AttemptMut};
use framework::{Pod, api};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use testkit::{bound_claim, csi_node, handle, pod, storage_class};

use super::*;
use crate::arbitrary::{World, history};
use crate::forms;

const CLASSES: [&str; 3] = ["local", "made", "both"];
const CLAIMS: [&str; 4] = ["c0", "c1", "c2", "c3"];

fn label() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop_oneof![
        3 => (Just("zone"), select(vec!["a", "b", "c"])),
        1 => (Just("disk"), select(vec!["ssd", "hdd"])),
        2 => (Just("kubernetes.io/hostname"), select(vec!["n0", "n1", "n2", "n3", "n64"])),
    ]
}

fn requirement() -> impl Strategy<Value = Value> {
    let values = (label(), label()).prop_map(|((key, value), (_, other))| {
        json!({ "key": key, "operator": "In", "values": [value, other] })
    });
    let key = select(vec!["zone", "disk"]);
    let exists = (key, select(vec!["Exists", "DoesNotExist"]))
        .prop_map(|(key, operator)| json!({ "key": key, "operator": operator }));
    let other = (label(), select(vec!["NotIn", "Odd"])).prop_map(
        |((key, value), operator)| json!({ "key": key, "operator": operator, "values": [value] }),
    );
    prop_oneof![5 => values, 2 => exists, 1 => other]
}

fn affinity() -> impl Strategy<Value = Value> {
    let fields = json!([{ "key": "metadata.name", "operator": "In", "values": ["n1"] }]);
    let term = (prop::collection::vec(requirement(), 0..3), prop::bool::weighted(0.2)).prop_map(
        move |(labels, named)| {
            let fields = if named { fields.clone() } else { json!([]) };
            json!({ "matchExpressions": labels, "matchFields": fields })
        },
    );
    let terms = prop::collection::vec(term, 0..3)
        .prop_map(|terms| json!({ "required": { "nodeSelectorTerms": terms } }));
    prop_oneof![1 => Just(json!(null)), 4 => terms]
}

fn size() -> impl Strategy<Value = &'static str> {
    select(vec!["1Gi", "2Gi", "2Gi", "3Gi"])
}

fn some_volume() -> impl Strategy<Value = Value> {
    let claim = json!({ "namespace": "default", "name": "c0" });
    let claim = prop::option::weighted(0.15, Just(claim));
    let migrated = prop::bool::weighted(0.2);
    (select(CLASSES.to_vec()), size(), affinity(), claim, migrated).prop_map(
        |(class, size, affinity, claim, migrated)| {
            let disk = migrated.then(|| json!({ "volumeID": "vol-1" }));
            json!({
                "storageClassName": class, "capacity": { "storage": size },
                "nodeAffinity": affinity, "claimRef": claim,
                "accessModes": ["ReadWriteOnce"], "awsElasticBlockStore": disk,
            })
        },
    )
}

/// Generates claim number `n`, bound to a volume or unbound.
fn some_claim()
-> impl Strategy<Value = (Option<&'static str>, &'static str, &'static str, Option<&'static str>)> {
    (
        prop::option::weighted(0.4, select(vec!["pv-0", "pv-1", "pv-2", "pv-gone"])),
        select(CLASSES.to_vec()),
        size(),
        prop::option::weighted(0.15, select(vec!["n0", "n1", "gone"])),
    )
}

fn capacities() -> impl Strategy<Value = Vec<StorageObject>> {
    let capacity = (select(vec!["made", "both"]), size(), label());
    prop::collection::vec(capacity, 0..4).prop_map(|capacities| {
        let object = |(number, (class, size, (key, value))): (
            usize,
            (&str, &str, (&str, &str)),
        )| {
            let topology = json!({ "matchLabels": { key: value } });
            let fields =
                json!({ "storageClassName": class, "capacity": size, "nodeTopology": topology });
            StorageObject::new(EventResource::CsiStorageCapacity, &format!("s{number}"), fields)
        };
        capacities.into_iter().enumerate().map(object).collect()
    })
}

fn storage() -> impl Strategy<Value = Vec<StorageObject>> {
    let volumes = prop::collection::vec(some_volume(), 0..12).prop_map(|specs| {
        let specs = specs.into_iter().enumerate();
        specs.map(|(number, spec)| volume(&format!("pv-{number}"), spec)).collect::<Vec<_>>()
    });
    let claims = prop::collection::vec(some_claim(), CLAIMS.len()).prop_map(|claims| {
        let claim = |(name, (bound, class, size, node)): (&&str, (Option<&str>, &str, &str, _))| {
            let claim = match bound {
                Some(volume) => bound_claim(name, volume),
                None => sized_claim(name, class, size),
            };
            match node {
                Some(node) => claim.annotation(SELECTED_NODE, node),
                None => claim,
            }
        };
        CLAIMS.iter().zip(claims).map(claim).collect::<Vec<_>>()
    });
    let topologies = prop::option::of(label());
    let migrated = subsequence(vec!["n0", "n1", "n2", "n64"], 0..4);
    (volumes, claims, capacities(), topologies, any::<bool>(), migrated).prop_map(
        |(volumes, claims, capacities, topologies, reports, migrated)| {
            let driver = json!({ "spec": { "storageCapacity": reports } });
            let allowed = topologies.map_or(json!([]), |(key, value)| {
                json!([{ "matchLabelExpressions": [{ "key": key, "values": [value] }] }])
            });
            let migrated = migrated.into_iter().map(|node| {
                csi_node(node, &[]).annotation(MIGRATED_PLUGINS, "kubernetes.io/aws-ebs")
            });
            let others = [
                StorageObject::new(EventResource::CsiDriver, DRIVER, driver),
                storage_class("local", "kubernetes.io/no-provisioner", WAIT),
                storage_class("made", DRIVER, WAIT).set("/allowedTopologies", allowed),
                storage_class("both", DRIVER, WAIT),
            ];
            let objects = volumes.into_iter().chain(claims).chain(capacities);
            objects.chain(migrated).chain(others).collect()
        },
    )
}

fn points(plugin: &Plugin) -> (&dyn PreFilter, &dyn Filter) {
    (&**plugin.pre_filter.as_ref().unwrap(), &**plugin.filter.as_ref().unwrap())
}

/// Reserves the volumes of each claim on the first node that fits.
fn reserve(plugin: &Plugin, world: &World, claims: &[&str]) {
    let pod = claims.iter().fold(pod("other"), |pod, claim| pod.claim(claim)).build();
    let mut state = CycleState::new();
    let (pre_filter, filter) = points(plugin);
    if pre_filter.pre_filter(AttemptMut::new(&mut state, &pod, &handle(&world.cluster))).is_err() {
        return;
    }
    let fits = |node: &NodeIx| {
        filter
            .filter(
                &Attempt::new(&state, &pod, &handle(&world.cluster)),
                &world.cluster.node(*node),
            )
            .is_success()
    };
    if let Some(node) = world.cluster.nodes().iter().find(fits) {
        let node = world.cluster.node_name(node);
        plugin
            .reserve
            .as_ref()
            .unwrap()
            .reserve(AttemptMut::new(&mut state, &pod, &handle(&world.cluster)), node)
            .ok()
            .unwrap();
    }
}

proptest! {
    #![proptest_config(forms::config())]

    #[test]
    fn filter_forms_agree(
        history in history(),
        storage in storage(),
        claims in prop::collection::vec(select(CLAIMS.to_vec()), 1..5),
        others in subsequence(CLAIMS.to_vec(), 0..3),
        (choice, renewed) in any::<(u64, u64)>(),
    ) {
        let mut world = history.replay();
        storage.into_iter().for_each(|object| object.put(&mut world.cluster));
        world.renew(renewed);
        let plugin = plugin_of(json!({}));
        reserve(&plugin, &world, &others);
        let pod = claims.iter().fold(pod("pod"), |pod, claim| pod.claim(claim)).api();
        let compact = Pod::from_api(&pod);
        let mut state = CycleState::new();
        let (pre_filter, filter) = points(&plugin);
        pre_filter.pre_filter(AttemptMut::new(&mut state, &compact, &handle(&world.cluster))).unwrap();
        let one_node = |node: &api::Node| {
            let node = world.cluster.node_named(&node.metadata.name).unwrap();
            filter.filter(&Attempt::new(&state, &compact, &handle(&world.cluster)), &world.cluster.node(node))
        };
        forms::check_filter(&plugin, &world, &pod, choice, one_node);
    }
}
