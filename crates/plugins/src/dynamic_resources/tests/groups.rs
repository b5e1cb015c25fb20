//! Claims that the pods of a group share.

use std::collections::BTreeSet;

use framework::{
    Answer, Code, MemberNomination, PluginGates, PodGroupKey, QueuedPod, Time, Uid, Write,
};
use proptest::prelude::*;
use serde_json::json;

use super::world::*;
use crate::dynamic_resources::*;

/// A world with the PodGroup `g`, which has these claims, and with the gates of groups.
fn world_of(
    group_claims: &Value,
    objects: impl IntoIterator<Item = (&'static str, Value)>,
) -> World {
    let gates =
        PluginGates { generic_workload: true, workload_claims: true, ..PluginGates::default() };
    let mut world = World::with(PluginArgs::default().with_gates(gates), objects);
    world.cluster.count_pod_groups();
    world.put("podgroups", pod_group("g", group_claims));
    world
}

fn pod_group(name: &str, claims: &Value) -> Value {
    json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": claims},
    })
}

/// A world in which the group `g` has the claim `c`.
fn sharing() -> World {
    world_of(&json!([entry("c")]), [("resourceclaims", claim("c", 1))])
}

fn entry(claim: &str) -> Value {
    json!({"name": claim, "resourceClaimName": claim})
}

fn member_of(group: &str, name: &str, entries: &Value, status: &Value) -> Pod {
    let spec =
        json!({"schedulingGroup": {"podGroupName": group}, "resourceClaims": entries.clone()});
    pod_with(name, &spec, status)
}

/// A pod of `g` with the claim `c`.
fn member(name: &str) -> Pod {
    member_of("g", name, &json!([entry("c")]), &json!({}))
}

fn user_pod(name: &str) -> Value {
    json!({"resource": "pods", "name": name, "uid": format!("uid-{name}")})
}

fn user_group() -> Value {
    json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"})
}

#[track_caller]
fn outcome(step: PreBindStep) -> String {
    match step {
        PreBindStep::Done(status) => status.message(),
        other => panic!("{other:?} is not the end"),
    }
}

/// Starts PreBind and returns the first write.
#[track_caller]
fn started(world: &World, attempt: &mut Reservation) -> Write {
    match world.step(attempt, PreBindInput::Start) {
        PreBindStep::Write(write) => write,
        other => panic!("{other:?} is no write"),
    }
}

fn place(world: &mut World, attempt: &Reservation) {
    world.cluster.place_pod(attempt.pod.clone(), attempt.node);
}

fn take_off(world: &mut World, pod: &Uid) {
    let state = world.cluster.pod_group_state(&PodGroupKey::new("default", "g"));
    let placed =
        state.and_then(|own| own.scheduled().find(|ix| world.cluster.pod(*ix).pod.uid == *pod));
    placed.into_iter().for_each(|ix| drop(world.cluster.remove_pod(ix)));
}

#[test]
fn claim_of_a_group_is_allocated_once_and_reserved_for_the_group() {
    let mut world = sharing();
    let mut first = world.reserve(&member("p"), "a").unwrap();
    let unavailable = world.reserve(&member("q"), "b").err().unwrap();
    assert_eq!(unavailable.message(), "resourceclaim not available on the node");
    let mut second = world.reserve(&member("q"), "a").unwrap();
    world.check_overlay();
    assert_eq!(world.shared.tracker.lock().counts(), (0, 1, 0));

    assert_eq!(outcome(world.write_all(&mut first)), "");
    let written = world.claim("c");
    assert_eq!(devices_of(&written), ["a/0"]);
    assert_eq!(written["status"]["reservedFor"], json!([user_group()]));
    assert_eq!(outcome(world.write_all(&mut second)), "");
    assert_eq!(world.claim("c"), written, "the second member writes nothing");
    assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 0));

    let mut late = world.reserve(&member("r"), "a").unwrap();
    assert_eq!(outcome(world.write_all(&mut late)), "");
    assert_eq!(world.claim("c"), written);
}

