//! Pods that wait for different reasons: the first suggestion is about the cause, and after it the
//! pod has a node.

use dry_run::{Object, World};
use engine::{Change, Engine, Input};
use explain::{
    ClusterCopy, Follower, Lab, explain_cluster, explain_group, explain_node, explain_pod, facts,
};
use framework::{EventResource, Node, PodKey, Time};
use loadmaster_explain as explain;
use serde_json::json;
use testkit::{NodeBuilder, PodBuilder, node, pod};

use crate::support::*;

/// A pod that waits, and what the answer has to say.
struct Case {
    /// The cause, for messages.
    cause: &'static str,
    nodes: Vec<NodeBuilder>,
    objects: Vec<Object>,
    /// Pods with nodes.
    running: Vec<PodBuilder>,
    pending: PodBuilder,
    /// The kind of the first suggestion.
    kind: &'static str,
    /// A part of its text.
    text: &'static str,
}

fn case(cause: &'static str, pending: PodBuilder, kind: &'static str, text: &'static str) -> Case {
    let nodes = vec![small("n1"), small("n2")];
    Case { cause, nodes, objects: Vec::new(), running: Vec::new(), pending, kind, text }
}

impl Case {
    fn nodes(self, nodes: impl IntoIterator<Item = NodeBuilder>) -> Self {
        Self { nodes: nodes.into_iter().collect(), ..self }
    }

    fn objects(self, objects: impl IntoIterator<Item = Object>) -> Self {
        Self { objects: objects.into_iter().collect(), ..self }
    }

    fn running(self, pods: impl IntoIterator<Item = PodBuilder>) -> Self {
        Self { running: pods.into_iter().collect(), ..self }
    }
}

fn small(name: &str) -> NodeBuilder {
    node(name)
        .allocatable("cpu", "4")
        .allocatable("memory", "8Gi")
        .allocatable("ephemeral-storage", "20Gi")
        .allocatable("pods", "110")
        .label("kubernetes.io/hostname", name)
        .image("registry.example.com/web:1", 500 << 20)
}

fn waits() -> PodBuilder {
    pod("waits").cpu("100m").memory("64Mi")
}

fn full(name: &str, node: &str) -> PodBuilder {
    pod(name).cpu("3500m").memory("1Gi").on(node)
}

