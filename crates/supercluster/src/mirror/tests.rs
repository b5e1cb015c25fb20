//! The mirror as a whole.

use serde_json::json;

use super::*;
use crate::message::{CommitKey, Committed, GoneDelegate, PodObject, TryNumber};
use crate::scheduler::{Intent, Placement};

const NOW: Time = Time::from_secs(1_000);

/// Members by name, all of which answer.
struct Names<'a>(&'a [&'a str], bool);

impl Roster for Names<'_> {
    fn named(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|own| *own == name)
    }

    fn is_draining(&self, _: usize) -> bool {
        self.1
    }
}

const EU: Names<'static> = Names(&["eu"], false);

pub(super) fn delegate(pod: &str, uid: &str, status: Value) -> Arc<Delegate> {
    Arc::new(Delegate {
        pod: pod.into(),
        number: TryNumber { attempt: 2, candidate: 0 },
        namespace: "ns".into(),
        name: pod.into(),
        origin: None,
        uid: uid.into(),
        node: Some("n".into()),
        terminating: false,
        status,
        events: Vec::new(),
    })
}

/// A pod of the scheduler `s` that is placed in the first of these clusters as delegate `d`.
fn original(uid: &str, finalizers: &[&str], clusters: &[&str]) -> OriginalPod {
    let object = json!({"metadata": {"name": uid, "namespace": "ns", "uid": uid,
        "resourceVersion": "7", "finalizers": finalizers}, "spec": {}});
    let key = CommitKey { pod: uid.into(), number: TryNumber { attempt: 2, candidate: 0 } };
    let committed = Committed { key, uid: "d".into(), node: "n".into(), fence_after_s: None };
    let intended: Vec<Arc<str>> = clusters.iter().map(|name| (*name).into()).collect();
    let placement = Placement { cluster: intended[0].clone(), committed };
    let (attempt, scheduler, clusters) = (3, "s".into(), intended);
    let intent = Intent { attempt, scheduler, clusters, fence_after_s: None };
    let mut pod = OriginalPod::new(PodObject::from_json(object).unwrap());
    (pod.intent, pod.placement) = (Some(intent), Some(placement));
    pod
}

fn with_status(mut pod: OriginalPod, status: Value) -> OriginalPod {
    Arc::make_mut(&mut pod.object.object)["status"] = status;
    pod
}

fn list(begins_anew: bool, more: bool, delegates: &[Arc<Delegate>]) -> DelegateList {
    DelegateList {
        incarnation: "life".into(),
        revision: 1,
        begins_anew,
        more,
        delegates: delegates.to_vec(),
        gone: Vec::new(),
    }
}

/// The mirror of scheduler `s` with one member, of which it knows nothing yet.
fn mirror() -> Mirror {
    named_mirror("s", 0)
}

fn named_mirror(name: &str, index: u64) -> Mirror {
    let mut config = SchedulerConfig::new(name, Vec::new());
    config.origin = Some("own".into());
    (config.turn, config.takeover_wait) = ((index, 3), Duration::from_secs(10));
    let mut mirror = Mirror::new(&config);
    mirror.follow(0, NOW);
    mirror
}

fn next(mirror: &mut Mirror, roster: &impl Roster, seconds: u64) -> Option<Plan> {
    let now = NOW + Duration::from_secs(seconds);
    mirror.next(roster, now, now).map(|(_, plan)| plan)
}

fn plan_release(mirror: &mut Mirror, pod: OriginalPod, roster: &impl Roster) -> Option<Plan> {
    mirror.plan_release(&Uid::from("p"), &Original::new(pod), roster)
}