#[test]
fn any_member_may_be_the_one_that_writes() {
    let mut world = sharing();
    let mut first = world.reserve(&member("p"), "a").unwrap();
    let mut second = world.reserve(&member("q"), "a").unwrap();
    world.unreserve(&mut first);
    assert_eq!(world.shared.tracker.lock().counts(), (0, 1, 0), "the other one relies on it");
    assert_eq!(outcome(world.write_all(&mut second)), "");
    assert_eq!(world.claim("c")["status"]["reservedFor"], json!([user_group()]));
    assert_eq!(devices_of(&world.claim("c")), ["a/0"]);
}

#[test]
fn other_claims_of_members_are_shared_too_and_reserved_for_each_pod() {
    let claims = [("resourceclaims", claim("c", 1))];
    let mut world = world_of(&json!([]), claims);
    let mut first = world.reserve(&member("p"), "a").unwrap();
    let mut second = world.reserve(&member("q"), "a").unwrap();
    for attempt in [&mut first, &mut second] {
        assert_eq!(outcome(world.write_all(attempt)), "");
    }
    let status = &world.claim("c")["status"];
    assert_eq!(status["reservedFor"], json!([user_pod("p"), user_pod("q")]));
    assert_eq!(devices_of(&world.claim("c")), ["a/0"]);
}

#[test]
fn pod_of_another_group_waits_for_the_end_of_the_allocation() {
    let mut world = sharing();
    world.put("podgroups", pod_group("h", &json!([entry("c")])));
    let _first = world.reserve(&member("p"), "a").unwrap();
    let alone = pod_using("x", &["c"]);
    let other = member_of("h", "y", &json!([entry("c")]), &json!({}));
    for pod in [alone, other] {
        let text = "resource claim default/c is in the process of being allocated";
        assert_eq!(world.reserve(&pod, "a").err().unwrap().message(), text);
    }
}

#[test]
fn entry_that_is_equal_to_one_of_the_group_is_reserved_for_the_group() {
    let other_name = json!({"name": "other", "resourceClaimName": "c"});
    let rows = [
        (json!([entry("c")]), json!([entry("c")]), true),
        (json!([entry("d"), entry("c")]), json!([entry("c")]), true),
        (json!([other_name]), json!([entry("c")]), false),
        (json!([entry("c")]), json!([other_name]), false),
        (json!([]), json!([entry("c")]), false),
    ];
    for (of_group, of_pod, is_of_group) in rows {
        let mut world = world_of(&of_group, [("resourceclaims", claim("c", 1))]);
        let pod = member_of("g", "p", &of_pod, &json!({}));
        let mut attempt = world.reserve(&pod, "a").unwrap();
        assert_eq!(outcome(world.write_all(&mut attempt)), "");
        let user = if is_of_group { user_group() } else { user_pod("p") };
        assert_eq!(world.claim("c")["status"]["reservedFor"], json!([user]), "{of_pod}");
    }
}

#[test]
fn claim_from_a_template_belongs_to_the_pod_or_its_group() {
    let entries = json!([{"name": "e", "resourceClaimTemplateName": "t"}]);
    let status = json!({"resourceClaimStatuses": [{"name": "e", "resourceClaimName": "made"}]});
    let pod = member_of("g", "p", &entries, &status);
    let owned_by = |uid: &str| {
        let mut claim = claim("made", 1);
        claim["metadata"]["ownerReferences"] =
            json!([{"kind": "K", "name": "n", "uid": uid, "controller": true}]);
        claim
    };
    let refused = "ResourceClaim default/made was not created for Pod default/p or PodGroup \
                   default/g (neither Pod nor PodGroup is the owner)";
    let rows = [
        ("uid-g", "", user_group()),
        ("uid-p", "", user_pod("p")),
        ("uid-h", refused, Value::Null),
    ];
    for (owner, expected, user) in rows {
        let mut world = world_of(&entries, [("resourceclaims", owned_by(owner))]);
        let pre_enqueue = world.plugin.pre_enqueue.as_ref().unwrap();
        let status = pre_enqueue.pre_enqueue(&pod, &world.handle());
        assert_eq!(status.message(), expected);
        if expected.is_empty() {
            let mut attempt = world.reserve(&pod, "a").unwrap();
            assert_eq!(outcome(world.write_all(&mut attempt)), "");
            assert_eq!(world.claim("made")["status"]["reservedFor"], json!([user]));
        }
    }

    let without_gate = World::new([("resourceclaims", owned_by("uid-g"))]);
    let pre_enqueue = without_gate.plugin.pre_enqueue.as_ref().unwrap();
    assert_eq!(
        pre_enqueue.pre_enqueue(&pod, &without_gate.handle()).message(),
        "ResourceClaim default/made was not created for Pod default/p (Pod is not owner)"
    );
}

