use framework::Attempt;
use framework::storage::{MIGRATED_PLUGINS, SELECTED_NODE};
use testkit::{Harness, bound_claim, csi_node, handle, node, pod, storage_class};

use super::*;

pub(super) const AFFINITY: &str = "node(s) didn't match PersistentVolume's node affinity";
pub(super) const BIND: &str = "node(s) didn't find available persistent volumes to bind";
pub(super) const SPACE: &str = "node(s) did not have enough free storage";
pub(super) const MISSING: &str =
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

/// Nodes `a` and `b` in zones of their names, node `c` without a zone, class `local` without
/// provisioner and class `made` with one.
pub(super) fn harness(objects: impl IntoIterator<Item = StorageObject>) -> Harness {
    let harness = Harness::new(plugin_of(json!({})))
        .node(node("a").label("zone", "a").build())
        .node(node("b").label("zone", "b").build())
        .node(node("c").build())
        .storage(storage_class("local", "kubernetes.io/no-provisioner", WAIT))
        .storage(storage_class("made", DRIVER, WAIT));
    objects.into_iter().fold(harness, Harness::storage)
}

/// Returns the messages of nodes `a`, `b` and `c`; empty for a node that fits.
#[track_caller]
pub(super) fn messages(harness: &Harness, claims: &[&str]) -> [String; 3] {
    let pod = claims.iter().fold(pod("p"), |pod, claim| pod.claim(claim)).build();
    let run = harness.run(&pod);
    assert!(run.pre_filter.is_success(), "{}", run.pre_filter.message());
    ["a", "b", "c"].map(|node| run.verdicts[node].message())
}

pub(super) fn anywhere(name: &str) -> StorageObject {
    volume(name, json!({}))
}