#[test]
fn deleted_pod_is_released_in_every_cluster_that_may_run_it() {
    let mut mirror = mirror();
    mirror.follow(1, NOW);
    let roster = Names(&["eu", "us"], false);
    let pod = original("p", &[FINALIZER, "x"], &["us", "eu"]);
    let plan = plan_release(&mut mirror, pod, &roster);
    let Some(Plan::Release { attempt, members, resource_version, finalizers, .. }) = plan else {
        panic!("{plan:?}")
    };
    assert_eq!((attempt, &*members, resource_version), (3, &[0, 1][..], 7));
    assert_eq!(finalizers, [FINALIZER, "x"]);
    let plan = plan_release(&mut mirror, original("p", &[FINALIZER], &["us", "asia"]), &roster);
    assert!(matches!(&plan, Some(Plan::Stuck(reason)) if reason.contains("asia")), "{plan:?}");
    let plan = plan_release(&mut mirror, original("p", &["x"], &["us"]), &roster);
    assert!(plan.is_none(), "the finalizer is gone: {plan:?}");
}

#[test]
fn deleted_pod_that_may_be_replaced_is_released_without_a_lost_cluster() {
    let (mut mirror, mut pod) = (mirror(), original("p", &[FINALIZER], &["asia"]));
    pod.placement.as_mut().unwrap().committed.fence_after_s = Some(60);
    let plan = plan_release(&mut mirror, pod.clone(), &EU);
    let Some(Plan::Release { members, may_be_lost, .. }) = plan else { panic!("{plan:?}") };
    let after = Duration::from_secs(60 + 30 + 15);
    assert_eq!((members.len(), &*may_be_lost), (0, &[("asia".into(), after)][..]));
    mirror.see(pod.clone());
    mirror.release(&"asia".into(), &Uid::from("p"));
    let plan = plan_release(&mut mirror, pod, &Names(&["asia"], false));
    let Some(Plan::Release { members, may_be_lost, .. }) = plan else { panic!("{plan:?}") };
    assert!(members.is_empty() && may_be_lost.is_empty());
}

#[test]
fn delegate_without_an_original_is_an_orphan_of_its_own_management_cluster() {
    let (mut mirror, uid) = (mirror(), Uid::from("p"));
    let of = |origin: &str| {
        let delegate = Delegate::clone(&delegate("p", "d", json!({})));
        list(true, false, &[Arc::new(Delegate { origin: Some(origin.into()), ..delegate })])
    };
    mirror.take(0, of("own"), NOW);
    assert!(mirror.left_over(&uid).is_none(), "its original may not be listed yet");
    mirror.set_synced();
    assert!(mirror.left_over(&uid).is_some());
    mirror.take(0, of("other"), NOW);
    assert!(mirror.left_over(&uid).is_none());
    let mut pod = original("p", &[], &["eu"]);
    mirror.see(pod.clone());
    assert!(mirror.left_over(&uid).is_none(), "it is placed there");
    let later = TryNumber { attempt: 4, candidate: 0 };
    let own = pod.placement.as_mut().unwrap();
    (own.committed.key.number, own.committed.uid) = (later, "e".into());
    mirror.see(pod);
    assert!(mirror.left_over(&uid).is_some(), "the pod runs elsewhere since");
}

fn event(number: usize, count: u32) -> DelegateEvent {
    DelegateEvent {
        uid: number.to_string().into(),
        warning: false,
        reason: "Pulled".into(),
        message: "image".into(),
        component: "kubelet".into(),
        count,
    }
}

#[test]
fn events_of_a_delegate_are_shown_once_and_in_bounds() {
    let mut pod = Original::new(original("p", &[], &["eu"]));
    let (mut own, eu) = (Delegate::clone(&delegate("p", "d", json!({}))), "eu".into());
    own.events = vec![event(1, 1), event(2, 1)];
    let first = pod.events_to_show(&own, &eu);
    assert_eq!(first.len(), 2);
    for ShownEvent { cluster, event, is_repeated } in first {
        assert!(!is_repeated);
        pod.shown.insert((cluster, event.uid), event.count);
    }
    own.events = vec![event(1, 1), event(2, 3)];
    let [ShownEvent { is_repeated: true, event: repeated, .. }] =
        &pod.events_to_show(&own, &eu)[..]
    else {
        panic!("the count has changed")
    };
    assert_eq!(repeated.count, 3);
    own.events = (0..100).map(|number| event(number, 1)).collect();
    let shown = pod.events_to_show(&own, &eu);
    assert_eq!(shown.iter().filter(|shown| !shown.is_repeated).count(), MAX_SHOWN - 2);
}