#[test]
fn reservation_for_a_group_ends_with_its_last_pod() {
    let mut world = sharing();
    let mut attempts = ["p", "q"].map(|name| world.reserve(&member(name), "a").unwrap());
    for attempt in &mut attempts {
        place(&mut world, attempt);
    }
    let [first, second] = &mut attempts;
    assert_eq!(outcome(world.write_all(first)), "");
    world.unreserve(first);
    assert!(world.write_commands().is_empty(), "the second one uses the claim");
    take_off(&mut world, &first.pod.uid);
    // It has not looked at the claim since it was written.
    world.unreserve(second);
    assert_eq!(world.write_commands().len(), 1);
    assert_eq!(world.claim("c")["status"]["reservedFor"], json!([]));
    assert_eq!(devices_of(&world.claim("c")), ["a/0"], "it stays allocated");

    // The watch still shows the reservation. The next attempt does not rely on it.
    let mut again = world.reserve(&member("p"), "a").unwrap();
    let step = world.step(&mut again, PreBindInput::Start);
    assert!(matches!(step, PreBindStep::Wait { .. }), "{step:?}");
    world.watch_claims();
    let PreBindStep::Write(write) = world.step(&mut again, PreBindInput::Changed) else {
        panic!("no write")
    };
    world.write(&write);
    assert_eq!(world.claim("c")["status"]["reservedFor"], json!([user_group()]));
}

#[test]
fn write_whose_answer_was_lost_is_doubted_when_the_last_member_gives_up() {
    let mut world = sharing();
    let mut first = world.reserve(&member("p"), "a").unwrap();
    let mut second = world.reserve(&member("q"), "a").unwrap();
    let finalizer = started(&world, &mut first);
    let answer = world.write(&finalizer);
    world.watch_claims();
    let PreBindStep::Write(write) = world.step(&mut first, PreBindInput::Answer(&answer)) else {
        panic!("no write")
    };
    // The answer never comes, and the attempt ends.
    world.unreserve(&mut first);
    assert_eq!(world.shared.tracker.lock().counts(), (0, 1, 0));
    world.unreserve(&mut second);
    assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 1));
    assert!(matches!(world.write(&write), Answer::Ok(_)), "it is carried out late");
    world.check_overlay();
    assert_eq!(devices_of(&world.claim("c")), ["a/0"]);
}

#[test]
fn member_does_not_write_an_allocation_that_was_given_up() {
    let mut world = sharing();
    let mut first = world.reserve(&member("p"), "a").unwrap();
    let mut second = world.reserve(&member("q"), "a").unwrap();
    assert_eq!(outcome(world.write_all(&mut first)), "");
    let free = json!({"status": {"allocation": null, "reservedFor": null}});
    world.show("resourceclaims", "c", &free);
    assert_eq!(
        outcome(world.step(&mut second, PreBindInput::Start)),
        "claim default/c got deallocated elsewhere in the meantime"
    );
}

/// A trial of the group `g`.
struct Trial<'a> {
    group: PodGroupKey,
    members: Vec<QueuedPod>,
    world: &'a World,
}