fn cases() -> Vec<Case> {
    let zone = "topology.kubernetes.io/zone";
    vec![
        case("cpu", pod("waits").cpu("1"), "request", "request 500m less cpu")
            .running([full("a", "n1"), full("b", "n2")]),
        case("memory", pod("waits").memory("2Gi"), "request", "request 1Gi less memory").running([
            pod("a").memory("7Gi").on("n1"),
            pod("b").memory("7Gi").on("n2"),
        ]),
        case("ephemeral storage", pod("waits").request("ephemeral-storage", "30Gi"), "request", "10Gi less"),
        case("larger than every node", pod("waits").cpu("64"), "node", "a node with 64 cpu"),
        case("devices of a device plugin", pod("waits").request("example.com/gpu", "1"), "capacity", "1 more example.com/gpu on node n1")
            .nodes([small("n1").allocatable("example.com/gpu", "1")])
            .running([pod("a").request("example.com/gpu", "1").on("n1")]),
        case("too many pods", waits(), "slot", "room for 1 more pod on node n1")
            .nodes([small("n1").allocatable("pods", "1")])
            .running([pod("a").on("n1")]),
        case("taint", waits(), "toleration", "tolerate team=red:NoSchedule")
            .nodes([small("n1").taint("team", "red", "NoSchedule")]),
        case("cordon", waits(), "cordon", "lift the cordon of node n1").nodes([small("n1").unschedulable()]),
        case("taint of a cordon that has ended", waits(), "cordon", "remove the taint node.kubernetes.io/unschedulable of node n1")
            .nodes([small("n1").taint("node.kubernetes.io/unschedulable", "", "NoSchedule")]),
        case("node that is not ready", waits(), "health", "node n1 becomes healthy")
            .nodes([small("n1").taint("node.kubernetes.io/not-ready", "", "NoSchedule")]),
        case("node selector", waits().node_selector("disk", "ssd"), "label", "label node n1 disk=ssd"),
        case("node affinity", with_api(waits(), required_node("cores", "Gt", &["8"])), "label", "label node n1 cores=9"),
        case("resource that no node has", waits().request("example.com/fpga", "1"), "capacity", "1 more example.com/fpga on node n1"),
        case("host that is gone", waits().node_selector("kubernetes.io/hostname", "n9"), "node", "kubernetes.io/hostname=n9"),
        case("zone without nodes", waits().node_selector(zone, "c"), "node", "topology.kubernetes.io/zone=c"),
        case("host port", waits().host_port(80), "port", "default/a uses the host port")
            .nodes([small("n1")])
            .running([pod("a").host_port(80).on("n1")]),
        case("own anti-affinity", anti_affinity(waits(), "web"), "antiAffinity", "keeps the pod away from default/a")
            .nodes([small("n1")])
            .running([pod("a").label("app", "web").on("n1")]),
        case("anti-affinity of another pod", waits().label("app", "web"), "antiAffinity", "keeps the pod away from default/a")
            .nodes([small("n1")])
            .running([anti_affinity(pod("a"), "web").on("n1")]),
        case("anti-affinity to several pods", anti_affinity(waits(), "web"), "preference", "make the required anti-affinity over kubernetes.io/hostname a preference")
            .nodes([small("n1")])
            .running(["a", "b"].map(|name| pod(name).label("app", "web").on("n1"))),
        case("affinity", with_api(waits(), near("podAffinity", "db", "kubernetes.io/hostname")), "affinity", "a running pod labelled app=db"),
        case("topology without label", with_api(waits(), near("podAffinity", "db", "rack")), "label", "label node n2 rack=r1")
            .nodes([small("n1").label("rack", "r1").allocatable("pods", "1"), small("n2")])
            .running([pod("a").label("app", "db").on("n1")]),
        case("topology spread", with_api(waits().label("app", "web"), spread(zone)), "cordon", "lift the cordon of node n2")
            .nodes([small("n1").zone("a"), small("n2").zone("b").unschedulable()])
            .running([pod("a").label("app", "web").on("n1")]),
        case("skew", with_api(waits().label("app", "web").cpu("2"), spread(zone)), "skew", "allow a skew of 2")
            .nodes([small("n1").zone("a"), small("n2").zone("b")])
            .running([pod("a").label("app", "web").on("n1"), pod("b").cpu("4").memory("8Gi").on("n2")]),
        case("too few domains", with_api(waits().label("app", "web"), few_domains(zone)), "skew", "allow a skew of 2")
            .nodes([small("n1").zone("a"), small("n2").zone("b")])
            .running([pod("a").label("app", "web").on("n1"), pod("b").label("app", "web").on("n2")]),
        case("spread label", with_api(waits().label("app", "web"), spread("rack")), "label", "label node n1 rack="),
        case("missing claim", waits().claim("data"), "claim", "create the PersistentVolumeClaim default/data")
            .objects([class("fast", "WaitForFirstConsumer")]),
        case("missing class", waits().claim("data"), "class", "create the StorageClass fast")
            .objects([claim("data", "fast", &["ReadWriteOnce"], None)]),
        case("claim without volume", waits().claim("data"), "volume", "create a PersistentVolume of 1Gi of class manual")
            .objects([
                object(EventResource::StorageClass, "", "manual", json!({"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "Immediate"})),
                claim("data", "manual", &["ReadWriteOnce"], None),
            ]),
        case("volume of a zone without nodes", waits().claim("data"), "node", "the labels topology.kubernetes.io/zone=b")
            .nodes([small("n1").zone("a")])
            .objects([
                class("fast", "WaitForFirstConsumer"),
                claim("data", "fast", &["ReadWriteOnce"], Some("v1")),
                volume("v1", "data", Some("b")),
            ]),
        case("volume of a full zone", waits().claim("data"), "capacity", "100m more cpu on node n2")
            .nodes([small("n1").zone("a"), small("n2").zone("b")])
            .running([full("a", "n2"), pod("b").cpu("500m").on("n2")])
            .objects([
                class("fast", "WaitForFirstConsumer"),
                claim("data", "fast", &["ReadWriteOnce"], Some("v1")),
                volume("v1", "data", Some("b")),
            ]),
        case("claim without a class", waits().claim("data"), "volume", "create a PersistentVolume of 1Gi for claim default/data")
            .objects([claim("data", "", &["ReadWriteOnce"], None)]),
        case("claim that is being deleted", waits().claim("data"), "claim", "create the PersistentVolumeClaim default/data again")
            .objects([
                class("fast", "WaitForFirstConsumer"),
                deleted(claim("data", "fast", &["ReadWriteOnce"], Some("v1"))),
                volume("v1", "data", None),
            ]),
        case("lost volume", waits().claim("data"), "volume", "restore the PersistentVolume v1")
            .objects([
                class("fast", "WaitForFirstConsumer"),
                claim("data", "fast", &["ReadWriteOnce"], Some("v1")),
            ]),
        case("disk of another pod", uses_disk(waits()), "exclusive", "default/a uses the same disk on node n1")
            .nodes([small("n1")])
            .running([uses_disk(pod("a")).on("n1")]),
        case("storage capacity", waits().claim("data"), "storageCapacity", "1Gi of free storage of class local on node n1")
            .objects([
                object(EventResource::StorageClass, "", "local", json!({"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"})),
                object(EventResource::CsiDriver, "", "csi.example.com", json!({"spec": {"storageCapacity": true}})),
                claim("data", "local", &["ReadWriteOnce"], None),
            ]),
        case("claim for one pod", waits().claim("data"), "exclusive", "default/a uses claim data")
            .running([pod("a").claim("data").on("n1")])
            .objects([
                class("fast", "WaitForFirstConsumer"),
                claim("data", "fast", &["ReadWriteOncePod"], Some("v1")),
                volume("v1", "data", None),
            ]),
        case("limit of attached volumes", waits().claim("data"), "limit", "one pod with a volume fewer on node n1")
            .nodes([small("n1")])
            .running([pod("a").claim("other").on("n1")])
            .objects([
                class("fast", "WaitForFirstConsumer"),
                claim("data", "fast", &["ReadWriteOnce"], Some("v1")),
                volume("v1", "data", None),
                claim("other", "fast", &["ReadWriteOnce"], Some("v2")),
                volume("v2", "other", None),
                object(EventResource::CsiNode, "", "n1", json!({"spec": {"drivers": [{
                    "name": "csi.example.com", "nodeID": "n1", "allocatable": {"count": 1}}]}})),
            ]),
        case("scheduling gate", waits().gate("example.com/quota"), "gate", "remove the scheduling gates"),
        case("missing resource claim", uses_devices(waits(), "gpu"), "deviceClaim", "create the ResourceClaim default/gpu")
            .objects([device_class("gpu"), slice("n1", &["gpu0"])]),
        case("missing device class", uses_devices(waits(), "gpu"), "deviceClass", "create the DeviceClass gpu")
            .objects([slice("n1", &["gpu0"]), resource_claim("gpu", "gpu")]),
        case("devices in use", uses_devices(waits(), "gpu"), "device", "one more device like gpu0 of gpu.example.com on node n1")
            .objects([
                device_class("gpu"),
                slice("n1", &["gpu0"]),
                resource_claim("gpu", "gpu"),
                claim_in_use("taken", "gpu", "n1", "gpu0"),
            ]),
        case("two shortages and low priority", pod("waits").cpu("3").memory("6Gi"), "pod", "one pod fewer on node n1: default/a requests 4 of cpu and 8Gi of memory")
            .running([
                pod("a").cpu("4").memory("8Gi").on("n1"),
                pod("b").cpu("4").memory("8Gi").on("n2"),
            ]),
        case("pod that may not preempt", pod("waits").cpu("3").memory("6Gi").priority(9)
            .with(|pod| pod.spec.preemption_policy = Some("Never".to_owned())), "preemptionPolicy", "let the pod preempt others")
            .running([
                pod("a").cpu("4").memory("8Gi").on("n1"),
                pod("b").cpu("4").memory("8Gi").on("n2"),
            ]),
        case("no nodes", waits(), "node", "a node with 100m cpu").nodes([]),
    ]
}

fn world(case: &Case) -> World {
    let mut world = empty_world();
    case.nodes.iter().for_each(|node| world.add_node(node.clone().build()));
    case.objects.iter().for_each(|object| world.add_object(object.clone()));
    case.running.iter().for_each(|pod| world.add_pod(pod.clone().build()));
    world.add_pod(case.pending.clone().build());
    world.run_until_idle();
    world
}

#[test]
fn first_suggestion_is_about_the_cause_and_schedules_the_pod() {
    let mut failures = Vec::new();
    for case in cases() {
        let mut world = world(&case);
        assert_eq!(node_of(&world, "waits"), None, "{}: the pod does not wait", case.cause);
        let answer = explained(&world, "waits", None);
        let Some(first) = answer.help.first() else {
            let now = answer.now.map(|now| (now.message, now.gate, now.error, now.constraints));
            failures.push(format!("{}: no suggestion: {now:?}", case.cause));
            continue;
        };
        if first.kind != case.kind || !first.text.contains(case.text) {
            let all: Vec<_> =
                answer.help.iter().map(|own| (&own.kind, &own.text, own.size)).collect();
            failures.push(format!(
                "{}: expected {}: {}, got {all:#?}",
                case.cause, case.kind, case.text
            ));
        }
        carry_out(&mut world, &first.changes);
        world.run_until_idle();
        if node_of(&world, "waits").is_none() {
            let state = &world.history(&PodKey::new("default", "waits")).unwrap().state;
            failures.push(format!("{}: {} did not help: {state:?}", case.cause, first.text));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_suggestion_schedules_the_pod() {
    for case in cases() {
        for suggestion in explained(&world(&case), "waits", None).help {
            let mut world = world(&case);
            carry_out(&mut world, &suggestion.changes);
            world.run_until_idle();
            assert!(node_of(&world, "waits").is_some(), "{}: {}", case.cause, suggestion.text);
        }
    }
}

#[test]
fn trials_leave_the_engine_as_it_was() {
    for case in cases() {
        let world = world(&case);
        let facts =
            || facts(world.engine(), &PodKey::new("default", "waits"), world.now()).unwrap();
        let texts = ask(&world, |lab| {
            [(), ()].map(|()| {
                let answer = explain_pod(lab, facts(), None).unwrap();
                lab.renew();
                let cluster = lab.cluster();
                let nodes: Vec<Node> =
                    cluster.nodes().iter().map(|node| cluster.copy_of_node(node)).collect();
                let expected = case.nodes.iter().map(|node| node.clone().build());
                assert_eq!(nodes, expected.collect::<Vec<_>>(), "{}", case.cause);
                serde_json::to_string(&answer).unwrap()
            })
        });
        assert_eq!(texts[0], texts[1], "{}", case.cause);
    }
}

#[test]
fn answer_about_one_node_names_every_plugin_that_rejects_it() {
    let case = case("", waits().node_selector("disk", "ssd").cpu("5"), "", "");
    let answer = explained(&world(&case), "waits", Some("n1"));
    let check = answer.node.unwrap();
    assert!(check.exists && !check.feasible);
    assert_eq!(check.rejecting, ["NodeAffinity", "NodeResourcesFit"]);
    assert_eq!(answer.facts.state, "unschedulable");
    assert_eq!(answer.facts.history[0].outcome, "rejected");
    assert!(!answer.facts.waits_for.is_empty());
    let check = explained(&world(&case), "waits", Some("n9")).node.unwrap();
    assert!(!check.exists);
}

#[test]
fn placed_pod_is_explained_without_itself() {
    let case = case("", waits().cpu("3"), "", "");
    let world = world(&case);
    let node = node_of(&world, "waits").unwrap();
    let answer = explained(&world, "waits", Some(&node));
    assert_eq!(
        (answer.facts.state.as_str(), answer.facts.node.as_deref()),
        ("running", Some(&*node))
    );
    assert!(answer.node.unwrap().feasible && answer.help.is_empty());
    let now = answer.now.unwrap();
    assert_eq!((now.feasible, now.best.len()), (2, 2));
    assert!(!now.best[0].scores.is_empty());
}

#[test]
fn scores_count_the_images_of_nodes() {
    let image = "registry.example.com/web:2";
    let case = case("", waits().image(image), "", "")
        .nodes([small("n1"), small("n2").image(image, 900 << 20)]);
    let answer = explained(&world(&case), "waits", None);
    let best = &answer.now.unwrap().best[0];
    let score = best.scores.iter().find(|score| score.plugin == "ImageLocality").unwrap();
    assert!(best.node == "n2" && score.weighted > 0, "{best:?}");
}

#[test]
fn pod_that_may_evict_others_needs_no_help() {
    let case = case("", pod("waits").cpu("4").priority(5), "", "")
        .running([pod("a").cpu("4").on("n1"), pod("b").cpu("4").on("n2")]);
    let (world, now) = (world(&case), Time::from_secs(9));
    // The simulation evicts at once, so ask an engine that has decided nothing.
    let mut engine = Engine::new(config());
    let ports = &mut engine::ports::Ports { extenders: &mut (), probe: &mut () };
    for node in case.nodes {
        engine.step(Input::Change(Change::Node(node.build())), now, ports);
    }
    for pod in case.running.into_iter().chain([case.pending]) {
        engine.step(Input::Change(Change::Pod(Box::new(pod.build()))), now, ports);
    }
    let facts = facts(&engine, &PodKey::new("default", "waits"), now).unwrap();
    let answer = explain_pod(&mut Lab::new(&mut engine, now, &|| false), facts, None).unwrap();
    assert_eq!(answer.now.unwrap().preemption.unwrap().victims.len(), 1);
    assert!(answer.help.is_empty(), "{:?}", answer.help);
    assert!(node_of(&world, "waits").is_some());
}

#[test]
fn controller_is_answered_by_cause() {
    let replica = |name: &str| {
        pod(name).cpu("2").label("app", "web").label("pod-template-hash", "5d9f").with(|pod| {
            let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9f", "controller": true}]);
            pod.metadata.owner_references = serde_json::from_value(owner).unwrap();
        })
    };
    let case = case("", replica("waits"), "", "").running(
        [("a", "n1"), ("b", "n1"), ("c", "n2"), ("d", "n2")]
            .map(|(name, node)| replica(name).on(node)),
    );
    let world = world(&case);
    for name in ["web", "web-5d9f"] {
        let answer = ask(&world, |lab| explain_group(lab, "default", name)).unwrap();
        assert_eq!((answer.pods, answer.placed), (5, 4));
        assert_eq!(answer.causes[0].pods, ["default/waits"]);
        assert_eq!(answer.causes[0].cause, "Insufficient cpu");
        assert!(answer.causes[0].help.is_some());
    }
    assert!(ask(&world, |lab| explain_group(lab, "default", "none")).is_none());
    let cluster = ask(&world, explain_cluster);
    assert_eq!((cluster.nodes, cluster.placed, cluster.pending), (2, 4, 1));
    assert_eq!(
        (cluster.causes[0].count, cluster.causes[0].cause.as_str()),
        (1, "Insufficient cpu")
    );
    let memory = cluster.stranded.iter().find(|own| own.resource == "memory").unwrap();
    assert_eq!((memory.free.as_str(), memory.percent), ("16Gi", 100.0));
    assert_eq!(
        (cluster.constraints[0].plugin.as_str(), cluster.constraints[0].alone),
        ("NodeResourcesFit", 2)
    );
    let node = ask(&world, |lab| explain_node(lab, "n1")).unwrap();
    assert_eq!((node.pods.0, node.pending, node.fitting), (2, 1, 0));
    assert_eq!(node.rejections[0].cause, "Insufficient cpu");
    assert!(ask(&world, |lab| explain_node(lab, "n9")).is_none());
}

#[test]
fn names_of_other_namespaces_are_hidden_from_a_restricted_caller() {
    let mut hidden = case("", pod("waits").cpu("3").memory("6Gi"), "", "").running([
        pod("a").namespace("secret").cpu("4").memory("8Gi").on("n1"),
        pod("b").namespace("secret").cpu("4").memory("8Gi").on("n2"),
    ]);
    hidden.pending = hidden.pending.host_port(80);
    let mut answer = explained(&world(&hidden), "waits", None);
    assert!(serde_json::to_string(&answer).unwrap().contains("secret/"));
    answer.restrict();
    assert!(!serde_json::to_string(&answer).unwrap().contains("secret/"), "{answer:?}");
}

/// A cluster with this many nodes, on which pods of some templates were scheduled, two for each
/// node.
fn large(nodes: usize) -> World {
    let mut world = empty_world();
    for number in 0..nodes {
        world.add_node(small(&format!("n{number}")).zone(["a", "b", "c"][number % 3]).build());
    }
    for number in 0..2 * nodes {
        let app = format!("app-{}", number % 8);
        let pod = pod(&format!("p{number}")).cpu("500m").memory("512Mi").label("app", &app);
        world.add_pod(pod.build());
    }
    world.run_until_idle();
    world
}

/// `EXPLAIN_NODES` sets the size, to measure: the times are printed.
#[test]
fn copy_is_evaluated_like_the_original() {
    let nodes = std::env::var("EXPLAIN_NODES").ok().and_then(|text| text.parse().ok());
    let mut world = large(nodes.unwrap_or(120));
    let waits = waits().cpu("3900m").label("app", "web");
    world.add_pod(
        with_api(waits, near("podAffinity", "app-1", "topology.kubernetes.io/zone")).build(),
    );
    world.run_until_idle();
    let (now, key) = (world.now(), PodKey::new("default", "waits"));
    let started = elapsed();
    let copy = ClusterCopy::of(world.engine(), now);
    let copied = elapsed();
    let mut engine = copy.engine(config(), now);
    let built = elapsed();
    let facts = facts(world.engine(), &key, now).unwrap();
    let mut lab = Lab::new(&mut engine, now, &|| false);
    let answer = explain_pod(&mut lab, facts, None).unwrap();
    let answered = elapsed();
    println!(
        "copy {:?}, build {:?}, answer {:?}",
        copied - started,
        built - copied,
        answered - built
    );
    let recorded = &answer.facts.history.last().unwrap().rejections;
    let now = &answer.now.unwrap().rejections;
    let counts = |rejections: &[explain::Rejection]| {
        let counts = rejections.iter().map(|own| (own.reasons.clone(), own.count));
        counts.collect::<std::collections::BTreeMap<_, _>>()
    };
    assert_eq!(counts(recorded), counts(now), "the attempt, and its evaluation in a copy");
    assert!(!answer.help.is_empty());
}

fn elapsed() -> std::time::Duration {
    std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970")
}

/// One follower for all cases, each another cluster with pods, nodes and claims of equal names.
#[test]
fn follower_answers_like_an_engine_that_was_built_anew() {
    let mut follower = Follower::new(config());
    let key = PodKey::new("default", "waits");
    for case in cases() {
        let world = world(&case);
        let facts = || facts(world.engine(), &key, world.now()).expect("the pod is known");
        let expected = serde_json::to_value(explained(&world, "waits", Some("n1"))).unwrap();
        let changes = [(), ()].map(|()| {
            let changed =
                follower.follow(ClusterCopy::of(world.engine(), world.now()), world.now());
            let mut lab = Lab::new(follower.engine(), world.now(), &|| false);
            let answer = explain_pod(&mut lab, facts(), Some("n1")).unwrap();
            assert_eq!(serde_json::to_value(answer).unwrap(), expected, "{}", case.cause);
            changed
        });
        assert!(changes[0] > Some(0) && changes[1] == Some(0), "{}: {changes:?}", case.cause);
    }
}

#[test]
fn follower_notices_a_nomination_that_ends_and_a_pod_that_is_replaced() {
    let case = case("", pod("waits").cpu("4").priority(5).nominated("n1"), "", "")
        .running([pod("a").cpu("4").on("n1"), pod("b").cpu("4").on("n2")]);
    let now = Time::from_secs(9);
    let mut engine = Engine::new(config());
    let ports = &mut engine::ports::Ports { extenders: &mut (), probe: &mut () };
    let nodes = case.nodes.into_iter().map(|node| Change::Node(node.build()));
    let pods = case.running.into_iter().chain([case.pending.clone()]);
    let pods = pods.map(|pod| Change::Pod(Box::new(pod.build())));
    for change in nodes.chain(pods) {
        engine.step(Input::Change(change), now, ports);
    }
    let mut follower = Follower::new(config());
    let mut follow = |engine: &Engine| {
        follower.follow(ClusterCopy::of(engine, now), now);
        let waits = follower.engine().pending_pod(&PodKey::new("default", "waits")).cloned();
        let waits = waits.expect("the pod waits");
        (follower.engine().nominator().node_of(&waits.uid).cloned(), waits.uid.to_string())
    };
    assert_eq!(follow(&engine).0.as_deref(), Some("n1"));
    let without = pod("waits").cpu("4").priority(5).uid("another").build();
    engine.step(
        Input::Change(Change::PodDeleted {
            key: without.key.clone(),
            uid: case.pending.build().uid,
        }),
        now,
        ports,
    );
    engine.step(Input::Change(Change::Pod(Box::new(without))), now, ports);
    assert_eq!(follow(&engine), (None, "another".to_owned()));
}

fn owned(pod: PodBuilder, api_version: &str, kind: &str, name: &str) -> PodBuilder {
    let owner =
        json!([{"apiVersion": api_version, "kind": kind, "name": name, "controller": true}]);
    pod.with(|pod| pod.metadata.owner_references = serde_json::from_value(owner).expect("an owner"))
}

fn help_for(case: &Case) -> Vec<explain::Suggestion> {
    explained(&world(case), "waits", None).help
}

#[test]
fn no_command_ends_pods_of_controllers_or_of_other_namespaces() {
    let blocking = |pod: PodBuilder| {
        let case = case("", waits().host_port(80), "", "").nodes([small("n1")]);
        let help = help_for(&case.running([pod.host_port(80).on("n1")]));
        let port = help.into_iter().find(|own| own.kind == "port");
        port.expect("the user of the port is named").command
    };
    let of_job = pod("a").label("batch.kubernetes.io/job-name", "import");
    assert_eq!(blocking(owned(pod("a"), "apps/v1", "StatefulSet", "db")), None);
    assert_eq!(blocking(owned(pod("a"), "batch/v1", "Job", "import")), None);
    assert_eq!(blocking(of_job), None, "a dump without references to owners");
    assert_eq!(blocking(pod("a").namespace("shop")), None);
    let of_set = owned(pod("a").namespace("shop"), "apps/v1", "ReplicaSet", "web");
    assert_eq!(blocking(of_set), None);
    let of_own = blocking(pod("a"));
    assert_eq!(of_own.as_deref(), Some("kubectl delete pod a -n default"));
}

#[test]
fn siblings_are_no_victims() {
    let replica = |name: &str| owned(pod(name).cpu("3"), "apps/v1", "ReplicaSet", "web");
    let alone =
        case("", replica("waits"), "", "").running([replica("a").on("n1"), replica("b").on("n2")]);
    let help = help_for(&alone);
    let kinds: Vec<&str> = help.iter().map(|own| own.kind.as_str()).collect();
    assert!(!kinds.contains(&"pod") && !kinds.contains(&"priority"), "{help:?}");
    let other = pod("other").cpu("3").on("n2").priority(4);
    let help = help_for(&alone.running([replica("a").on("n1"), other]));
    let of = |kind: &str| help.iter().find(|own| own.kind == kind).unwrap();
    assert!(of("pod").text.contains("default/other"), "{help:?}");
    assert_eq!(of("priority").evicts, ["default/other"]);
    assert!(of("priority").text.contains("at least 5"), "{help:?}");
}

#[test]
fn taint_of_a_node_with_gpus_stays_for_a_pod_without_them() {
    let taint = |name: &str| small(name).taint("nvidia.com/gpu", "present", "NoSchedule");
    let kinds = |node: NodeBuilder, pod: PodBuilder| {
        let help = help_for(&case("", pod, "", "").nodes([node]));
        help.into_iter().map(|own| own.kind).collect::<Vec<_>>()
    };
    let with_gpus = || taint("n1").allocatable("nvidia.com/gpu", "8");
    assert!(!kinds(with_gpus(), waits()).contains(&"taint".to_owned()));
    assert!(kinds(with_gpus(), waits()).contains(&"toleration".to_owned()));
    let uses = waits().request("nvidia.com/gpu", "1");
    assert!(kinds(with_gpus(), uses).contains(&"taint".to_owned()));
    assert!(kinds(taint("n1"), waits()).contains(&"taint".to_owned()), "a node without devices");
}

#[test]
fn pod_that_is_larger_than_every_node_strands_nothing() {
    let huge = case("", pod("waits").cpu("9"), "", "");
    assert_eq!(ask(&world(&huge), explain_cluster).stranded.len(), 0);
    let large = case("", pod("waits").cpu("3"), "", "")
        .running([pod("a").cpu("2").on("n1"), pod("b").cpu("2").on("n2")]);
    let stranded = ask(&world(&large), explain_cluster).stranded;
    assert_eq!((stranded[0].resource.as_str(), stranded[0].percent), ("cpu", 100.0));
}