#[test]
fn pod_that_lost_its_delegate_is_pending() {
    let mut pod = original("p", &[], &["eu"]);
    pod.placement = None;
    let plan = |pod: &OriginalPod| plan::plan_pending(&Original::new(pod.clone()), NOW);
    assert!(plan(&pod).is_none(), "it has no status");
    pod = with_status(pod, json!({"phase": "Running"}));
    let Some(Plan::Show { status: Some(status), .. }) = plan(&pod) else { panic!("a status") };
    assert_eq!(status["phase"], "Pending");
    assert!(status["podIP"].is_null());
}

#[test]
fn delegate_that_a_whole_list_does_not_show_is_gone() {
    let mut mirror = mirror();
    let [p, q, r] = ["p", "q", "r"].map(|pod| delegate(pod, "d", json!({})));
    mirror.take(0, list(true, false, &[p.clone(), q]), NOW);
    assert!(mirror.members[0].is_complete);
    mirror.changed.clear();
    // The agent has been restarted, and lists in two pages.
    mirror.take(0, list(true, true, &[p]), NOW);
    assert!(!mirror.members[0].is_complete, "the rest may be on the next page");
    assert_eq!(mirror.members[0].delegates.len(), 2);
    mirror.take(0, list(false, false, &[r]), NOW);
    let known: Vec<String> = mirror.members[0].delegates.keys().map(ToString::to_string).collect();
    assert_eq!(known, ["p", "r"]);
    assert!(mirror.changed.contains(&Uid::from("q")));
    // A later delegate of the pod is not the one that is gone.
    let gone = |uid: &str| GoneDelegate { pod: "p".into(), uid: uid.into() };
    let deleted = |uid: &str| DelegateList { gone: vec![gone(uid)], ..list(false, false, &[]) };
    mirror.take(0, deleted("earlier"), NOW);
    assert_eq!(mirror.members[0].delegates.len(), 2);
    mirror.take(0, deleted("d"), NOW);
    assert_eq!(mirror.members[0].delegates.len(), 1);
}

#[test]
fn silence_of_an_agent_is_noticed_and_forgiven() {
    let mut mirror = mirror();
    mirror.see(original("p", &[], &["eu"]));
    mirror.take(0, list(true, false, &[]), NOW);
    assert!(!mirror.no_answer(0, NOW), "it has answered a moment ago");
    let later = NOW + UNREACHABLE_AFTER;
    assert!(mirror.no_answer(0, later) && !mirror.no_answer(0, later));
    assert!(!mirror.is_reachable(0) && mirror.changed.contains(&Uid::from("p")));
    mirror.changed.clear();
    mirror.take(0, list(false, false, &[]), later);
    assert!(mirror.is_reachable(0) && mirror.changed.contains(&Uid::from("p")));
}

#[test]
fn status_is_written_once_by_the_scheduler_whose_pod_it_is() {
    let running = json!({"phase": "Running"});
    let of = |mirror: &mut Mirror| {
        mirror.see(original("p", &[], &["eu"]));
        mirror.take(0, list(true, false, &[delegate("p", "d", running.clone())]), NOW);
    };
    let mut first = mirror();
    of(&mut first);
    let plan = next(&mut first, &EU, 0);
    let Some(Plan::Show { status: Some(status), .. }) = plan else { panic!("{plan:?}") };
    assert_eq!(status, running);
    let uid = Uid::from("p");
    first.status_written(&uid, status, false);
    first.done(&uid, true, NOW);
    first.look_at_all();
    assert!(next(&mut first, &EU, 0).is_none(), "the watch does not show it yet");

    let mut second = named_mirror("other", 1);
    of(&mut second);
    assert!(next(&mut second, &EU, 0).is_none());
    assert_eq!(second.next_deadline(), Some(NOW + Duration::from_secs(20)));
    let mut third = named_mirror("third", 2);
    of(&mut third);
    assert!(next(&mut third, &EU, 0).is_none());
    third.see(with_status(original("p", &[], &["eu"]), running.clone()));
    assert!(next(&mut third, &EU, 40).is_none(), "the status is shown by then");

    // The first one is gone.
    assert!(matches!(next(&mut second, &EU, 20), Some(Plan::Show { .. })));
    second.done(&uid, true, NOW);
    let mut changed = Delegate::clone(&delegate("p", "d", running.clone()));
    changed.events = vec![event(1, 1)];
    second.see(with_status(original("p", &[], &["eu"]), running.clone()));
    second.take(0, list(false, false, &[Arc::new(changed.clone())]), NOW);
    let plan = next(&mut second, &EU, 21);
    assert!(matches!(plan, Some(Plan::Show { status: None, .. })), "it has adopted it: {plan:?}");
    third.take(0, list(false, false, &[Arc::new(changed)]), NOW);
    assert!(next(&mut third, &EU, 100).is_none(), "events of others are theirs");
}