fn deleted(object: StorageObject) -> StorageObject {
    object.set("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))
}

pub(super) fn at(name: &str, affinity: Value) -> StorageObject {
    volume(name, json!({ "nodeAffinity": affinity }))
}

#[test]
fn bound_volume_selects_nodes_by_its_affinity() {
    let terms = |terms: Value| json!({ "required": { "nodeSelectorTerms": terms } });
    let zone = |zone: &str| json!({ "key": "zone", "operator": "In", "values": [zone] });
    let name = json!({ "key": "metadata.name", "operator": "In", "values": ["b"] });
    let invalid = json!({ "key": "zone", "operator": "Gt", "values": ["x"] });
    for (affinity, expected) in [
        (json!(null), ["", "", ""]),
        (json!({}), ["", "", ""]),
        (terms(json!([])), [AFFINITY, AFFINITY, AFFINITY]),
        (terms(json!([{}])), [AFFINITY, AFFINITY, AFFINITY]),
        (zone_affinity(&["a"]), ["", AFFINITY, AFFINITY]),
        (zone_affinity(&["a", "b"]), ["", "", AFFINITY]),
        (
            terms(
                json!([{ "matchExpressions": [zone("a")] }, { "matchExpressions": [zone("b")] }]),
            ),
            ["", "", AFFINITY],
        ),
        (terms(json!([{ "matchExpressions": [zone("a"), zone("b")] }])), [AFFINITY; 3]),
        (terms(json!([{ "matchFields": [name] }])), ["", "", ""]),
        (
            terms(json!([{ "matchFields": [name], "matchExpressions": [zone("a")] }])),
            ["", AFFINITY, AFFINITY],
        ),
        (
            terms(json!([{ "matchExpressions": [invalid] }, { "matchExpressions": [zone("a")] }])),
            ["", AFFINITY, AFFINITY],
        ),
        (terms(json!([{ "matchExpressions": [invalid] }])), [AFFINITY; 3]),
    ] {
        let harness = harness([bound_claim("data", "pv"), at("pv", affinity.clone())]);
        assert_eq!(messages(&harness, &["data"]), expected, "{affinity}");
    }
}

#[test]
fn first_bound_claim_that_does_not_fit_gives_the_reason() {
    let harness = harness([
        bound_claim("in-a", "pv-a"),
        at("pv-a", zone_affinity(&["a"])),
        bound_claim("lost", "pv-gone"),
    ]);
    assert_eq!(messages(&harness, &["in-a", "lost"]), [MISSING, AFFINITY, AFFINITY]);
    assert_eq!(messages(&harness, &["lost", "in-a"]), [MISSING; 3]);
    assert_eq!(messages(&harness, &["lost", "in-a", "lost"]), [MISSING; 3]);
}

#[test]
fn conflicts_of_bound_and_unbound_claims_are_reported_together() {
    let harness = harness([
        bound_claim("in-a", "pv-a"),
        at("pv-a", zone_affinity(&["a"])),
        bound_claim("lost", "pv-gone"),
        sized_claim("data", "local", "5Gi"),
    ]);
    let both = format!("{AFFINITY}, {BIND}");
    assert_eq!(messages(&harness, &["data", "in-a"]), [BIND, &both, &both]);
    assert_eq!(
        messages(&harness, &["lost", "data"]),
        [(); 3].map(|()| format!("{BIND}, {MISSING}"))
    );
    let full = harness.storage(sized_claim("made", "made", "5Gi")).storage(driver(true));
    let both = format!("{AFFINITY}, {SPACE}");
    assert_eq!(messages(&full, &["made", "in-a"]), [SPACE, &both, &both]);
    assert_eq!(messages(&full, &["made", "lost"]), [(); 3].map(|()| format!("{SPACE}, {MISSING}")));
}

#[test]
fn in_tree_volumes_are_translated_on_migrated_nodes() {
    let disk = json!({
        "awsElasticBlockStore": { "volumeID": "vol-1" }, "nodeAffinity": zone_terms("a"),
    });
    fn zone_terms(zone: &str) -> Value {
        let key = "topology.kubernetes.io/zone";
        let zone = json!({ "key": key, "operator": "In", "values": [zone] });
        json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [zone] }] } })
    }
    let migrated = |name| csi_node(name, &[]).annotation(MIGRATED_PLUGINS, "kubernetes.io/aws-ebs");
    let harness = Harness::new(plugin_of(json!({})))
        .node(node("a").label("topology.kubernetes.io/zone", "a").build())
        .node(node("b").label("topology.ebs.csi.aws.com/zone", "a").build())
        .node(node("c").label("topology.ebs.csi.aws.com/zone", "a").build())
        .storage(bound_claim("data", "pv"))
        .storage(volume("pv", disk));
    assert_eq!(messages(&harness, &["data"]), ["", AFFINITY, AFFINITY]);
    let harness = harness.storage(migrated("a")).storage(migrated("b"));
    let harness = harness.storage(csi_node("c", &[]));
    assert_eq!(messages(&harness, &["data"]), [AFFINITY, "", AFFINITY]);
}

#[test]
fn untranslatable_volume_does_not_fail_nodes_an_earlier_claim_rejects() {
    let announcing = csi_node("a", &[]).annotation(MIGRATED_PLUGINS, "kubernetes.io/aws-ebs");
    let harness = harness([
        announcing,
        bound_claim("in-b", "pv-b"),
        at("pv-b", zone_affinity(&["b"])),
        bound_claim("senseless", "pv"),
        volume("pv", json!({ "awsElasticBlockStore": { "volumeID": "aws://x" } })),
    ]);
    assert_eq!(messages(&harness, &["in-b", "senseless"]), [AFFINITY, "", AFFINITY]);
}

