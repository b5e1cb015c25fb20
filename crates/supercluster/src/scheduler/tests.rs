//! The scheduler, with answers that the tests give.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use engine::EffectKind;
use engine::ports::{Count, Ports, Probe};
use framework::{CycleState, Pod, Status, Time, Uid};
use serde_json::json;
use testkit::{PodBuilder, pod};

use super::*;
use crate::message::*;
use crate::simulation::{SCHEDULER_NAME, engine};

struct Bench {
    scheduler: Scheduler,
    now: Time,
    /// Calls that are not answered yet.
    calls: Vec<(CallId, usize, Request)>,
    intents: Vec<(WriteId, u64, Intent)>,
    placements: Vec<(WriteId, Placement)>,
    decisions: Vec<Decision>,
    conditions: Vec<String>,
    abandoned: Vec<Committed>,
    leases: Vec<(WriteId, LeaseOperation)>,
    released: Vec<Uid>,
}

thread_local! {
    /// Number of panics of the plugin Careless.
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

struct CountPanics;

impl Probe for CountPanics {
    fn count(&mut self, count: Count<'_>) {
        if matches!(count, Count::Panic { plugin } if **plugin == *"Careless") {
            PANICS.set(PANICS.get() + 1);
        }
    }
}

fn ports<T>(run: impl FnOnce(&mut Ports<'_>) -> T) -> T {
    run(&mut Ports { extenders: &mut (), probe: &mut CountPanics })
}

fn config(clusters: usize) -> SchedulerConfig {
    let member = |n: usize| Cluster {
        name: format!("c{n}").into(),
        labels: [("region", if n == 0 { "eu" } else { "us" })].into_iter().collect(),
        properties: [("cost".into(), format!("{n}").into())].into(),
        closed: None,
    };
    let members = (0..clusters).map(member).collect();
    SchedulerConfig { clusters_to_sample_bp: 10_000, ..SchedulerConfig::new("me", members) }
}

fn job(name: &str) -> PodBuilder {
    pod(name).uid(&format!("uid-{name}")).scheduler(SCHEDULER_NAME).cpu("1").label("app", "a")
}

fn original(pod: PodBuilder, version: u64) -> OriginalPod {
    let api = pod.with(|pod| pod.metadata.resource_version = version.to_string()).api();
    let object = Arc::new(json!(api));
    OriginalPod::new(PodObject { pod: Arc::new(Pod::from_api(&api)), object })
}

/// Answers with nodes of these names and scores.
fn sample(cluster: usize, nodes: &[(&str, i64)]) -> Response {
    let node = |(name, score): &(&str, i64)| NodeSample {
        name: (*name).into(),
        score: *score,
        free: FreeResources::default(),
        labels: BTreeMap::new(),
    };
    let snapshot =
        Snapshot { incarnation: format!("life-{cluster}").into(), taken_ms: 7, revision: 3 };
    Response::Sample(Ok(Arc::new(SampleResponse {
        cluster: format!("id-{cluster}").into(),
        snapshot,
        nodes: nodes.iter().map(node).collect(),
        score_weight: 10,
        total_nodes: 100,
        looked_at: 2,
        reason: nodes.is_empty().then(|| "0/100 nodes are available: 100 full.".to_owned()),
    })))
}

fn conflict() -> Response {
    let conflict = Conflict { code: ConflictCode::Resources, message: "full".to_owned() };
    Response::Commit(CommitOutcome::Conflict(conflict))
}

fn committed(request: &CommitRequest) -> Committed {
    let fence_after_s = request.terms.as_ref().map(|terms| terms.fence_after_s);
    let (key, node) = (request.key.clone(), request.target.node.clone());
    Committed { key, uid: "d".into(), node, fence_after_s }
}

impl Bench {
    fn new(config: SchedulerConfig) -> Self {
        Self {
            scheduler: Scheduler::new(config, engine(SCHEDULER_NAME, 1)),
            now: Time::from_secs(1_000),
            calls: Vec::new(),
            intents: Vec::new(),
            placements: Vec::new(),
            decisions: Vec::new(),
            conditions: Vec::new(),
            abandoned: Vec::new(),
            leases: Vec::new(),
            released: Vec::new(),
        }
    }

    fn take(&mut self) {
        for output in self.scheduler.take_outputs() {
            match output {
                SchedulerOutput::Call { id, cluster, request } => {
                    self.calls.push((id, cluster.0, request));
                }
                SchedulerOutput::WriteIntent { id, resource_version, intent, .. } => {
                    self.intents.push((id, resource_version, intent));
                }
                SchedulerOutput::WritePlacement { id, placement, .. } => {
                    self.placements.push((id, placement));
                }
                SchedulerOutput::Decided(decision) => self.decisions.push(decision),
                SchedulerOutput::Abandoned { committed, .. } => self.abandoned.push(committed),
                SchedulerOutput::Lease { id, operation, .. } => self.leases.push((id, operation)),
                SchedulerOutput::Released { pod, .. } => self.released.push(pod),
                SchedulerOutput::Effect(effect) => {
                    if let EffectKind::PatchPodStatus { patch, .. } = effect.kind {
                        let condition = patch.condition.map(|own| own.message.to_string());
                        self.conditions.extend(condition);
                    }
                }
            }
        }
    }

    fn see(&mut self, original: OriginalPod) {
        ports(|ports| self.scheduler.original(original, self.now, ports));
        self.take();
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        ports(|ports| self.scheduler.tick(self.now, ports));
        self.take();
    }

    fn answer(&mut self, id: CallId, response: Response) {
        ports(|ports| self.scheduler.called(id, Ok(response), self.now, ports));
        self.take();
    }

    /// Answers the sample request to a cluster.
    fn sampled(&mut self, cluster: usize, nodes: &[(&str, i64)]) {
        let is_own = |(_, own, request): &(CallId, usize, Request)| {
            *own == cluster && matches!(request, Request::Sample(_))
        };
        let place = self.calls.iter().position(is_own).expect("the cluster was asked");
        let (id, ..) = self.calls.remove(place);
        self.answer(id, sample(cluster, nodes));
    }

    /// Answers the read or write of a Lease, which must be the only one. Returns it.
    fn lease(&mut self, answer: LeaseAnswer) -> LeaseOperation {
        let [(id, operation)] =
            std::mem::take(&mut self.leases).try_into().expect("one operation is under way");
        ports(|p| self.scheduler.lease_answered(id, answer, self.now, p));
        self.take();
        operation
    }

    /// Answers the renewal of a lease, which must be requested.
    fn stamp(&mut self) -> Option<Stamp> {
        let is_renewal =
            |(_, _, request): &(CallId, usize, Request)| matches!(request, Request::Renew(_));
        let place = self.calls.iter().position(is_renewal).expect("a renewal is requested");
        let (id, _, request) = self.calls.remove(place);
        let Request::Renew(RenewRequest { heard, .. }) = request else { unreachable!() };
        let taken_ms =
            u64::try_from(self.now.as_nanos() / 1_000_000).expect("the time is not negative");
        let stamp = Stamp { incarnation: "life-0".into(), taken_ms };
        let renewed = RenewResponse { cluster: "id-0".into(), stamp };
        self.answer(id, Response::Renew(Ok(renewed)));
        heard
    }

    fn claimed(&mut self) -> Intent {
        let (id, version, intent) = self.intents.remove(0);
        let done = WriteAnswer::Done(version + 1);
        ports(|ports| self.scheduler.written(id, done, self.now, ports));
        self.take();
        intent
    }

    /// Takes the one open commit request.
    fn commit(&mut self) -> (CallId, usize, Arc<CommitRequest>) {
        let is_commit =
            |(_, _, request): &(CallId, usize, Request)| matches!(request, Request::Commit(_));
        let place = self.calls.iter().position(is_commit).expect("a commit was requested");
        match self.calls.remove(place) {
            (id, cluster, Request::Commit(request)) => (id, cluster, request),
            _ => unreachable!("it is a commit"),
        }
    }

    fn seal(&mut self) -> (CallId, usize, CommitKey) {
        match self.calls.remove(0) {
            (id, cluster, Request::Seal(request)) => (id, cluster, request.key),
            other => panic!("{other:?}"),
        }
    }

    fn names(&self) -> Vec<&str> {
        let last = self.decisions.last().expect("a decision was made");
        last.candidates.iter().map(|candidate| &*candidate.node).collect()
    }
}

#[test]
fn highest_scores_of_all_clusters_are_tried_in_order() {
    let mut bench = Bench::new(config(3));
    bench.see(original(job("p"), 5));
    bench.sampled(0, &[("a1", 700), ("a2", 300)]);
    bench.sampled(2, &[]);
    assert!(bench.intents.is_empty(), "a cluster has not answered");
    bench.sampled(1, &[("b1", 650), ("b2", 100)]);
    assert_eq!(bench.names(), ["a1", "b1", "a2"]);
    let intent = bench.claimed();
    assert_eq!((intent.attempt, &*intent.scheduler), (1, "me"));
    assert_eq!(intent.clusters, ["c0".into(), "c1".into()]);

    let (id, cluster, request) = bench.commit();
    assert_eq!((cluster, &*request.target.node, request.key.number.candidate), (0, "a1", 0));
    assert_eq!(&*request.snapshot.incarnation, "life-0");
    bench.answer(id, conflict());
    let (id, cluster, request) = bench.commit();
    assert_eq!((cluster, &*request.target.node, request.key.number.candidate), (1, "b1", 1));
    let done = Response::Commit(CommitOutcome::Committed(committed(&request)));
    bench.answer(id, done);
    let (id, placement) = bench.placements.remove(0);
    assert_eq!((&*placement.cluster, &*placement.committed.node), ("c1", "b1"));
    ports(|p| bench.scheduler.written(id, WriteAnswer::Done(9), bench.now, p));
    assert_eq!(bench.scheduler.explain(&Uid::from("uid-p")), None);
    let stats = bench.scheduler.stats();
    assert_eq!((stats.commits, stats.conflicts, stats.failed_rounds, stats.placed), (2, 1, 0, 1));
}

#[test]
fn fresh_samples_follow_when_every_candidate_met_a_conflict() {
    let mut bench = Bench::new(SchedulerConfig { commit_candidates: 1, ..config(1) });
    bench.see(original(job("p"), 5));
    bench.sampled(0, &[("a", 700)]);
    bench.claimed();
    let (id, ..) = bench.commit();
    bench.answer(id, conflict());
    let Some((_, _, Request::Sample(request))) = bench.calls.first() else { panic!("a sample") };
    assert_eq!(request.scheduling_retry_count, 1, "plugins of the agent know the retry count");
    bench.sampled(0, &[("b", 700)]);
    let (_, version, _) = bench.intents[0].clone();
    assert_eq!(version, 6, "the version after the scheduler's own write");
    assert_eq!(bench.claimed().attempt, 2);
    let (_, _, request) = bench.commit();
    assert_eq!(&*request.target.node, "b");
    assert_eq!(bench.scheduler.stats().failed_rounds, 1);
}

#[test]
fn equally_good_nodes_are_chosen_at_random() {
    let mut first = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let mut bench = Bench::new(SchedulerConfig { seed, ..config(1) });
        bench.see(original(job("p"), 5));
        bench.sampled(0, &[("a", 500), ("b", 500), ("c", 500), ("d", 500), ("low", 499)]);
        assert!(!bench.names().contains(&"low"));
        first.insert(bench.names()[0].to_owned());
    }
    assert_eq!(first.len(), 4, "{first:?}");
}

#[test]
fn lost_answer_is_asked_for_and_sealed_before_another_cluster_is_tried() {
    let mut bench = Bench::new(config(2));
    bench.see(original(job("p"), 5));
    bench.sampled(0, &[("a", 700)]);
    bench.sampled(1, &[("b", 600)]);
    bench.claimed();
    let (late, _, request) = bench.commit();
    bench.pass(Duration::from_secs(5));
    let (_, cluster, key) = bench.seal();
    assert_eq!((cluster, &key), (0, &request.key));
    for _ in 0..5 {
        bench.pass(Duration::from_secs(10));
    }
    let mut asked = bench.calls.drain(..).map(|(id, cluster, request)| {
        assert!(
            matches!(request, Request::Seal(_)) && cluster == 0,
            "only the first cluster is asked"
        );
        id
    });
    let last = asked.next_back().expect("the question is repeated");
    asked.for_each(drop);
    let doing = bench.scheduler.explain(&Uid::from("uid-p")).unwrap();
    assert_eq!(doing, "waiting for c0 to say whether it has placed the pod");
    bench.answer(last, Response::Seal(SealOutcome::Sealed));
    let (_, cluster, next) = bench.commit();
    assert_eq!((cluster, &*next.target.node), (1, "b"));
    // The answer to the sealed commit changes nothing.
    bench.answer(late, conflict());
    assert!(bench.calls.is_empty());
}

#[test]
fn late_answer_and_restarted_agent_are_told_apart() {
    let mut bench = Bench::new(config(2));
    bench.see(original(job("p"), 5));
    bench.sampled(0, &[("a", 700)]);
    bench.sampled(1, &[("b", 600)]);
    bench.claimed();
    let (late, _, request) = bench.commit();
    bench.pass(Duration::from_secs(5));
    let done = Response::Commit(CommitOutcome::Committed(committed(&request)));
    bench.answer(late, done);
    assert_eq!(bench.placements.len(), 1, "a late answer is one");

    let mut bench = Bench::new(config(2));
    bench.see(original(job("p"), 5));
    bench.sampled(0, &[("a", 700)]);
    bench.sampled(1, &[("b", 600)]);
    bench.claimed();
    let (late, ..) = bench.commit();
    bench.pass(Duration::from_secs(5));
    let refusal = Refusal::new(RefusalCode::Busy, "a copy of the request came later");
    bench.answer(late, Response::Commit(CommitOutcome::Rejected(refusal)));
    let is_commit = |(_, _, request): &(_, _, Request)| matches!(request, Request::Commit(_));
    assert!(!bench.calls.iter().any(is_commit), "the other cluster is not tried before the seal");

    for code in [RefusalCode::OtherIncarnation, RefusalCode::NotReady] {
        let mut bench = Bench::new(config(2));
        bench.see(original(job("p"), 5));
        bench.sampled(0, &[("a", 700)]);
        bench.sampled(1, &[("b", 600)]);
        bench.claimed();
        let (id, ..) = bench.commit();
        let refusal = Refusal::new(code, "started anew");
        bench.answer(id, Response::Commit(CommitOutcome::Rejected(refusal)));
        let (_, cluster, _) = bench.seal();
        assert_eq!(cluster, 0, "an earlier copy of the commit may have been carried out");
    }
}

#[test]
fn stragglers_do_not_hold_up_a_pod() {
    let mut bench = Bench::new(config(4));
    bench.see(original(job("p"), 5));
    bench.sampled(0, &[("a", 100)]);
    bench.sampled(1, &[("b", 200)]);
    assert!(bench.decisions.is_empty());
    bench.pass(Duration::from_millis(101));
    assert_eq!(bench.names(), ["b", "a"], "half of the clusters have answered");

    let mut bench = Bench::new(config(2));
    for round in 0..3 {
        bench.see(original(job(&format!("p{round}")), 5));
        bench.pass(Duration::from_millis(1_001));
    }
    let condition = bench.conditions.first().unwrap();
    assert_eq!(
        condition,
        "0/2 clusters are available: c0: its agent did not answer in time; \
         c1: its agent did not answer in time."
    );
    let asked = bench.calls.len();
    bench.see(original(job("q"), 5));
    assert_eq!(bench.calls.len(), asked, "silent clusters are left alone for a while");
}

#[test]
fn pod_is_unschedulable_only_if_all_clusters_have_said_so() {
    let mut bench = Bench::new(SchedulerConfig { clusters_to_sample_bp: 1, ..config(3) });
    bench.see(original(job("p"), 5));
    assert_eq!(bench.calls.len(), 1);
    let first = bench.calls[0].1;
    bench.sampled(first, &[]);
    assert_eq!(bench.calls.len(), 3, "then all are asked");
    (0..3).for_each(|cluster| bench.sampled(cluster, &[]));
    let text = "0/3 clusters are available: c0: 0/100 nodes are available: 100 full; \
        c1: 0/100 nodes are available: 100 full; c2: 0/100 nodes are available: 100 full.";
    assert_eq!(bench.conditions, [text]);
    bench.pass(Duration::from_secs(2));
    assert!(!bench.calls.is_empty(), "it is tried again after a backoff");
}

#[test]
fn intent_of_another_scheduler_is_respected_and_taken_over_after_a_seal() {
    let mut bench = Bench::new(config(3));
    let intent = json!({"attempt": 4, "scheduler": "other", "clusters": ["c1", "c2"]}).to_string();
    let claimed = job("p").with(move |pod| {
        pod.metadata.annotations.insert(INTENT.to_owned(), intent);
    });
    bench.see(original(claimed, 5));
    assert!(bench.calls.is_empty());
    bench.pass(Duration::from_secs(31));
    let seals = [bench.seal(), bench.seal()];
    assert_eq!(seals.each_ref().map(|(_, cluster, _)| *cluster), [1, 2]);
    assert_eq!(seals[0].2.number, TryNumber::last_of(4));
    bench.answer(seals[0].0, Response::Seal(SealOutcome::Sealed));
    assert!(bench.calls.is_empty(), "the other cluster may run the pod");
    bench.answer(seals[1].0, Response::Seal(SealOutcome::Sealed));
    (0..3).for_each(|cluster| bench.sampled(cluster, &[("n", 100)]));
    assert_eq!(bench.claimed().attempt, 5);

    // The other scheduler had placed it.
    let mut bench = Bench::new(config(3));
    let intent = json!({"attempt": 4, "scheduler": "me", "clusters": ["c1"]}).to_string();
    let own = job("p").with(move |pod| {
        pod.metadata.annotations.insert(INTENT.to_owned(), intent);
    });
    bench.see(original(own, 5));
    let (id, _, key) = bench.seal();
    let committed = Committed { key, uid: "d".into(), node: "n".into(), fence_after_s: None };
    bench.answer(id, Response::Seal(SealOutcome::Committed(committed)));
    assert_eq!(&*bench.placements[0].1.cluster, "c1", "a restarted scheduler finds its commit");
}

#[test]
fn answer_to_the_seal_of_an_earlier_try_says_nothing_about_a_later_one() {
    let sealed = || Response::Seal(SealOutcome::Sealed);
    let mut bench = Bench::new(config(1));
    bench.see(original(job("p"), 5));
    bench.sampled(0, &[("a", 700), ("b", 600)]);
    bench.claimed();
    let _unanswered = bench.commit();
    bench.pass(Duration::from_secs(5));
    let first = bench.seal();
    bench.pass(Duration::from_secs(1));
    let second = bench.seal();
    bench.answer(first.0, sealed());
    let (_, _, request) = bench.commit();
    assert_eq!(&*request.target.node, "b");
    bench.pass(Duration::from_secs(5));
    let later = bench.seal();
    bench.answer(second.0, sealed());
    assert!(bench.calls.is_empty(), "the delegate may run on b");
    bench.answer(later.0, Response::Seal(SealOutcome::Committed(committed(&request))));
    assert_eq!(bench.placements.len(), 1);

    // The same for the attempt of another scheduler.
    let mut bench = Bench::new(config(1));
    let claim = |attempt: u32, version| {
        let intent = json!({"attempt": attempt, "scheduler": "other", "clusters": ["c0"]});
        let claimed = job("p").with(move |pod| {
            pod.metadata.annotations.insert(INTENT.to_owned(), intent.to_string());
        });
        original(claimed, version)
    };
    bench.see(claim(4, 5));
    bench.pass(Duration::from_secs(31));
    let first = bench.seal();
    bench.pass(Duration::from_secs(1));
    let second = bench.seal();
    bench.answer(first.0, sealed());
    bench.sampled(0, &[("a", 700)]);
    // It goes on after all.
    let (id, ..) = bench.intents.remove(0);
    ports(|p| bench.scheduler.written(id, WriteAnswer::Conflict, bench.now, p));
    bench.see(claim(5, 6));
    bench.pass(Duration::from_secs(31));
    bench.pass(Duration::from_secs(31));
    assert_eq!(bench.seal().2.number, TryNumber::last_of(5));
    bench.calls.clear();
    bench.answer(second.0, sealed());
    assert!(bench.calls.is_empty(), "the other scheduler may commit it");
}

#[test]
fn lost_claim_commits_nothing() {
    let mut bench = Bench::new(config(1));
    bench.see(original(job("p"), 5));
    bench.sampled(0, &[("a", 700)]);
    let (id, version, _) = bench.intents.remove(0);
    assert_eq!(version, 5);
    ports(|p| bench.scheduler.written(id, WriteAnswer::Conflict, bench.now, p));
    bench.take();
    assert!(bench.calls.is_empty());
    let intent = json!({"attempt": 1, "scheduler": "other", "clusters": ["c0"]}).to_string();
    bench.see(original(
        job("p").with(move |pod| {
            pod.metadata.annotations.insert(INTENT.to_owned(), intent);
        }),
        6,
    ));
    bench.pass(Duration::from_secs(1));
    assert!(bench.calls.is_empty(), "the other scheduler goes on");
}

#[test]
fn pod_that_is_deleted_during_its_commit_leaves_no_delegate() {
    let mut bench = Bench::new(config(1));
    let seen = original(job("p"), 5);
    let (key, uid) = (seen.object.pod.key.clone(), seen.object.pod.uid.clone());
    bench.see(seen);
    bench.sampled(0, &[("a", 700)]);
    bench.claimed();
    let (id, _, request) = bench.commit();
    ports(|p| bench.scheduler.pod_deleted(&key, &uid, bench.now, p));
    let done = committed(&request);
    bench.answer(id, Response::Commit(CommitOutcome::Committed(done.clone())));
    assert_eq!(bench.abandoned, [done]);
    assert!(bench.placements.is_empty());
}

#[test]
fn best_nodes_get_the_score_of_the_next_candidate_as_a_floor() {
    let mut bench = Bench::new(config(3).with_strategy("best"));
    bench.see(original(job("p"), 5));
    bench.sampled(0, &[("a1", 700), ("a2", 690)]);
    bench.sampled(1, &[("b", 655)]);
    bench.sampled(2, &[("c", 100)]);
    let candidates = &bench.decisions[0].candidates;
    let named: Vec<_> = candidates.iter().map(|own| (&*own.node, own.best_of_at_least)).collect();
    assert_eq!(named, [("a1", Some(655)), ("b", Some(100)), ("c", Some(0))]);
}

#[test]
fn agent_that_lies_and_cluster_that_is_listed_twice_are_left_out() {
    let mut bench = Bench::new(config(3));
    bench.see(original(job("p"), 5));
    bench.sampled(0, &[("a", 1_001)]);
    bench.sampled(1, &[("b", 100)]);
    let place = bench.calls.iter().position(|(_, cluster, _)| *cluster == 2).unwrap();
    let (id, ..) = bench.calls.remove(place);
    bench.answer(id, sample(1, &[("b", 100)]));
    assert_eq!(bench.names(), ["b"], "10 plugins cannot give 1,001 points; c2 is c1");
}

#[test]
fn nodes_of_one_name_in_several_clusters_are_told_apart() {
    let mut bench = Bench::new(config(2));
    bench.see(original(job("p"), 5));
    bench.sampled(0, &[("n", 300)]);
    bench.sampled(1, &[("n", 700)]);
    assert_eq!(bench.names(), ["n", "n"]);
    assert_eq!(bench.claimed().clusters, ["c1".into(), "c0".into()]);
    let (id, cluster, _) = bench.commit();
    assert_eq!(cluster, 1);
    bench.answer(id, conflict());
    let (id, cluster, request) = bench.commit();
    assert_eq!((cluster, &*request.snapshot.incarnation), (0, "life-0"));
    bench.answer(id, Response::Commit(CommitOutcome::Committed(committed(&request))));
    assert_eq!(&*bench.placements[0].1.cluster, "c0");
}

#[test]
fn pods_choose_clusters_and_spread_over_them() {
    let mut bench = Bench::new(config(3));
    let selector = json!({"matchLabels": {"region": "eu"}}).to_string();
    let annotated = |text: String| {
        move |pod: &mut framework::api::Pod| {
            pod.metadata.annotations.insert(plugins::CLUSTER_SELECTOR.to_owned(), text);
        }
    };
    bench.see(original(job("p").with(annotated(selector)), 5));
    let asked: Vec<usize> = bench.calls.iter().map(|(_, cluster, _)| *cluster).collect();
    assert_eq!(asked, [0]);
    bench.sampled(0, &[]);
    let text = bench.conditions.last().unwrap();
    assert!(text.contains("c1: it does not match the cluster selector of the pod"), "{text}");
    bench.see(original(job("q").with(annotated("{".to_owned())), 5));
    let text = bench.conditions.last().unwrap();
    assert!(text.contains("is no label selector"), "{text}");

    let spread = plugins::ClusterSpread::default();
    let plugin = WeightedPlugin { plugin: Arc::new(spread), weight: 10 };
    let mut bench = Bench::new(SchedulerConfig { plugins: vec![plugin], ..config(3) });
    for name in ["s1", "s2", "s3"] {
        bench.see(original(job(name), 5));
        // Without spreading c0 would be best each time.
        let scores = [600, 590, 580];
        (0..3).for_each(|cluster| bench.sampled(cluster, &[("n", scores[cluster])]));
        bench.claimed();
        let (id, _, request) = bench.commit();
        let done = Response::Commit(CommitOutcome::Committed(committed(&request)));
        bench.answer(id, done);
    }
    let mut clusters: Vec<_> =
        bench.placements.iter().map(|(_, placement)| placement.cluster.to_string()).collect();
    clusters.sort_unstable();
    assert_eq!(clusters, ["c0", "c1", "c2"]);

    let cost = plugins::ClusterCost { property: "cost".into() };
    let plugin = WeightedPlugin { plugin: Arc::new(cost), weight: 1 };
    let mut bench = Bench::new(SchedulerConfig { plugins: vec![plugin], ..config(3) });
    bench.see(original(job("p"), 5));
    (0..3).for_each(|cluster| bench.sampled(cluster, &[(["a", "b", "c"][cluster], 500)]));
    assert_eq!(bench.names(), ["a", "b", "c"], "the cheapest first");
}

#[test]
fn properties_are_matched_and_free_room_and_data_are_preferred() {
    let selector = json!({"matchLabels": {"cost": "1"}}).to_string();
    let mut bench = Bench::new(config(3));
    bench.see(original(
        job("p").with(move |pod| {
            pod.metadata.annotations.insert(plugins::CLUSTER_SELECTOR.to_owned(), selector);
        }),
        5,
    ));
    let asked: Vec<usize> = bench.calls.iter().map(|(_, cluster, _)| *cluster).collect();
    assert_eq!(asked, [1], "a property is matched like a label");

    let plugin = WeightedPlugin { plugin: Arc::new(plugins::ClusterLoad), weight: 1 };
    let mut bench = Bench::new(SchedulerConfig { plugins: vec![plugin], ..config(3) });
    bench.see(original(job("p"), 5));
    for (cluster, milli_cpu) in [(0, 1_000), (1, 4_000), (2, 2_000)] {
        let Response::Sample(Ok(sample)) = sample(cluster, &[("n", 500)]) else { unreachable!() };
        let mut sample = (*sample).clone();
        sample.nodes[0].name = ["a", "b", "c"][cluster].into();
        sample.nodes[0].free.milli_cpu = milli_cpu;
        let place = bench.calls.iter().position(|(_, own, _)| *own == cluster).unwrap();
        let (id, ..) = bench.calls.remove(place);
        bench.answer(id, Response::Sample(Ok(Arc::new(sample))));
    }
    assert_eq!(bench.names(), ["b", "c", "a"], "the most free room first");

    let data = plugins::DataLocality { property: "data-sets".into() };
    let plugin = WeightedPlugin { plugin: Arc::new(data), weight: 1 };
    let mut config = SchedulerConfig { plugins: vec![plugin], ..config(3) };
    for (cluster, sets) in [(1, "maps"), (2, "maps, images")] {
        config.clusters[cluster].properties.insert("data-sets".into(), sets.into());
    }
    let mut bench = Bench::new(config);
    bench.see(original(
        job("p").with(|pod| {
            let sets = "images,maps".to_owned();
            pod.metadata.annotations.insert(plugins::DATA_SETS.to_owned(), sets);
        }),
        5,
    ));
    (0..3).for_each(|cluster| bench.sampled(cluster, &[(["a", "b", "c"][cluster], 500)]));
    assert_eq!(bench.names(), ["c", "b", "a"], "the most data first");
}

#[test]
fn pods_beyond_the_maximum_in_flight_wait_in_the_queue() {
    let mut bench = Bench::new(SchedulerConfig { max_in_flight: 2, ..config(1) });
    for name in ["p", "q", "r"] {
        bench.see(original(job(name), 5));
    }
    assert_eq!(bench.calls.len(), 2);
    bench.sampled(0, &[]);
    assert_eq!(bench.calls.len(), 2, "the third one starts");
}

fn record(renewals: u64, fences: u64) -> LeaseRecord {
    let resource_version = renewals + fences;
    LeaseRecord { uid: "lease".into(), resource_version, renewals, fences }
}

/// A pod that may be replaced is placed in the only cluster, whose lease was renewed once.
fn placed_with_a_lease(bench: &mut Bench) {
    bench.see(original(job("p"), 5));
    assert_eq!(
        bench.conditions,
        ["0/1 clusters are available: c0: its agent has not agreed to a lease."]
    );
    assert_eq!(bench.lease(LeaseAnswer::Record(record(0, 0))), LeaseOperation::Read);
    assert_eq!(bench.stamp(), None, "first only a stamp is asked for");
    let written = bench.lease(LeaseAnswer::Record(record(1, 0)));
    assert_eq!(written, LeaseOperation::Renew(LeaseRecord { resource_version: 0, ..record(1, 0) }));
    assert!(bench.stamp().is_some(), "the request names the answer that arrived");
    bench.pass(Duration::from_secs(2));
    bench.sampled(0, &[("a", 500)]);
    assert_eq!(bench.claimed().fence_after_s, Some(15));
    let (id, _, request) = bench.commit();
    assert_eq!(request.terms, Some(LeaseTerms { lease: "lease".into(), fence_after_s: 15 }));
    let done = Response::Commit(CommitOutcome::Committed(committed(&request)));
    bench.answer(id, done);
    let (id, placement) = bench.placements.remove(0);
    assert_eq!(placement.committed.fence_after_s, Some(15));
    ports(|p| bench.scheduler.written(id, WriteAnswer::Done(9), bench.now, p));
    bench.take();
}

#[test]
fn pod_of_a_lost_cluster_is_replaced_after_its_lease_was_fenced() {
    let minute = Some(Duration::from_secs(60));
    let mut bench = Bench::new(SchedulerConfig { replace_after: minute, ..config(1) });
    placed_with_a_lease(&mut bench);
    // The agent is silent from now on. The Lease is read in between, because another scheduler may
    // renew it.
    let mut reads = 0;
    while bench.now < Time::from_secs(1_000 + 59) {
        bench.pass(Duration::from_secs(1));
        if let Some((_, operation)) = bench.leases.first().cloned() {
            let renewed =
                LeaseOperation::Renew(LeaseRecord { resource_version: 1, ..record(2, 0) });
            // The stamp of the last answer is used for one more renewal, which fails.
            let answer = match operation == renewed {
                true => LeaseAnswer::Failed("no answer".to_owned()),
                false => LeaseAnswer::Record(record(1, 0)),
            };
            reads += 1;
            bench.lease(answer);
        }
        bench.calls.clear();
    }
    assert!(reads > 4 && bench.intents.is_empty());
    let fence = LeaseOperation::Fence(LeaseRecord { resource_version: 1, ..record(1, 1) });
    while bench.leases.first().is_none_or(|(_, operation)| *operation != fence) {
        bench.pass(Duration::from_secs(1));
        bench.calls.clear();
        if bench.leases.first().is_some_and(|(_, operation)| *operation == LeaseOperation::Read) {
            bench.lease(LeaseAnswer::Record(record(1, 0)));
        }
        assert!(bench.now < Time::from_secs(1_080), "the lease is fenced");
    }
    assert!(bench.intents.is_empty(), "another scheduler may have renewed it");
    bench.lease(LeaseAnswer::Record(record(1, 1)));
    assert!(bench.now >= Time::from_secs(1_060));
    let (id, version, intent) = bench.intents.remove(0);
    assert_eq!((version, intent.attempt, intent.clusters.len()), (9, 2, 0));
    bench.pass(Duration::from_secs(4));
    assert!(bench.leases.is_empty(), "the write of the pod is under way: {:?}", bench.leases);
    ports(|p| bench.scheduler.written(id, WriteAnswer::Done(10), bench.now, p));
    bench.take();
    assert_eq!(bench.scheduler.stats().replaced, 1);
    let waiting = bench.scheduler.engine().pending_pod(&PodKey::new("default", "p"));
    assert!(waiting.is_some(), "the pod is in the queue again");
    // The watch shows the pod as it was, and then as it is.
    let placed = json!({"cluster": "c0", "committed": {"pod": "uid-p", "attempt": 1, "candidate": 0,
        "uid": "d", "node": "a"}});
    let old = job("p").with(move |pod| {
        pod.metadata.annotations.insert(PLACEMENT.to_owned(), placed.to_string());
    });
    bench.see(original(old, 9));
    let waiting = bench.scheduler.engine().pending_pod(&PodKey::new("default", "p"));
    assert!(waiting.is_some(), "the scheduler knows better");
}

#[test]
fn lease_that_another_scheduler_renews_is_not_fenced() {
    let minute = Some(Duration::from_secs(60));
    let mut bench = Bench::new(SchedulerConfig { replace_after: minute, ..config(1) });
    placed_with_a_lease(&mut bench);
    let mut renewals = 1;
    while bench.now < Time::from_secs(1_000 + 300) {
        bench.pass(Duration::from_secs(1));
        bench.calls.clear();
        if let Some((_, operation)) = bench.leases.first().cloned() {
            let answer = match operation {
                LeaseOperation::Read => {
                    renewals += 1;
                    LeaseAnswer::Record(record(renewals, 0))
                }
                _ => LeaseAnswer::Conflict,
            };
            bench.lease(answer);
        }
    }
    assert!(renewals > 10 && bench.intents.is_empty());
}

#[test]
fn pod_that_names_no_time_says_so() {
    let mut bench = Bench::new(config(1));
    let annotated = job("p").with(|pod| {
        pod.metadata.annotations.insert(REPLACE_AFTER.to_owned(), "soon".to_owned());
    });
    bench.see(original(annotated, 5));
    assert!(bench.conditions[0].contains("\"soon\" is no time like 5m"), "{:?}", bench.conditions);
}

#[test]
fn explanation_has_samples_candidates_and_conflicts() {
    let mut bench = Bench::new(config(3));
    let pod = original(job("p"), 5);
    let key = pod.object.pod.key.clone();
    bench.see(pod);
    let state = |bench: &Bench| bench.scheduler.explanation(&key, bench.now).unwrap().state;
    assert_eq!(state(&bench), "waiting for samples of 3 clusters");
    bench.sampled(0, &[("a1", 700)]);
    bench.sampled(1, &[("b1", 650)]);
    bench.sampled(2, &[]);
    bench.claimed();
    let (id, ..) = bench.commit();
    bench.answer(id, conflict());
    bench.pass(Duration::from_secs(2));
    let explanation = bench.scheduler.explanation(&key, bench.now).unwrap();
    assert_eq!(explanation.state, "committing to node b1 of c1");
    assert_eq!(explanation.attempt, 1);
    let [round] = &explanation.rounds[..] else { panic!("{explanation:?}") };
    assert_eq!(round.seconds_ago, 2);
    let clusters: Vec<_> =
        round.clusters.iter().map(|own| (&*own.cluster, own.nodes, own.reason.clone())).collect();
    let full = Some("0/100 nodes are available: 100 full.".to_owned());
    assert_eq!(clusters, [("c0", 1, None), ("c1", 1, None), ("c2", 0, full)]);
    let candidates: Vec<_> = round
        .candidates
        .iter()
        .map(|own| (&*own.node, own.total_milli, own.commit.as_deref()))
        .collect();
    assert_eq!(
        candidates,
        [("a1", 70_000, Some("conflict Resources: full")), ("b1", 65_000, None)]
    );
    let (id, _, request) = bench.commit();
    bench.answer(id, Response::Commit(CommitOutcome::Committed(committed(&request))));
    let (id, _) = bench.placements.remove(0);
    ports(|p| bench.scheduler.written(id, WriteAnswer::Done(9), bench.now, p));
    assert_eq!(state(&bench), "placed in c1 on node b1");
    assert!(bench.scheduler.known_pod(&key).unwrap().1);
    let unknown = PodKey::new("default", "unknown");
    assert!(bench.scheduler.explanation(&unknown, bench.now).is_none());
}

#[test]
fn clusters_come_and_go_while_pods_are_decided() {
    let mut bench = Bench::new(config(2));
    bench.see(original(job("p"), 5));
    bench.sampled(0, &[("a", 700)]);
    bench.sampled(1, &[("b", 650)]);
    bench.claimed();
    // The commit to the first candidate is under way when both clusters leave.
    bench.scheduler.remove_cluster(ClusterIx(0));
    bench.scheduler.remove_cluster(ClusterIx(1));
    let (id, cluster, _) = bench.commit();
    assert_eq!(cluster, 0);
    bench.answer(id, conflict());
    let text = bench.conditions.last().unwrap();
    assert_eq!(text, "there is no cluster", "no commit is tried in a cluster that has left");
    let comes = Cluster { name: "c2".into(), ..Cluster::default() };
    bench.scheduler.set_cluster(ClusterIx(2), comes, bench.now);
    bench.pass(Duration::from_secs(30));
    let asked: Vec<usize> = bench.calls.iter().map(|(_, cluster, _)| *cluster).collect();
    assert_eq!(asked, [2]);
    bench.sampled(2, &[("c", 500)]);
    assert_eq!(bench.names(), ["c"]);
}

/// A plugin that panics at this point for the pod `bad`.
struct Careless(&'static str);

impl Careless {
    fn at(&self, point: &str, pod: &PodObject) {
        assert!(point != self.0 || *pod.pod.key.name != *"bad", "at {point}");
    }
}

impl DecisionPlugin for Careless {
    fn name(&self) -> &'static str {
        "Careless"
    }

    fn pre_filter(&self, _: &mut CycleState, pod: &DecisionPod<'_>) -> Status {
        self.at("PreFilter", pod.object);
        Status::success()
    }

    fn filter_cluster(&self, _: &CycleState, pod: &DecisionPod<'_>, _: &Cluster) -> Status {
        self.at("SampleNodes", pod.object);
        Status::success()
    }

    fn filter(&self, _: &CycleState, pod: &DecisionPod<'_>, _: &DecisionNode<'_>) -> Status {
        self.at("Filter", pod.object);
        Status::success()
    }

    fn pre_score(
        &self,
        _: &mut CycleState,
        pod: &DecisionPod<'_>,
        _: &[DecisionNode<'_>],
    ) -> Status {
        self.at("PreScore", pod.object);
        Status::success()
    }

    fn score(&self, _: &CycleState, pod: &DecisionPod<'_>, _: &DecisionNode<'_>) -> i64 {
        self.at("Score", pod.object);
        1
    }

    fn reserve(&self, pod: &PodObject, _: &Cluster) -> Status {
        self.at("Reserve", pod);
        Status::success()
    }

    fn unreserve(&self, pod: &PodObject, _: &Cluster) {
        self.at("Unreserve", pod);
    }
}

#[test]
fn panic_of_a_decision_plugin_costs_one_attempt_of_one_pod() {
    let points =
        ["PreFilter", "SampleNodes", "Filter", "PreScore", "Score", "Reserve", "Unreserve"];
    for (step, point) in points.into_iter().enumerate() {
        let plugin = Arc::new(Careless(point));
        let plugins = vec![WeightedPlugin { plugin, weight: 1 }];
        let mut bench = Bench::new(SchedulerConfig { plugins, ..config(1) });
        let before = PANICS.get();
        bench.see(original(job("bad"), 5));
        if step >= 2 {
            bench.sampled(0, &[("a", 1)]);
        }
        if step >= 5 {
            bench.claimed();
        }
        if point == "Unreserve" {
            let (id, ..) = bench.commit();
            bench.answer(id, conflict());
            bench.sampled(0, &[]);
        } else {
            let expected = format!("plugin \"Careless\" panicked: at {point}");
            assert!(bench.conditions[0].contains(&expected), "{:?}", bench.conditions);
        }
        assert_eq!(PANICS.get(), before + 1, "{point}");
        assert!(bench.calls.is_empty() && bench.scheduler.active == 0, "{point}");
        bench.see(original(job("good"), 6));
        bench.sampled(0, &[("a", 1)]);
        bench.claimed();
        let (id, _, request) = bench.commit();
        bench.answer(id, Response::Commit(CommitOutcome::Committed(committed(&request))));
        assert_eq!(bench.placements.len(), 1, "{point}");
    }
}

impl Bench {
    /// Answers everything that the other clusters are asked for. Their nodes have room for any pod.
    fn serve_all_but(&mut self, silent: usize) {
        loop {
            while !self.intents.is_empty() {
                self.claimed();
            }
            let Some(place) = self.calls.iter().position(|(_, own, _)| *own != silent) else {
                return;
            };
            let (id, cluster, request) = self.calls.remove(place);
            let answer = match &request {
                Request::Sample(_) => sample(cluster, &[("n", 100)]),
                Request::Commit(request) => {
                    Response::Commit(CommitOutcome::Committed(committed(request)))
                }
                other => panic!("{other:?}"),
            };
            self.answer(id, answer);
        }
    }
}

#[test]
fn silent_member_delays_few_pods_of_others_and_is_left_alone() {
    let step = Duration::from_millis(10);
    let mut bench = Bench::new(SchedulerConfig { max_in_flight: 50, ..config(3) });
    let mut waits: Vec<Duration> = Vec::new();
    let mut asked = 0;
    let mut arrived = Vec::new();
    for round in 0..1_000 {
        bench.see(original(job(&format!("p{round}")), 5));
        arrived.push(bench.now);
        bench.serve_all_but(2);
        bench.pass(step);
        bench.serve_all_but(2);
        for (id, placement) in std::mem::take(&mut bench.placements) {
            let now = bench.now;
            ports(|ports| bench.scheduler.written(id, WriteAnswer::Done(9), now, ports));
            let uid = placement.committed.key.pod.strip_prefix("uid-p").unwrap();
            let number: usize = uid.parse().unwrap();
            waits.push(bench.now.since(arrived[number]));
        }
        bench.take();
        asked += bench.calls.drain(..).count();
    }
    assert!(waits.len() >= 985, "{} of 1,000 pods are placed", waits.len());
    let longest = *waits.iter().max().unwrap();
    assert!(longest <= Duration::from_millis(120), "{longest:?}");
    let delayed = waits.iter().filter(|wait| **wait > step).count();
    assert!(delayed < 30, "{delayed} pods waited for the silent member");
    assert!(asked < 30, "it was asked {asked} times in ten seconds");
}

#[test]
fn commits_that_wait_for_a_silent_member_make_place_for_other_pods() {
    let in_c0 = json!({"matchLabels": {"region": "eu"}}).to_string();
    let of = |name: &str, selector: &str| {
        let (key, selector) = (plugins::CLUSTER_SELECTOR.to_owned(), selector.to_owned());
        original(job(name).with(|pod| drop(pod.metadata.annotations.insert(key, selector))), 5)
    };
    let mut bench = Bench::new(SchedulerConfig { max_in_flight: 4, ..config(2) });
    for number in 0..4 {
        bench.see(of(&format!("stuck-{number}"), &in_c0));
        bench.sampled(0, &[("a", 100)]);
        bench.claimed();
    }
    bench.see(of("other", &json!({"matchLabels": {"region": "us"}}).to_string()));
    bench.pass(Duration::from_millis(900));
    bench.serve_all_but(0);
    assert!(bench.placements.is_empty(), "the member may be slow");
    bench.pass(Duration::from_millis(101));
    bench.serve_all_but(0);
    let placed: Vec<&str> = bench.placements.iter().map(|(_, own)| &*own.cluster).collect();
    assert_eq!(placed, ["c1"]);
    let seals = |bench: &Bench| {
        bench.calls.iter().filter(|(_, _, request)| matches!(request, Request::Seal(_))).count()
    };
    assert_eq!(seals(&bench), 0, "a slow commit may still be answered");
    bench.pass(Duration::from_secs(4));
    assert_eq!(seals(&bench), 4);
}

#[test]
fn commit_of_a_member_that_answers_others_keeps_its_place() {
    let mut bench = Bench::new(SchedulerConfig { max_in_flight: 1, ..config(1) });
    bench.see(original(job("slow"), 5));
    bench.sampled(0, &[("a", 100)]);
    bench.claimed();
    bench.scheduler.members.heard(ClusterIx(0), bench.now + Duration::from_millis(1));
    bench.see(original(job("waits"), 5));
    bench.pass(Duration::from_millis(1_500));
    assert_eq!(bench.scheduler.active, 1);
    assert_eq!(bench.calls.len(), 1, "its server has much to do");
}

#[test]
fn lies_of_an_agent_cost_no_other_pod_its_placement() {
    let mut bench = Bench::new(config(1));
    bench.see(original(job("p"), 5));
    bench.sampled(0, &[("a", 100)]);
    bench.claimed();
    let (id, _, request) = bench.commit();
    let mut lie = committed(&request);
    lie.key.pod = "uid-other".into();
    bench.answer(id, Response::Commit(CommitOutcome::Committed(lie.clone())));
    assert!(bench.placements.is_empty());
    let (id, _, key) = bench.seal();
    assert_eq!(key.pod.as_ref(), "uid-p");
    bench.answer(id, Response::Seal(SealOutcome::Committed(lie)));
    assert!(bench.placements.is_empty(), "it is asked again");
    bench.pass(Duration::from_secs(1));
    let (id, ..) = bench.seal();
    bench.answer(id, Response::Seal(SealOutcome::Committed(committed(&request))));
    assert_eq!(bench.placements.len(), 1);

    // Long texts are cut, and free resources below zero are no advantage.
    let mut bench = Bench::new(SchedulerConfig {
        plugins: vec![WeightedPlugin { plugin: Arc::new(plugins::ClusterLoad), weight: 1 }],
        ..config(3)
    });
    bench.see(original(job("q"), 5));
    let Response::Sample(Ok(mut empty)) = sample(0, &[]) else { unreachable!("it is a sample") };
    Arc::make_mut(&mut empty).reason = Some("x".repeat(1 << 20));
    let of = |bench: &mut Bench, cluster: usize| {
        let place = bench.calls.iter().position(|(_, own, _)| *own == cluster).unwrap();
        bench.calls.remove(place).0
    };
    let id = of(&mut bench, 0);
    bench.answer(id, Response::Sample(Ok(empty)));
    let free = |bench: &mut Bench, cluster, name, milli_cpu| {
        let Response::Sample(Ok(mut free)) = sample(cluster, &[(name, 100)]) else {
            unreachable!("it is a sample")
        };
        Arc::make_mut(&mut free).nodes[0].free.milli_cpu = milli_cpu;
        let id = of(bench, cluster);
        bench.answer(id, Response::Sample(Ok(free)));
    };
    free(&mut bench, 1, "liar", i64::MIN);
    free(&mut bench, 2, "honest", 1_000);
    assert_eq!(bench.names(), ["honest", "liar"]);
    let key = framework::PodKey::new("default", "q");
    let explained = bench.scheduler.explanation(&key, bench.now).unwrap();
    let reason = explained.rounds[0].clusters[0].reason.as_ref().unwrap();
    assert_eq!(reason.len(), 1_000);
}
