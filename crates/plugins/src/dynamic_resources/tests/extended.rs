//! Extended resources that devices provide.

use framework::device::AllocationMode;
use framework::{Attempt, PerNode};
use serde_json::json;
use testkit::node;

use super::super::extended::{ExtendedResources, RequestMapping};
use super::world::*;
use crate::dynamic_resources::*;

const GPU: &str = "example.com/gpu";
const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/gpu";

fn world() -> World {
    let mut world = World::new([]);
    let class = json!({
        "metadata": {"name": "gpu", "uid": "uid-gpu"}, "spec": {"extendedResourceName": GPU},
    });
    world.put("deviceclasses", class);
    world
}

fn container(name: &str, requests: &Value) -> Value {
    json!({"name": name, "resources": {"requests": requests}})
}

fn pod_requesting(name: &str, requests: &Value) -> Pod {
    pod(name, &json!({"containers": [container("main", requests)]}))
}

/// A request with its count, in a claim for extended resources.
type Counted = (String, i64);
/// A container and a request that it uses.
type Mapped = (String, String);

/// Returns the requests of the claim of a pod, and the mappings of its containers.
fn requests(pod: &Pod) -> (Vec<Counted>, Vec<Mapped>) {
    let world = world();
    let extended = ExtendedResources::of(pod, &world.cluster).unwrap();
    let node = world.cluster.node(world.cluster.node_named("a").unwrap());
    let through = extended.through_devices(&node).unwrap();
    let (claim, mappings) = extended.claim_for(pod, &through);
    let count = |mode: &AllocationMode| match mode {
        AllocationMode::ExactCount(count) => *count,
        _ => 0,
    };
    let requests = claim.spec.requests.iter();
    let requests = requests.map(|own| (own.name.to_string(), count(&own.bodies()[0].mode)));
    let mapping = |own: &RequestMapping| (own.container.to_string(), own.request.to_string());
    (requests.collect(), mappings.iter().map(mapping).collect())
}

#[test]
fn containers_share_the_devices_of_those_that_start_later() {
    let gpus = |count: i64| json!({GPU: count.to_string(), "cpu": "1"});
    let init = |name: &str, count: i64| container(name, &gpus(count));
    let spec = json!({
        "initContainers": [init("one", 1), init("four", 4), init("five", 5)],
        "containers": [init("main", 2), init("side", 1)],
    });
    let request = |container: i64, count: i64| (format!("container-{container}-request-1"), count);
    let (requested, mappings) = requests(&pod("p", &spec));
    assert_eq!(requested, [request(2, 2), request(3, 2), request(4, 1)]);
    let map =
        |name: &str, container: i64| (name.to_owned(), format!("container-{container}-request-1"));
    assert_eq!(
        mappings,
        [
            map("main", 3),
            map("side", 4),
            map("one", 3),
            map("four", 3),
            map("four", 4),
            map("four", 2),
            map("five", 3),
            map("five", 4),
            map("five", 2),
        ]
    );
}

#[test]
fn implicit_resource_names_its_class() {
    let (requested, mappings) = requests(&pod_requesting("p", &json!({IMPLICIT: "1"})));
    assert_eq!(requested, [("container-0-request-0".to_owned(), 1)]);
    assert_eq!(mappings, [("main".to_owned(), "container-0-request-0".to_owned())]);
}

#[test]
fn node_offers_the_resource_itself_or_through_devices() {
    let mut world = world();
    world.cluster.set_node(&node("b").allocatable(GPU, "4").build());
    let small = pod_requesting("p", &json!({GPU: "2"}));
    assert_eq!(world.messages(&small), ["", ""]);
    let large = pod_requesting("p", &json!({GPU: "3"}));
    assert_eq!(world.messages(&large), ["cannot allocate all claims", ""]);
    let unknown = pod_requesting("p", &json!({GPU: "1", "example.com/other": "1"}));
    let text = "cannot fit resource";
    assert_eq!(world.messages(&unknown), [text, text]);
    let (_, result) = world.pre_filter(&pod_requesting("p", &json!({"example.com/other": "1"})));
    assert!(result.is_err_and(|status| status.is_skip()), "no class provides the resource");
}

#[test]
fn each_of_many_resources_is_provided() {
    let mut world = world();
    let name = |number: i64| match number {
        70 => GPU.to_owned(),
        number => format!("a.example.com/{number:02}"),
    };
    let named: Vec<String> = (1..=70).map(name).collect();
    let requested: Map<String, Value> =
        named.iter().map(|name| (name.clone(), json!("3"))).collect();
    let large = pod_requesting("p", &requested.into());
    let text = "cannot fit resource";
    assert_eq!(world.messages(&large), [text, text]);
    // Only the last one has to come from devices.
    let offered = named[..69].iter().fold(node("a"), |node, name| node.allocatable(name, "3"));
    world.cluster.set_node(&offered.build());
    assert_eq!(world.messages(&large), ["cannot allocate all claims", text]);
}