#[test]
fn free_volume_must_match_the_claim() {
    let labelled = |pv: StorageObject| pv.label("tier", "gold");
    let spec = |field: &str, value: Value| {
        local_volume("pv", "5Gi", "a").set(&format!("/spec/{field}"), value)
    };
    let asking = |field: &str, value: Value| {
        sized_claim("data", "local", "5Gi").set(&format!("/spec/{field}"), value)
    };
    let plain = || sized_claim("data", "local", "5Gi");
    let gold = || asking("selector", json!({ "matchLabels": { "tier": "gold" } }));
    for (text, claim, volume, fits) in [
        ("a match", plain(), spec("volumeMode", json!("Filesystem")), true),
        ("too small", plain(), local_volume("pv", "4Gi", "a"), false),
        ("another class", plain(), spec("storageClassName", json!("made")), false),
        ("another mode", plain(), spec("volumeMode", json!("Block")), false),
        (
            "requested mode",
            asking("volumeMode", json!("Block")),
            spec("volumeMode", json!("Block")),
            true,
        ),
        ("attributes", plain(), spec("volumeAttributesClassName", json!("fast")), false),
        (
            "requested attributes",
            asking("volumeAttributesClassName", json!("fast")),
            spec("volumeAttributesClassName", json!("fast")),
            true,
        ),
        (
            "requested attributes are missing",
            asking("volumeAttributesClassName", json!("fast")),
            local_volume("pv", "5Gi", "a"),
            false,
        ),
        ("no attributes", plain(), spec("volumeAttributesClassName", json!("")), true),
        ("labels", gold(), labelled(local_volume("pv", "5Gi", "a")), true),
        ("no labels", gold(), local_volume("pv", "5Gi", "a"), false),
        (
            "modes",
            asking("accessModes", json!(["ReadWriteMany"])),
            local_volume("pv", "5Gi", "a"),
            false,
        ),
        (
            "each of its modes",
            asking("accessModes", json!(["ReadWriteOnce", "ReadOnlyMany"])),
            local_volume("pv", "5Gi", "a"),
            true,
        ),
        (
            "some of the modes",
            asking("accessModes", json!(["ReadWriteOnce", "ReadWriteMany"])),
            local_volume("pv", "5Gi", "a"),
            false,
        ),
        (
            "phase",
            plain(),
            local_volume("pv", "5Gi", "a").set("/status/phase", json!("Released")),
            false,
        ),
        (
            "of another claim",
            plain(),
            spec("claimRef", json!({ "namespace": "default", "name": "other" })),
            false,
        ),
        (
            "of another claim of that name",
            plain(),
            spec("claimRef", json!({ "namespace": "default", "name": "data", "uid": "x" })),
            false,
        ),
        ("being deleted", plain(), deleted(local_volume("pv", "5Gi", "a")), false),
    ] {
        let expected = [if fits { "" } else { BIND }, BIND, BIND];
        assert_eq!(messages(&harness([claim, volume]), &["data"]), expected, "{text}");
    }
}

#[test]
fn free_volume_fits_nodes_that_match_a_whole_term() {
    let zone = |zone: &str| json!({ "key": "zone", "operator": "In", "values": [zone] });
    let not_in_a = json!({ "key": "zone", "operator": "NotIn", "values": ["a"] });
    let disk = |operator: &str| json!({ "key": "disk", "operator": operator });
    for (terms, expected) in [
        (vec![json!([zone("a")]), json!([zone("b")])], ["", "", BIND]),
        (vec![json!([zone("a")]), json!([zone("b"), disk("Exists")])], ["", BIND, BIND]),
        (vec![json!([zone("a"), zone("b")]), json!([zone("b")])], [BIND, "", BIND]),
        (vec![json!([zone("a")]), json!([disk("DoesNotExist")])], ["", "", ""]),
        (vec![json!([zone("a")]), json!([])], ["", BIND, BIND]),
        (vec![json!([not_in_a])], [BIND, "", ""]),
        (vec![], [BIND; 3]),
    ] {
        let term = |expressions: &Value| json!({ "matchExpressions": expressions });
        let terms: Vec<_> = terms.iter().map(term).collect();
        let affinity = json!({ "required": { "nodeSelectorTerms": terms } });
        let volume = local_volume("pv", "5Gi", "a").set("/spec/nodeAffinity", affinity.clone());
        let harness = harness([sized_claim("data", "local", "5Gi"), volume]);
        assert_eq!(messages(&harness, &["data"]), expected, "{affinity}");
    }
}