impl PodGroupTrial for Trial<'_> {
    fn group(&self) -> &PodGroupKey {
        &self.group
    }

    fn members(&self) -> &[QueuedPod] {
        &self.members
    }

    fn handle(&self) -> Handle<'_> {
        self.world.handle()
    }

    fn remove_pod(&mut self, _: &Uid) {}

    fn add_pod(&mut self, _: &Uid) {}

    fn decide(&mut self) -> Result<Vec<MemberNomination>, Status> {
        Ok(Vec::new())
    }

    fn place(&mut self) -> Result<Vec<MemberNomination>, Status> {
        Ok(Vec::new())
    }

    fn filter_on(&mut self, _: Option<&[Arc<str>]>) -> Status {
        Status::success()
    }
}

#[test]
fn rejected_group_frees_a_claim_that_no_pod_with_a_node_uses() {
    let done = (Code::UnschedulableAndUnresolvable, "deallocation of ResourceClaim completed");
    let left = (Code::Unschedulable, "");
    let rows = [
        (json!([]), false, done),
        (json!([user_group()]), false, done),
        (json!([user_pod("p")]), false, done),
        (json!([user_group()]), true, left),
        (json!([user_group(), user_pod("other")]), false, left),
    ];
    for (users, has_fellow, (code, text)) in rows {
        let mut world = sharing();
        let mut attempt = world.reserve(&member("x"), "a").unwrap();
        world.write_all(&mut attempt);
        world.show("resourceclaims", "c", &json!({"status": {"reservedFor": users.clone()}}));
        if has_fellow {
            place(&mut world, &attempt);
        }
        let members = vec![QueuedPod::new(Arc::new(member("p")), Time::ZERO)];
        let group = PodGroupKey::new("default", "g");
        let mut trial = Trial { group, members, world: &world };
        let point = world.plugin.pod_group_post_filter.as_ref().unwrap();
        let status = point.pod_group_post_filter(&mut trial).status;
        assert_eq!((status.code(), &*status.message()), (code, text), "{users}");
        world.write_commands();
        let allocation = &world.claim("c")["status"]["allocation"];
        assert_eq!(allocation.is_null(), code == Code::UnschedulableAndUnresolvable, "{users}");
    }
}

/// An event of a history of a group whose pods share claims.
#[derive(Debug, Clone)]
enum Event {
    /// A pod is tried on a node.
    Try { pod: usize, on_b: bool },
    /// A pod that is being bound goes on; its request is carried out or not, its answer lost.
    Continue { pod: usize, carried_out: bool, lost: bool },
    /// The attempt of a pod ends.
    Fail { pod: usize },
    /// The scheduler observes the claims.
    Watch,
    /// A claim without reservations is deallocated.
    Deallocate { claim: usize },
    /// A request whose answer was lost is carried out after all.
    Late,
    /// Time passes, and no request is under way any more.
    Pass,
}

const PODS: usize = 5;

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => (0..PODS, any::<bool>()).prop_map(|(pod, on_b)| Event::Try { pod, on_b }),
        9 => (0..PODS, prop::bool::weighted(0.9), prop::bool::weighted(0.15))
            .prop_map(|(pod, carried_out, lost)| Event::Continue { pod, carried_out, lost }),
        2 => (0..PODS).prop_map(|pod| Event::Fail { pod }),
        5 => Just(Event::Watch),
        1 => (0..2_usize).prop_map(|claim| Event::Deallocate { claim }),
        2 => Just(Event::Late),
        1 => Just(Event::Pass),
    ]
}

struct Binding {
    attempt: Reservation,
    open: Option<Write>,
    until: Time,
}

/// Pods 0 to 2 share the claim `c0`, the others `c1`. The first is one of the group.
struct History {
    world: World,
    binding: BTreeMap<usize, Binding>,
    late: Vec<Write>,
    done: BTreeSet<usize>,
}