#[test]
fn claim_is_created_and_named_in_the_status_of_the_pod() {
    let mut world = world();
    let mut attempt = world.reserve(&pod_requesting("p", &json!({GPU: "2"})), "a").unwrap();
    let step = world.step(&mut attempt, PreBindInput::Start);
    let PreBindStep::Write(creation) = step else { panic!("{step:?}") };
    let name = creation.name.to_string();
    assert!(name.starts_with("p-extended-resources-") && name.len() == 26, "{name}");
    let answer = world.write(&creation);
    let mut step = world.step(&mut attempt, PreBindInput::Answer(&answer));
    let mut pod_status = None;
    while let PreBindStep::Write(write) = step {
        let answer = world.write(&write);
        pod_status = Some(write);
        step = world.step(&mut attempt, PreBindInput::Answer(&answer));
    }
    assert!(matches!(step, PreBindStep::Wait { .. }), "{step:?}");
    assert_eq!(world.shared.tracker.lock().counts(), (0, 1, 0), "in flight until it is shown");
    world.watch_claims();
    let step = world.step(&mut attempt, PreBindInput::Changed);
    assert!(matches!(&step, PreBindStep::Done(status) if status.is_success()), "{step:?}");
    let claim = world.claim(&name);
    assert_eq!(devices_of(&claim), ["a/0", "a/1"]);
    assert_eq!(
        claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"],
        "true"
    );
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "uid-p");
    assert_eq!(
        pod_status.unwrap().body()["status"]["extendedResourceClaimStatus"],
        json!({
            "requestMappings": [{
                "containerName": "main", "resourceName": GPU, "requestName": "container-0-request-0",
            }],
            "resourceClaimName": name,
        })
    );
    assert_eq!(
        world.messages(&pod_requesting("q", &json!({GPU: "1"}))),
        ["cannot allocate all claims", ""]
    );

    world.unreserve(&mut attempt);
    world.write_commands();
    assert!(world.claim_names().is_empty(), "the claim is deleted with its finalizer");
}

/// Rule dynamic-resources-empty-extended-claim of docs/differences.toml.
#[test]
fn resource_that_the_node_offers_needs_no_claim_beside_those_of_the_pod() {
    let mut world = world();
    world.cluster.set_node(&node("b").allocatable(GPU, "4").build());
    world.put("resourceclaims", claim("own", 1));
    let containers = json!([container("main", &json!({GPU: "1"}))]);
    let claims = json!([{"name": "own", "resourceClaimName": "own"}]);
    let pod = pod("p", &json!({"containers": containers, "resourceClaims": claims}));
    let mut attempt = world.reserve(&pod, "b").unwrap();
    let step = world.write_all(&mut attempt);
    assert!(matches!(&step, PreBindStep::Done(status) if status.is_success()), "{step:?}");
    assert_eq!(devices_of(&world.claim("own")), ["b/0"]);
    assert_eq!(world.claim_names(), ["own".to_owned()].into());
}

#[test]
fn devices_of_an_unknown_write_are_free_once_its_claim_is_deleted() {
    let mut world = world();
    let mut attempt = world.reserve(&pod_requesting("p", &json!({GPU: "2"})), "a").unwrap();
    let step = world.step(&mut attempt, PreBindInput::Start);
    let PreBindStep::Write(creation) = step else { panic!("{step:?}") };
    let answer = world.write(&creation);
    let step = world.step(&mut attempt, PreBindInput::Answer(&answer));
    let PreBindStep::Write(finalizer) = step else { panic!("{step:?}") };
    let answer = world.write(&finalizer);
    world.watch_claims();
    let step = world.step(&mut attempt, PreBindInput::Answer(&answer));
    let PreBindStep::Write(status) = step else { panic!("{step:?}") };
    assert_eq!(status.subresource.as_deref(), Some("status"));
    world.unreserve(&mut attempt);
    let other = pod_requesting("q", &json!({GPU: "1"}));
    assert_eq!(world.messages(&other), ["cannot allocate all claims", ""]);
    assert_eq!(world.write_commands().len(), 2, "the claim is deleted, which needs no fence");
    assert!(world.claim_names().is_empty());
    world.delete("resourceclaims", &creation.name);
    assert_eq!(world.messages(&other), ["", ""]);
}

#[test]
fn devices_of_a_written_claim_are_free_once_it_is_deleted() {
    let mut world = world();
    let mut attempt = world.reserve(&pod_requesting("p", &json!({GPU: "2"})), "a").unwrap();
    let mut step = world.step(&mut attempt, PreBindInput::Start);
    let mut written = Vec::new();
    while let PreBindStep::Write(write) = step {
        let answer = world.write(&write);
        written.push(write.name.to_string());
        // The watch shows the claim as it was created.
        if written.len() == 1 {
            world.watch_claims();
        }
        step = world.step(&mut attempt, PreBindInput::Answer(&answer));
    }
    assert_eq!(written.len(), 4, "creation, finalizer, allocation and status of the pod");
    world.unreserve(&mut attempt);
    let other = pod_requesting("q", &json!({GPU: "1"}));
    assert_eq!(world.messages(&other), ["cannot allocate all claims", ""]);
    world.write_commands();
    assert!(world.claim_names().is_empty());
    assert_eq!(world.messages(&other), ["cannot allocate all claims", ""], "it is not shown yet");
    world.delete("resourceclaims", &written[0]);
    assert_eq!(world.messages(&other), ["", ""]);
}