/// Returns a volume of 5Gi in zone `a` that is reserved for claim `data`.
fn reserved(fields: Value) -> StorageObject {
    let mut reference = json!({ "namespace": "default", "name": "data" });
    for (field, value) in fields.as_object().unwrap() {
        reference[field] = value.clone();
    }
    local_volume("reserved", "5Gi", "a").set("/spec/claimRef", reference)
}

#[test]
fn claim_uses_only_its_reserved_volume() {
    let claim = || {
        let gold = json!({ "matchLabels": { "tier": "gold" } });
        sized_claim("data", "local", "5Gi").set("/spec/selector", gold)
    };
    let free = || local_volume("free", "5Gi", "b").label("tier", "gold");
    let spec =
        |field: &str, value: Value| reserved(json!({})).set(&format!("/spec/{field}"), value);
    let (own, other) = (["", BIND, BIND], [BIND, "", BIND]);
    for (text, reserved, expected) in [
        ("by name", reserved(json!({})), own),
        ("by UID", reserved(json!({ "uid": "uid-data" })), own),
        // Labels, access modes and phase do not count.
        ("with other modes", spec("accessModes", json!(["ReadOnlyMany"])), own),
        ("pending", reserved(json!({})).set("/status/phase", json!("Pending")), own),
        ("by another UID", reserved(json!({ "uid": "x" })), other),
        ("in another namespace", reserved(json!({ "namespace": "x" })), other),
        ("too small", spec("capacity/storage", json!("1Gi")), other),
        ("of another class", spec("storageClassName", json!("made")), other),
        ("of another mode", spec("volumeMode", json!("Block")), other),
        ("with attributes", spec("volumeAttributesClassName", json!("fast")), other),
        ("being deleted", deleted(reserved(json!({}))), other),
    ] {
        assert_eq!(messages(&harness([claim(), reserved, free()]), &["data"]), expected, "{text}");
    }
}

#[test]
fn first_of_two_reserved_volumes_is_used() {
    let own = |name: &str, zone: &str| {
        let reference = json!({ "namespace": "default", "name": "data" });
        local_volume(name, "5Gi", zone).set("/spec/claimRef", reference)
    };
    for (volumes, expected) in [
        ([own("1", "a"), own("2", "b")], ["", BIND, BIND]),
        ([own("1", "b"), own("2", "a")], [BIND, "", BIND]),
    ] {
        let objects = volumes.into_iter().chain([sized_claim("data", "local", "5Gi")]);
        assert_eq!(messages(&harness(objects), &["data"]), expected);
    }
}

#[test]
fn reserved_volume_splits_nodes_with_the_same_free_volumes() {
    let everywhere = anywhere("free")
        .set("/spec/storageClassName", json!("local"))
        .set("/spec/accessModes", json!(["ReadWriteOnce"]))
        .set("/spec/capacity", json!({ "storage": "5Gi" }));
    let claims = ["data", "other"].map(|name| sized_claim(name, "local", "5Gi"));
    let harness = harness(claims.into_iter().chain([reserved(json!({})), everywhere]));
    assert_eq!(messages(&harness, &["data", "other"]), ["", BIND, BIND]);
}

#[test]
fn unusable_volumes_do_not_hide_usable_ones() {
    let term = json!({ "key": "absent", "operator": "In", "values": ["a"] });
    let absent = json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [term] }] } });
    let harness = harness([
        sized_claim("data", "local", "5Gi"),
        local_volume("absent", "5Gi", "a").set("/spec/nodeAffinity", absent),
        local_volume("elsewhere", "5Gi", "0"),
        local_volume("here", "5Gi", "a"),
    ]);
    assert_eq!(messages(&harness, &["data"]), ["", BIND, BIND]);
}