#[test]
fn scheduler_that_does_not_reach_an_agent_contradicts_another_one_once() {
    let running = json!({"phase": "Running"});
    let pod = with_status(original("p", &[], &["eu"]), running.clone());
    let (mut other, uid) = (named_mirror("other", 0), Uid::from("p"));
    other.see(pod.clone());
    other.take(0, list(true, false, &[delegate("p", "d", running)]), NOW);
    assert!(next(&mut other, &EU, 0).is_none());
    other.no_answer(0, NOW + UNREACHABLE_AFTER);
    assert!(next(&mut other, &EU, 40).is_none());
    let plan = next(&mut other, &EU, 50);
    let Some(Plan::Show { status: Some(status), is_unreachable: true, .. }) = plan else {
        panic!("{plan:?}")
    };
    other.status_written(&uid, status, true);
    other.done(&uid, true, NOW);
    // The scheduler that has the pod reaches the agent, and says so.
    other.see(pod);
    for seconds in [51, 70, 200] {
        other.look_at_all();
        assert!(next(&mut other, &EU, seconds).is_none());
    }
}

#[test]
fn missing_delegate_is_asked_for_and_a_failure_is_retried_after_a_pause() {
    let (mut mirror, uid) = (mirror(), Uid::from("p"));
    mirror.see(original("p", &[], &["eu"]));
    assert!(next(&mut mirror, &EU, 0).is_none(), "the agent has not listed its delegates");
    mirror.take(0, list(true, false, &[]), NOW);
    let plan = next(&mut mirror, &EU, 0);
    let Some(Plan::Missing { key, is_replaceable: false, .. }) = plan else { panic!("{plan:?}") };
    assert_eq!(key.number, TryNumber::last_of(2));
    mirror.look_at_all();
    assert!(next(&mut mirror, &EU, 0).is_none(), "it is being looked at");
    mirror.done(&uid, false, NOW);
    mirror.changed.clear();
    assert!(next(&mut mirror, &EU, 0).is_none());
    assert!(matches!(next(&mut mirror, &EU, 1), Some(Plan::Missing { .. })));
}

#[test]
fn delegates_that_no_pod_has_are_deleted() {
    let mut orphaned = mirror();
    let orphan = Delegate::clone(&delegate("p", "d", json!({})));
    let orphan = Arc::new(Delegate { origin: Some("own".into()), ..orphan });
    orphaned.take(0, list(true, false, &[orphan]), NOW);
    assert!(next(&mut orphaned, &EU, 0).is_none(), "its original may not be listed yet");
    orphaned.set_synced();
    let plan = next(&mut orphaned, &EU, 0);
    assert!(matches!(plan, Some(Plan::LeftOver { is_orphan: true, .. })), "{plan:?}");

    let (mut moved, mut pod) = (mirror(), original("p", &[], &["us"]));
    pod.placement.as_mut().unwrap().committed.key.number.attempt = 3;
    moved.see(pod);
    moved.take(0, list(true, false, &[delegate("p", "earlier", json!({}))]), NOW);
    let plan = next(&mut moved, &EU, 0);
    let Some(Plan::LeftOver { member: 0, delegate, is_orphan: false }) = plan else {
        panic!("{plan:?}")
    };
    assert_eq!(&*delegate.uid, "earlier");
}