impl History {
    fn new() -> Self {
        let claims = ["c0", "c1"].map(|name| ("resourceclaims", claim(name, 1)));
        let (binding, late, done) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Self { world: world_of(&json!([entry("c0")]), claims), binding, late, done }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Try { pod, on_b } => self.try_pod(*pod, *on_b),
            Event::Continue { pod, carried_out, lost } => self.go_on(*pod, *carried_out, *lost),
            Event::Fail { pod } => self.fail(*pod),
            Event::Watch => self.world.watch_claims(),
            Event::Deallocate { claim } => {
                let name = format!("c{claim}");
                let stored = self.world.claim(&name);
                let users = stored["status"]["reservedFor"].as_array();
                if users.is_none_or(Vec::is_empty) && stored["status"]["allocation"].is_object() {
                    self.world.change("resourceclaims", &name, &json!({"status": null}));
                }
            }
            Event::Late => {
                self.late.pop().into_iter().for_each(|write| drop(self.world.write(&write)));
            }
            Event::Pass => {
                self.late.clear();
                if self.binding.values().all(|binding| binding.open.is_none()) {
                    self.world.watch_claims();
                    self.world.parts.now = self.world.parts.now + Duration::from_mins(2);
                }
            }
        }
    }

    fn try_pod(&mut self, pod: usize, on_b: bool) {
        if self.binding.contains_key(&pod) || self.done.contains(&pod) {
            return;
        }
        let claim = if pod < 3 { "c0" } else { "c1" };
        let named = member_of("g", &format!("p{pod}"), &json!([entry(claim)]), &json!({}));
        if let Ok(mut attempt) = self.world.reserve(&named, if on_b { "b" } else { "a" }) {
            place(&mut self.world, &attempt);
            let step = self.world.step(&mut attempt, PreBindInput::Start);
            self.take_step(pod, attempt, step);
        }
    }

    fn take_step(&mut self, pod: usize, attempt: Reservation, step: PreBindStep) {
        let mut binding = Binding { attempt, open: None, until: self.world.parts.now };
        match step {
            PreBindStep::Write(write) => binding.open = Some(write),
            PreBindStep::Wait { timeout, .. } => binding.until = self.world.parts.now + timeout,
            PreBindStep::Done(status) if status.is_success() => {
                self.done.insert(pod);
                return;
            }
            PreBindStep::Done(_) => {
                self.binding.insert(pod, binding);
                return self.fail(pod);
            }
        }
        self.binding.insert(pod, binding);
    }

    fn go_on(&mut self, pod: usize, carried_out: bool, lost: bool) {
        let Some(Binding { mut attempt, open, until }) = self.binding.remove(&pod) else { return };
        let step = match open {
            None if lost => {
                self.world.parts.now = self.world.parts.now.max(until);
                self.world.step(&mut attempt, PreBindInput::Deadline)
            }
            None => self.world.step(&mut attempt, PreBindInput::Changed),
            Some(write) => {
                let answer = match carried_out {
                    true => self.world.write(&write),
                    false => {
                        self.late.push(write);
                        Answer::Unknown("late".to_owned())
                    }
                };
                let answer = if lost { Answer::Unknown("lost".to_owned()) } else { answer };
                self.world.step(&mut attempt, PreBindInput::Answer(&answer))
            }
        };
        self.take_step(pod, attempt, step);
    }

    fn fail(&mut self, pod: usize) {
        let Some(Binding { mut attempt, open, .. }) = self.binding.remove(&pod) else { return };
        self.late.extend(open);
        self.world.unreserve(&mut attempt);
        self.world.write_commands();
        take_off(&mut self.world, &attempt.pod.uid);
    }

    fn check(&self) {
        let devices = self.world.devices_on_server();
        let mut once = devices.clone();
        once.dedup();
        assert_eq!(devices, once, "a device is allocated twice");
        for pod in &self.done {
            let (name, user) = match pod {
                0..3 => ("c0", user_group()),
                _ => ("c1", user_pod(&format!("p{pod}"))),
            };
            let status = &self.world.claim(name)["status"];
            assert!(status["allocation"].is_object(), "p{pod} is bound without devices");
            let users = status["reservedFor"].as_array().unwrap();
            assert_eq!(users.iter().filter(|own| **own == user).count(), 1, "p{pod}: {users:?}");
        }
    }
}

proptest! {
    #[test]
    fn pods_of_a_group_share_devices_with_nobody_else(
        events in prop::collection::vec(event(), 1..100),
    ) {
        let mut history = History::new();
        for event in events {
            history.apply(&event);
            history.check();
            history.world.check_overlay();
        }
    }
}