#[test]
fn reserved_volume_is_used_once_for_a_repeated_claim() {
    let harness = harness([sized_claim("data", "local", "5Gi"), reserved(json!({}))]);
    assert_eq!(messages(&harness, &["data", "data"]), [BIND; 3]);
}

#[test]
fn volume_is_provisioned_where_the_reserved_one_cannot_be_used() {
    let class = storage_class("local", DRIVER, WAIT);
    let objects = [sized_claim("data", "local", "5Gi"), reserved(json!({})), class];
    let harness = harness(objects.into_iter().chain([local_volume("free", "5Gi", "b")]));
    assert_eq!(messages(&harness, &["data"]), ["", "", ""]);
    let names = |node: &str| volumes_on(&harness, node, &["data"]);
    assert_eq!(names("a"), (vec!["reserved".to_owned()], vec![]));
    assert_eq!(names("b"), (vec![], vec!["data".to_owned()]));
}

/// Returns the existing volumes for claims on a node, and the claims whose volumes are provisioned
/// there.
fn volumes_on(harness: &Harness, node: &str, claims: &[&str]) -> (Vec<String>, Vec<String>) {
    let cluster = harness.cluster();
    let pod = claims.iter().fold(pod("p"), |pod, claim| pod.claim(claim)).build();
    let claims = PodVolumeClaims::of(&pod, cluster, &Default::default()).unwrap().unwrap();
    let node = cluster.node(cluster.node_named(node).unwrap());
    let volumes = find_pod_volumes(&claims, &node, &Default::default()).unwrap().unwrap();
    let bound = volumes.static_bindings.iter().map(|own| own.volume.name.to_string());
    let made = volumes.dynamic_provisions.iter().map(|own| own.claim.name.to_string());
    (bound.collect(), made.collect())
}

#[test]
fn each_claim_needs_its_own_volume() {
    let claims = || [sized_claim("one", "local", "1Gi"), sized_claim("five", "local", "5Gi")];
    let volumes = |sizes: &[(&str, &str)]| {
        let volume = |(number, (size, zone)): (usize, &(&str, &str))| {
            local_volume(&format!("pv-{number}"), size, zone)
        };
        sizes.iter().enumerate().map(volume).collect::<Vec<_>>()
    };
    for (sizes, expected) in [
        (&[("5Gi", "a")][..], [BIND, BIND, BIND]),
        (&[("5Gi", "a"), ("5Gi", "a")], ["", BIND, BIND]),
        (&[("5Gi", "a"), ("5Gi", "b")], [BIND, BIND, BIND]),
        (&[("1Gi", "b"), ("5Gi", "b")], [BIND, "", BIND]),
        (&[("1Gi", "b"), ("4Gi", "b")], [BIND, BIND, BIND]),
        (&[("1Gi", "a"), ("5Gi", "a"), ("5Gi", "b")], ["", BIND, BIND]),
        (&[("5Gi", "a"), ("1Gi", "b"), ("5Gi", "b")], [BIND, "", BIND]),
    ] {
        let harness = harness(claims().into_iter().chain(volumes(sizes)));
        assert_eq!(messages(&harness, &["five", "one"]), expected, "{sizes:?}");
        assert_eq!(messages(&harness, &["one", "five"]), expected, "{sizes:?}");
    }
    let three = harness([
        sized_claim("six", "local", "6Gi"),
        local_volume("x", "6Gi", "a"),
        local_volume("y", "6Gi", "a"),
    ]);
    let three = claims().into_iter().fold(three, Harness::storage);
    assert_eq!(messages(&three, &["one", "five", "six"]), [BIND; 3]);
    let three = three.storage(local_volume("z", "6Gi", "a"));
    assert_eq!(messages(&three, &["one", "five", "six"]), ["", BIND, BIND]);
    // Kubernetes does not notice that both volumes use the same claim.
    let harness = harness(claims().into_iter().chain(volumes(&[("5Gi", "a")])));
    assert_eq!(messages(&harness, &["one", "one"]), [BIND, BIND, BIND]);
}