#[test]
fn status_that_another_client_changes_is_written_again() {
    let (mut mirror, uid, running) = (mirror(), Uid::from("p"), json!({"phase": "Running"}));
    mirror.see(original("p", &[], &["eu"]));
    mirror.take(0, list(true, false, &[delegate("p", "d", running.clone())]), NOW);
    assert!(next(&mut mirror, &EU, 0).is_some());
    mirror.status_written(&uid, running.clone(), false);
    mirror.done(&uid, true, NOW);
    mirror.see(with_status(original("p", &[], &["eu"]), running.clone()));
    assert!(next(&mut mirror, &EU, 0).is_none());
    mirror.see(with_status(original("p", &[], &["eu"]), json!({"phase": "Failed"})));
    let plan = next(&mut mirror, &EU, 0);
    let Some(Plan::Show { status: Some(status), .. }) = plan else { panic!("{plan:?}") };
    assert_eq!(status, running);
}

#[test]
fn status_of_another_delegate_of_the_pod_is_not_shown() {
    let (mut mirror, pod) = (mirror(), original("p", &[], &["eu"]));
    mirror.see(pod);
    let other = delegate("p", "other", json!({"phase": "Failed"}));
    mirror.take(0, list(true, false, &[other]), NOW);
    let plan = next(&mut mirror, &EU, 0);
    assert!(matches!(plan, Some(Plan::Missing { .. })), "{plan:?}");
}

#[test]
fn only_pods_that_may_be_replaced_leave_a_drained_cluster() {
    let mut pod = original("p", &[], &["eu"]);
    let draining = Names(&["eu"], true);
    let plan = |pod: &OriginalPod| {
        let mut mirror = mirror();
        mirror.see(with_status(pod.clone(), json!({"phase": "Running"})));
        let own = delegate("p", "d", json!({"phase": "Running"}));
        mirror.take(0, list(true, false, &[own]), NOW);
        next(&mut mirror, &draining, 0)
    };
    assert!(plan(&pod).is_none());
    pod.placement.as_mut().unwrap().committed.fence_after_s = Some(60);
    assert!(matches!(plan(&pod), Some(Plan::Evict { .. })));
}

#[test]
fn member_that_hangs_leaves_room_for_the_others() {
    let mut mirror = mirror();
    mirror.follow(1, NOW);
    mirror.set_synced();
    let roster = Names(&["eu", "us"], false);
    let of_member = |member: usize, count: usize| {
        let left_over = (0..count).map(|number| {
            let pod = format!("{member}-{number:03}");
            let delegate = Delegate::clone(&delegate(&pod, &pod, json!({})));
            Arc::new(Delegate { origin: Some("own".into()), ..delegate })
        });
        list(true, false, &left_over.collect::<Vec<_>>())
    };
    let begin = |mirror: &mut Mirror| -> Vec<Uid> {
        std::iter::from_fn(|| mirror.next(&roster, NOW, NOW)).map(|(uid, _)| uid).collect()
    };
    mirror.take(0, of_member(0, 100), NOW);
    assert_eq!(begin(&mut mirror).len(), 32, "half of the room");
    mirror.take(1, of_member(1, 100), NOW);
    let others = begin(&mut mirror);
    assert_eq!(others.len(), 16, "half of what is left");
    let mut left: BTreeSet<_> = (16..100).map(|number| format!("1-{number:03}")).collect();
    let mut ended = others;
    while let Some(uid) = ended.pop() {
        mirror.done(&uid, true, NOW);
        for uid in begin(&mut mirror) {
            assert!(left.remove(&uid.to_string()), "{uid:?} of the member that hangs begins");
            ended.push(uid);
        }
    }
    assert!(left.is_empty(), "all others are looked at: {left:?}");
}