#[test]
fn lost_creation_is_found_by_its_name() {
    let mut world = world();
    let mut attempt = world.reserve(&pod_requesting("p", &json!({GPU: "1"})), "a").unwrap();
    let step = world.step(&mut attempt, PreBindInput::Start);
    let PreBindStep::Write(creation) = step else { panic!("{step:?}") };
    world.write(&creation);
    let lost = framework::Answer::Unknown("lost".to_owned());
    let step = world.step(&mut attempt, PreBindInput::Answer(&lost));
    let PreBindStep::Wait { timeout, .. } = step else { panic!("{step:?}") };
    world.parts.now = world.parts.now + timeout;
    let step = world.step(&mut attempt, PreBindInput::Deadline);
    let PreBindStep::Write(again) = step else { panic!("{step:?}") };
    assert_eq!(again, creation);
    let answer = world.write(&again);
    let step = world.step(&mut attempt, PreBindInput::Answer(&answer));
    assert!(matches!(step, PreBindStep::Wait { .. }), "{step:?}");
    world.watch_claims();
    let mut step = world.step(&mut attempt, PreBindInput::Changed);
    while let PreBindStep::Write(write) = step {
        let answer = world.write(&write);
        world.watch_claims();
        step = world.step(&mut attempt, PreBindInput::Answer(&answer));
    }
    assert!(matches!(&step, PreBindStep::Done(status) if status.is_success()), "{step:?}");
    assert_eq!(world.devices_on_server(), ["a/0"]);
}

#[test]
fn claim_left_by_an_earlier_attempt_is_deleted_first() {
    let mut world = world();
    let pod = pod_requesting("p", &json!({GPU: "1"}));
    let mut attempt = world.reserve(&pod, "a").unwrap();
    world.write_all(&mut attempt);
    // The scheduler restarts.
    let left = "cannot schedule extended resource claim";
    assert_eq!(world.messages(&pod), [left, left]);
    assert_eq!(world.post_filter(&pod).message(), "deletion of ResourceClaim completed");
    world.write_commands();
    assert!(world.claim_names().is_empty());
}

#[test]
fn scores_count_devices_that_are_being_allocated() {
    let world = world();
    let most = json!({"type": "MostAllocated", "resources": [{"name": GPU, "weight": 1}]});
    let args = PluginArgs::new(json!({"scoringStrategy": most}));
    let fit = crate::node_resources::fit::plugin(&args).unwrap();
    let scores = || {
        let pod = pod_requesting("q", &json!({GPU: "1"}));
        let (state, _) = world.pre_filter(&pod);
        let nodes = ["a", "b"].map(|name| world.cluster.node_named(name).unwrap());
        let (score, handle) = (fit.score.as_ref().unwrap(), world.handle());
        let mut scores = [-1; 2];
        score
            .score_set(&Attempt::new(&state, &pod, &handle), PerNode::new(&nodes, &mut scores))
            .unwrap();
        let one = |node| {
            score.score(&Attempt::new(&state, &pod, &handle), &world.cluster.node(node)).unwrap()
        };
        assert_eq!(nodes.map(one), scores);
        scores
    };
    assert_eq!(scores(), [50, 50]);
    let mut attempt = world.reserve(&pod_requesting("p", &json!({GPU: "1"})), "a").unwrap();
    assert_eq!(scores(), [100, 50]);
    world.unreserve(&mut attempt);
    assert_eq!(scores(), [50, 50]);
}

#[test]
fn first_of_equally_large_deficits_is_requested() {
    let gpus = |count: i64| json!({GPU: count.to_string()});
    let spec = json!({
        "initContainers": [container("one", &gpus(3)), container("two", &gpus(3))],
        "containers": [container("main", &gpus(1))],
    });
    let (requested, mappings) = requests(&pod("p", &spec));
    let request = |container: i64| format!("container-{container}-request-0");
    assert_eq!(requested, [(request(0), 2), (request(2), 1)]);
    assert!(mappings.contains(&("two".to_owned(), request(0))), "{mappings:?}");
}

#[test]
fn claim_for_extended_resources_needs_the_gate() {
    let gates = PluginGates { extended_resources: false, ..PluginGates::default() };
    let on = world();
    let class = on.find("deviceclasses", "gpu");
    let off = World::with(PluginArgs::default().with_gates(gates), [("deviceclasses", class)]);
    let pod = pod_requesting("p", &json!({GPU: "1"}));
    assert!(on.pre_filter(&pod).1.is_ok());
    assert!(off.pre_filter(&pod).1.unwrap_err().is_skip());
}