#[test]
fn node_can_use_volumes_of_every_matching_affinity() {
    let volume = |name: &str, affinity: Value| {
        local_volume(name, "1Gi", "a").set("/spec/nodeAffinity", affinity)
    };
    let claims = ["one", "two", "three"].map(|name| sized_claim(name, "local", "1Gi"));
    let harness = harness(claims)
        .storage(volume("in-a", zone_affinity(&["a"])))
        .storage(volume("in-both", zone_affinity(&["a", "b"])))
        .storage(volume("anywhere", json!(null)));
    assert_eq!(messages(&harness, &["one"]), ["", "", ""]);
    assert_eq!(messages(&harness, &["one", "two"]), ["", "", BIND]);
    assert_eq!(messages(&harness, &["one", "two", "three"]), ["", BIND, BIND]);
}

#[test]
fn smallest_fitting_volume_is_chosen_then_first_by_name() {
    for (name, size, on_a) in [("0", "4Gi", "a"), ("0", "3Gi", "0"), ("x", "3Gi", "a")] {
        let everywhere = anywhere(name)
            .set("/spec/storageClassName", json!("local"))
            .set("/spec/accessModes", json!(["ReadWriteOnce"]))
            .set("/spec/capacity", json!({ "storage": size }));
        let harness = harness([
            sized_claim("data", "local", "2Gi"),
            local_volume("large", "9Gi", "a"),
            local_volume("b", "3Gi", "a"),
            local_volume("a", "3Gi", "a"),
            local_volume("small", "1Gi", "a"),
            everywhere,
        ]);
        let found = |node: &str| volumes_on(&harness, node, &["data"]).0.concat();
        assert_eq!(["a", "b"].map(found), [on_a, name], "{name} {size}");
    }
}

#[test]
fn invalid_selector_fails_the_attempt() {
    let selector = json!({ "matchExpressions": [{ "key": "tier", "operator": "Odd" }] });
    let data = || sized_claim("data", "made", "1Gi").set("/spec/selector", selector.clone());
    let expected = "error creating internal label selector for claim: default/data: \"Odd\" is not \
                    a valid label selector operator";
    assert_eq!(messages(&harness([data()]), &["data"]), [expected; 3]);
    let elsewhere =
        harness([data(), sized_claim("other", "made", "1Gi").annotation(SELECTED_NODE, "gone")]);
    assert_eq!(messages(&elsewhere, &["data", "other"]), [BIND; 3]);
    // The smallest claim comes first here too.
    let small = sized_claim("small", "made", "1Mi").set("/spec/selector", selector.clone());
    let both = harness([data(), small]);
    let expected = expected.replace("data", "small");
    assert_eq!(messages(&both, &["data", "small"]), [(); 3].map(|()| expected.clone()));
}

#[test]
fn volumes_are_provisioned_in_allowed_topologies() {
    let terms = |terms: &[&[&str]]| {
        let label = |zones: &[&str]| json!({ "key": "zone", "values": zones });
        let term = |zones: &&[&str]| json!({ "matchLabelExpressions": [label(zones)] });
        json!(terms.iter().map(term).collect::<Vec<_>>())
    };
    for (allowed, expected) in [
        (json!([]), ["", "", ""]),
        (terms(&[&["a"]]), ["", BIND, BIND]),
        (terms(&[&["a"], &["b"]]), ["", "", BIND]),
        (json!([{}]), [BIND; 3]),
        (terms(&[&[], &["b"]]), [BIND, "", BIND]),
    ] {
        let class = storage_class("made", DRIVER, WAIT).set("/allowedTopologies", allowed.clone());
        let harness = harness([sized_claim("data", "made", "1Gi"), class]);
        assert_eq!(messages(&harness, &["data"]), expected, "{allowed}");
    }
}

#[test]
fn claim_with_a_selected_node_is_provisioned_there() {
    let on = |node: &str| sized_claim("data", "made", "1Gi").annotation(SELECTED_NODE, node);
    assert_eq!(messages(&harness([on("a")]), &["data"]), ["", BIND, BIND]);
    assert_eq!(messages(&harness([on("gone")]), &["data"]), [BIND; 3]);
    assert_eq!(messages(&harness([on("")]), &["data"]), [BIND; 3]);
    let other = sized_claim("other", "made", "1Gi").annotation(SELECTED_NODE, "b");
    assert_eq!(messages(&harness([on("a"), other]), &["data", "other"]), [BIND; 3]);
    let class = sized_claim("data", "local", "1Gi").annotation(SELECTED_NODE, "a");
    let harness = harness([class, local_volume("pv", "1Gi", "a")]);
    assert_eq!(messages(&harness, &["data"]), [BIND; 3]);
}

#[test]
fn unmatched_claims_are_provisioned() {
    let class = storage_class("local", DRIVER, WAIT);
    let objects =
        ["one", "two"].map(|name| sized_claim(name, "local", "1Gi")).into_iter().chain([class]);
    let harness = harness(objects.chain([local_volume("pv", "1Gi", "a")]));
    assert_eq!(messages(&harness, &["one", "two"]), ["", "", ""]);
}

pub(super) fn driver(storage_capacity: bool) -> StorageObject {
    let spec = json!({ "spec": { "storageCapacity": storage_capacity } });
    StorageObject::new(EventResource::CsiDriver, DRIVER, spec)
}

pub(super) fn capacity(name: &str, class: &str, zone: &str, fields: Value) -> StorageObject {
    let mut fields = fields;
    fields["storageClassName"] = json!(class);
    fields["nodeTopology"] = json!({ "matchLabels": { "zone": zone } });
    StorageObject::new(EventResource::CsiStorageCapacity, name, fields)
}

#[test]
fn reported_capacity_must_fit_the_claim() {
    let room = |size: &str| json!({ "capacity": size });
    let data = || sized_claim("data", "made", "5Gi");
    let unsized_claim = claim("data", json!({ "storageClassName": "made" }));
    for (text, objects, expected) in [
        ("no driver", vec![data()], ["", "", ""]),
        ("a driver without capacity reports", vec![data(), driver(false)], ["", "", ""]),
        ("no capacity reported", vec![data(), driver(true)], [SPACE, SPACE, SPACE]),
        ("no requested size", vec![unsized_claim, driver(true)], ["", "", ""]),
        (
            "in zone a",
            vec![data(), driver(true), capacity("a", "made", "a", room("5Gi"))],
            ["", SPACE, SPACE],
        ),
        (
            "a byte too small",
            vec![data(), driver(true), capacity("a", "made", "a", room("5368709119"))],
            [SPACE; 3],
        ),
        (
            "a fraction of a byte too small",
            vec![data(), driver(true), capacity("a", "made", "a", room("5368709119.1"))],
            ["", SPACE, SPACE],
        ),
        (
            "of another class",
            vec![data(), driver(true), capacity("a", "local", "a", room("5Gi"))],
            [SPACE; 3],
        ),
        (
            "maximum volume size takes precedence",
            vec![
                data(),
                driver(true),
                capacity(
                    "a",
                    "made",
                    "a",
                    json!({ "capacity": "9Gi", "maximumVolumeSize": "4Gi" }),
                ),
                capacity(
                    "b",
                    "made",
                    "b",
                    json!({ "capacity": "1Gi", "maximumVolumeSize": "5Gi" }),
                ),
            ],
            [SPACE, "", SPACE],
        ),
        (
            "neither reported",
            vec![data(), driver(true), capacity("a", "made", "a", json!({}))],
            [SPACE; 3],
        ),
        (
            "unreadable",
            vec![data(), driver(true), capacity("a", "made", "a", room("much"))],
            [SPACE; 3],
        ),
        (
            "nowhere",
            vec![
                data(),
                driver(true),
                capacity("a", "made", "a", room("9Gi")).set("/nodeTopology", json!(null)),
            ],
            [SPACE; 3],
        ),
        (
            "everywhere",
            vec![
                data(),
                driver(true),
                capacity("a", "made", "a", room("9Gi")).set("/nodeTopology", json!({})),
            ],
            ["", "", ""],
        ),
    ] {
        assert_eq!(messages(&harness(objects), &["data"]), expected, "{text}");
    }
}

#[test]
fn capacity_applies_to_its_topology() {
    for (requirement, expected) in [
        (json!({ "operator": "In", "values": ["a"] }), ["", SPACE, SPACE]),
        (json!({ "operator": "In", "values": ["a", "b"] }), ["", "", SPACE]),
        (json!({ "operator": "NotIn", "values": ["a"] }), [SPACE, "", ""]),
        (json!({ "operator": "Exists" }), ["", "", SPACE]),
        (json!({ "operator": "DoesNotExist" }), [SPACE, SPACE, ""]),
    ] {
        let mut zone = requirement.clone();
        zone["key"] = json!("zone");
        let topology = json!({ "matchExpressions": [zone] });
        let room = capacity("room", "made", "", json!({ "capacity": "9Gi" }));
        let objects =
            [sized_claim("data", "made", "5Gi"), driver(true), room.set("/nodeTopology", topology)];
        assert_eq!(messages(&harness(objects), &["data"]), expected, "{requirement}");
    }
}

#[test]
fn capacity_is_checked_per_class_and_size() {
    let room = |size: &str| json!({ "capacity": size });
    let data = || sized_claim("data", "made", "5Gi");
    let other = [storage_class("other", DRIVER, WAIT), sized_claim("more", "other", "5Gi")];
    let room = [driver(true), capacity("a", "made", "a", room("5Gi"))];
    let harness = harness(other.into_iter().chain(room).chain([data()]));
    assert_eq!(messages(&harness, &["data", "more"]), [SPACE; 3], "for one class of two");
    let harness = harness.storage(sized_claim("large", "made", "6Gi"));
    assert_eq!(messages(&harness, &["data"]), ["", SPACE, SPACE]);
    assert_eq!(messages(&harness, &["data", "large"]), [SPACE; 3], "for the smaller of two");
}

#[test]
fn first_claim_that_cannot_be_provisioned_gives_the_reason() {
    let class = |name: &str, provisioner: &str| storage_class(name, provisioner, WAIT);
    let objects = || {
        [
            class("full", DRIVER),
            class("none", ""),
            driver(true),
            sized_claim("large", "full", "5Gi"),
            sized_claim("small", "none", "1Gi"),
        ]
    };
    assert_eq!(messages(&harness(objects()), &["large", "small"]), [BIND; 3]);
    let selected = objects()
        .into_iter()
        .chain([sized_claim("large", "full", "5Gi").annotation(SELECTED_NODE, "a")]);
    assert_eq!(messages(&harness(selected), &["small", "large"]), [SPACE, BIND, BIND]);
}

#[test]
fn filter_without_pre_filter_is_an_error() {
    let harness = harness([]);
    let (filter, state) = (plugin_of(json!({})).filter.unwrap(), CycleState::new());
    let (cluster, pod) = (harness.cluster(), pod("p").build());
    let node = cluster.node(cluster.node_named("a").unwrap());
    assert_eq!(
        filter.filter(&Attempt::new(&state, &pod, &handle(node.cluster())), &node),
        Status::error("not found")
    );
    let mut nodes = cluster.nodes().clone();
    let failed = filter.filter_set(&Attempt::new(&state, &pod, &handle(cluster)), &mut nodes);
    assert_eq!(failed, Err(Status::error("not found")));
}
