//! The agent on the default profile, with a model API server that answers at once.

use std::sync::Arc;
use std::time::Duration;

use engine::ports::Ports;
use engine::{Change, Effect, EffectKind};
use framework::{Answer, NodeBits, Pod, PodKey, Time, Uid};
use serde_json::{Value, json};
use testkit::{NodeBuilder, PodBuilder, node, pod};

use super::*;
use crate::message::*;
use crate::simulation::member::MemberApi;
use crate::simulation::{AGENT_PROFILE, MemberAnswer, MemberEvent, MemberOperation, engine};

/// An agent, its API server, and the answers of the agent.
struct Cluster {
    agent: Agent,
    api: MemberApi,
    now: Time,
    calls: u64,
    responses: Vec<(CallId, Response)>,
    /// The API server does not carry out operations for which this is true; they are kept.
    holds_back: fn(&MemberOperation) -> bool,
    kept: Vec<MemberOperation>,
    last_bind: Option<engine::EffectId>,
    lives: u32,
    /// The copies by UID of the delegate.
    copies: Vec<(Uid, CommitCopies)>,
    /// The marks of the delegates that the watch has shown.
    marks: BTreeMap<Uid, DelegateMark>,
    /// When each lease was renewed, as the agent has stored it.
    renewed: BTreeMap<Arc<str>, Time>,
}

fn small(name: &str) -> NodeBuilder {
    node(name).allocatable("cpu", "4").allocatable("memory", "8Gi").allocatable("pods", "10")
}

fn is_bind(operation: &MemberOperation) -> bool {
    matches!(operation, MemberOperation::Effect(Effect { kind: EffectKind::Bind { .. }, .. }))
}

fn job(name: &str, cpu: &str) -> PodBuilder {
    pod(name).uid(&format!("uid-{name}")).cpu(cpu)
}

fn ports<T>(run: impl FnOnce(&mut Ports<'_>) -> T) -> T {
    run(&mut Ports { extenders: &mut (), probe: &mut () })
}

impl Cluster {
    fn new(nodes: impl IntoIterator<Item = NodeBuilder>) -> Self {
        let config = AgentConfig::new("cluster-id", "life-1", AGENT_PROFILE);
        let mut cluster = Self {
            agent: Agent::new(config, engine(AGENT_PROFILE, 1)),
            api: MemberApi::new(0, AGENT_PROFILE),
            now: Time::from_secs(1_000),
            calls: 0,
            responses: Vec::new(),
            holds_back: |_| false,
            kept: Vec::new(),
            last_bind: None,
            lives: 1,
            copies: Vec::new(),
            marks: BTreeMap::new(),
            renewed: BTreeMap::new(),
        };
        nodes.into_iter().for_each(|node| cluster.node(node));
        cluster.agent.set_synced();
        cluster
    }

    fn apply(&mut self, change: Change, mark: Option<&DelegateMark>) {
        ports(|ports| self.agent.apply(change, mark, self.now, ports));
        self.work();
    }

    fn node(&mut self, node: NodeBuilder) {
        self.apply(Change::Node(node.build()), None);
    }

    /// Another scheduler puts a pod on its node.
    fn foreign(&mut self, pod: PodBuilder) {
        let event = self.api.add_foreign(pod.build());
        self.show(event);
    }

    fn show(&mut self, event: MemberEvent) {
        match event {
            MemberEvent::Changed(seen) => {
                self.marks.extend(seen.mark.clone().map(|mark| (seen.pod.uid.clone(), mark)));
                self.apply(Change::Pod(Box::new((*seen.pod).clone())), seen.mark.as_ref());
            }
            MemberEvent::Deleted(key, uid) => {
                let mark = self.marks.get(&uid).cloned();
                self.apply(Change::PodDeleted { key, uid }, mark.as_ref());
            }
            MemberEvent::Event(..) => {}
        }
    }

    /// Carries out what the agent asks for, until it asks for nothing.
    fn work(&mut self) {
        loop {
            let outputs = self.agent.take_outputs();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                match output {
                    AgentOutput::Reply(call, response) => self.responses.push((call, response)),
                    AgentOutput::Create { id, pod, mark } => {
                        self.write(id, MemberOperation::Create { pod, mark });
                    }
                    AgentOutput::Read { id, pod } => self.write(id, MemberOperation::Read { pod }),
                    AgentOutput::Copy { delegate, request } => {
                        self.copies.push((delegate, request.copies.clone()));
                    }
                    AgentOutput::Delete { id, pod, uid, resource_version } => {
                        self.write(id, MemberOperation::Delete { pod, uid, resource_version });
                    }
                    AgentOutput::Fence { id, pod, uid } => {
                        self.write(id, MemberOperation::End { pod, uid });
                    }
                    AgentOutput::KeepLeases { id, renewed } => {
                        self.write(id, MemberOperation::KeepLeases { renewed });
                    }
                    AgentOutput::Effect(effect) => {
                        let (id, now) = (effect.id, self.now);
                        let bind = MemberOperation::Effect(effect);
                        if is_bind(&bind) {
                            self.last_bind = Some(id);
                            if let Some(MemberAnswer::Engine(answer)) = self.carry_out(bind) {
                                ports(|p| self.agent.effect_answered(id, &answer, now, p));
                            }
                        }
                    }
                }
            }
        }
    }

    fn write(&mut self, id: WriteId, operation: MemberOperation) {
        if let Some(MemberAnswer::Agent(answer)) = self.carry_out(operation) {
            ports(|ports| self.agent.write_answered(id, answer, self.now, ports));
        }
    }

    fn carry_out(&mut self, operation: MemberOperation) -> Option<MemberAnswer> {
        if (self.holds_back)(&operation) {
            self.kept.push(operation);
            return None;
        }
        if let MemberOperation::KeepLeases { renewed } = &operation {
            self.renewed.clone_from(renewed);
        }
        let (answer, event) = self.api.carry_out(&operation);
        event.into_iter().for_each(|event| self.show(event));
        Some(answer)
    }

    /// The API server carries out what it has held back. The client does not wait for it any more.
    fn carry_out_late(&mut self) {
        self.holds_back = |_| false;
        for operation in std::mem::take(&mut self.kept) {
            self.carry_out(operation);
        }
    }

    /// The agent crashes, and starts anew from lists.
    fn restart(&mut self) {
        self.lives += 1;
        let mut config =
            AgentConfig::new("cluster-id", &format!("life-{}", self.lives), AGENT_PROFILE);
        config.renewed = self.renewed.clone();
        let cluster = self.agent.cluster();
        let nodes: Vec<_> = cluster.nodes().iter().map(|node| cluster.to_node(node)).collect();
        self.agent = Agent::new(config, engine(AGENT_PROFILE, 2));
        self.responses.clear();
        nodes.into_iter().for_each(|node| {
            ports(|ports| self.agent.apply(Change::Node(node), None, self.now, ports));
        });
        for listed in self.api.pods.values().cloned().collect::<Vec<_>>() {
            let change = Change::Pod(Box::new((*listed.pod).clone()));
            ports(|ports| self.agent.apply(change, listed.mark.as_ref(), self.now, ports));
        }
        self.agent.set_synced();
        self.work();
    }

    /// Returns the answer to a request, if it has come.
    fn call(&mut self, request: &Request) -> Option<Response> {
        self.calls += 1;
        let call = CallId(self.calls);
        ports(|ports| self.agent.call(call, request, self.now, ports));
        self.work();
        self.response(call)
    }

    fn response(&self, call: CallId) -> Option<Response> {
        let mut all = self.responses.iter();
        all.find(|(own, _)| *own == call).map(|(_, response)| response.clone())
    }

    fn try_sample(
        &mut self,
        pod: PodBuilder,
        strategy: &str,
        basis_points: u32,
    ) -> Result<Arc<SampleResponse>, Refusal> {
        let request = SampleRequest {
            pod: object(pod),
            scheduling_retry_count: 0,
            strategy: strategy.into(),
            nodes_to_sample_bp: basis_points,
            max_nodes: None,
            node_labels: vec!["zone".into()],
            copies: Vec::new(),
        };
        match self.call(&Request::Sample(Arc::new(request))) {
            Some(Response::Sample(sample)) => sample,
            other => panic!("{other:?}"),
        }
    }

    fn sample(
        &mut self,
        pod: PodBuilder,
        strategy: &str,
        basis_points: u32,
    ) -> Arc<SampleResponse> {
        self.try_sample(pod, strategy, basis_points).expect("the request is valid")
    }

    /// Requests a commit that rests on the state at this time.
    fn request(&mut self, pod: PodBuilder, node: &str, number: TryNumber) -> Request {
        let snapshot = self.sample(pod.clone(), "all", 10_000).snapshot.clone();
        let pod = object(pod);
        let key = CommitKey { pod: pod.pod.uid.to_string().into(), number };
        let target = CommitTarget { node: node.into(), best_of_at_least: None };
        let (origin, terms) = (None, None);
        Request::Commit(Arc::new(CommitRequest {
            key,
            snapshot,
            pod,
            target,
            origin,
            terms,
            copies: Arc::from([]),
        }))
    }

    /// Requests a commit of a delegate that is fenced after this time.
    fn replaceable(&mut self, name: &str, number: TryNumber, fence_after_s: u32) -> Request {
        let Request::Commit(request) = self.request(job(name, "1"), "a", number) else {
            unreachable!("it is a commit")
        };
        let terms = Some(LeaseTerms { lease: "lease".into(), fence_after_s });
        Request::Commit(Arc::new(CommitRequest { terms, ..(*request).clone() }))
    }

    fn stamp(&mut self) -> Stamp {
        self.renew(None).expect("a stamp is always given")
    }

    fn renew(&mut self, heard: Option<Stamp>) -> Result<Stamp, RefusalCode> {
        match self.call(&Request::Renew(RenewRequest { lease: "lease".into(), heard })) {
            Some(Response::Renew(answer)) => {
                answer.map(|renewed| renewed.stamp).map_err(|refusal| refusal.code)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Lets time pass.
    fn pass(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        ports(|ports| self.agent.tick(self.now, ports));
        self.work();
    }

    fn is_ending(&self, pod: &str) -> bool {
        self.api.pods[&PodKey::new("default", pod)].pod.terminating
    }

    fn commit(&mut self, pod: PodBuilder, node: &str) -> CommitOutcome {
        let request = self.request(pod, node, nth(1, 0));
        outcome(self.call(&request))
    }

    fn seal(&mut self, pod: &str, number: TryNumber) -> Option<SealOutcome> {
        let key = CommitKey { pod: format!("uid-{pod}").into(), number };
        match self.call(&Request::Seal(SealRequest { key }))? {
            Response::Seal(outcome) => Some(outcome),
            other => panic!("{other:?}"),
        }
    }

    fn node_of(&self, pod: &str) -> Option<String> {
        let known = self.api.pods.get(&PodKey::new("default", pod))?;
        known.pod.node_name.as_deref().map(str::to_owned)
    }
}

const fn nth(attempt: u32, candidate: u16) -> TryNumber {
    TryNumber { attempt, candidate }
}

fn object(pod: PodBuilder) -> PodObject {
    let api = pod.api();
    PodObject { pod: Arc::new(Pod::from_api(&api)), object: Arc::new(json!(api)) }
}

fn outcome(response: Option<Response>) -> CommitOutcome {
    match response {
        Some(Response::Commit(outcome)) => outcome,
        other => panic!("{other:?}"),
    }
}

fn conflict(outcome: CommitOutcome) -> ConflictCode {
    match outcome {
        CommitOutcome::Conflict(conflict) => conflict.code,
        other => panic!("{other:?}"),
    }
}

fn refusal(outcome: CommitOutcome) -> RefusalCode {
    match outcome {
        CommitOutcome::Rejected(refusal) => refusal.code,
        other => panic!("{other:?}"),
    }
}

fn is_committed(outcome: &CommitOutcome) -> bool {
    matches!(outcome, CommitOutcome::Committed(_))
}

fn names(sample: &SampleResponse) -> Vec<&str> {
    let mut names: Vec<&str> = sample.nodes.iter().map(|node| &*node.name).collect();
    names.sort_unstable();
    names
}

#[test]
fn sample_has_the_share_of_all_nodes_and_only_nodes_that_fit() {
    let mut cluster = Cluster::new((0..150).map(|n| {
        let node = small(&format!("n{n:03}")).label("zone", "z");
        match n % 3 {
            0 => node.taint("dedicated", "x", "NoSchedule"),
            1 => node.unschedulable(),
            _ => node,
        }
    }));
    for strategy in ["random", "round-robin", "best"] {
        let sample = cluster.sample(job("p", "1"), strategy, 200);
        let count = sample.nodes.len();
        assert!((1..=3).contains(&count), "{strategy}: 2 % of 150, cordoned nodes count too");
        assert!(count == 3 || strategy != "best", "the best nodes are not drawn");
        for node in &sample.nodes {
            assert_eq!(node.name[1..].parse::<u32>().unwrap() % 3, 2, "{strategy}: {}", node.name);
            assert_eq!((node.free.milli_cpu, node.free.pods), (4_000, 10));
            assert_eq!(node.labels[&Arc::from("zone")], "z".into());
            assert!((1..=100 * sample.score_weight).contains(&node.score));
        }
        let distinct: std::collections::BTreeSet<_> = names(&sample).into_iter().collect();
        assert_eq!(distinct.len(), count, "{strategy}: no node twice");
    }
    assert_eq!(cluster.sample(job("p", "1"), "all", 1).nodes.len(), 50);
    assert_eq!(cluster.sample(job("p", "1"), "random", 10_000).nodes.len(), 50);
    assert_eq!(cluster.sample(job("p", "1"), "random", 0).nodes.len(), 1, "at least one");
    let refused = cluster.try_sample(job("p", "1"), "random", 10_001).unwrap_err();
    assert_eq!(refused.code, RefusalCode::Malformed);
    let unknown = cluster.try_sample(job("p", "1"), "two-smart", 1).unwrap_err();
    assert!(unknown.message.contains("all, best, random, round-robin"), "{}", unknown.message);
}

#[test]
fn answer_has_as_many_of_the_best_nodes_as_are_asked_for() {
    let mut cluster = Cluster::new(["a", "b", "c", "d"].map(small));
    cluster.foreign(job("other", "2").on("a"));
    let mut best = |max_nodes| {
        let request = SampleRequest {
            pod: object(job("p", "1")),
            scheduling_retry_count: 0,
            strategy: "all".into(),
            nodes_to_sample_bp: 10_000,
            max_nodes,
            node_labels: Vec::new(),
            copies: Vec::new(),
        };
        match cluster.call(&Request::Sample(Arc::new(request))) {
            Some(Response::Sample(Ok(sample))) => sample,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(names(&best(None)), ["a", "b", "c", "d"]);
    let few: Vec<_> = (0..40).map(|_| best(Some(1))).collect();
    assert!(few.iter().all(|sample| sample.nodes.len() == 1 && sample.looked_at == 4));
    let chosen: std::collections::BTreeSet<&str> =
        few.iter().map(|sample| &*sample.nodes[0].name).collect();
    assert_eq!(chosen, ["b", "c", "d"].into(), "all that are equally good, and no other one");
}

#[test]
fn only_node_that_fits_is_found_whatever_is_drawn() {
    let nodes = (0..500).map(|n| small(&format!("n{n}")));
    let mut cluster = Cluster::new(nodes.chain([small("big").allocatable("cpu", "64")]));
    for strategy in ["random", "round-robin", "best", "all"] {
        let sample = cluster.sample(job("p", "20"), strategy, 20);
        assert_eq!(names(&sample), ["big"], "{strategy}");
    }
    let sample = cluster.sample(job("p", "100"), "random", 20);
    assert!(sample.nodes.is_empty());
    let reason = "0/501 nodes are available: 501 Insufficient cpu.";
    assert_eq!(sample.reason.as_deref(), Some(reason));
}

#[test]
fn best_nodes_of_a_ranking_have_the_scores_of_a_full_pass() {
    let mut cluster = Cluster::new((0..40).map(|n| {
        let node = small(&format!("n{n:02}")).zone(["z1", "z2", "z3"][n % 3]);
        if n % 7 == 0 { node.taint("k", "v", "PreferNoSchedule") } else { node }
    }));
    let spread = |name: &str| {
        let constraints = json!([{"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "s"}}}]);
        job(name, "1").label("app", "s").with(move |pod| {
            pod.spec.topology_spread_constraints = serde_json::from_value(constraints).unwrap();
        })
    };
    for round in 0..60 {
        let name = format!("p{round}");
        let own = if round % 2 == 0 { spread(&name) } else { job(&name, "2") };
        let best = cluster.sample(own.clone(), "best", 10_000);
        let all = cluster.sample(own.clone(), "all", 1);
        assert_eq!(best.nodes, all.nodes, "round {round}");
        assert_eq!(best.score_weight, all.score_weight);
        // Another node than the best, so that many nodes change.
        let chosen = &all.nodes[round * 7 % all.nodes.len()].name;
        assert!(is_committed(&cluster.commit(own, chosen)));
    }
}

#[test]
fn samples_respect_the_pods_of_the_cluster() {
    let mut cluster = Cluster::new(["a", "b", "c", "d"].map(|name| {
        small(name)
            .label("kubernetes.io/hostname", name)
            .label("zone", if name < "c" { "1" } else { "2" })
    }));
    let apart = |name: &str| {
        let selector: Value = json!({"matchLabels": {"app": "x"}});
        let terms = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]);
        let anti = json!({"podAntiAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        job(name, "1").label("app", "x").with(move |pod| {
            pod.spec.affinity = serde_json::from_value(anti).unwrap();
        })
    };
    assert!(is_committed(&cluster.commit(apart("p"), "b")));
    assert_eq!(names(&cluster.sample(apart("q"), "all", 1)), ["a", "c", "d"]);
    assert_eq!(conflict(cluster.commit(apart("q"), "b")), ConflictCode::PodAffinity);

    let spread = |name: &str| {
        let selector: Value = json!({"matchLabels": {"app": "s"}});
        let constraints = json!([{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]);
        job(name, "1").label("app", "s").with(move |pod| {
            pod.spec.topology_spread_constraints = serde_json::from_value(constraints).unwrap();
        })
    };
    assert!(is_committed(&cluster.commit(spread("s1"), "a")));
    assert_eq!(names(&cluster.sample(spread("s2"), "all", 1)), ["c", "d"]);
    assert_eq!(conflict(cluster.commit(spread("s2"), "a")), ConflictCode::TopologySpread);

    assert!(is_committed(&cluster.commit(job("h1", "1").host_port(80), "a")));
    assert_eq!(names(&cluster.sample(job("h2", "1").host_port(80), "all", 1)), ["b", "c", "d"]);
    assert_eq!(conflict(cluster.commit(job("h2", "1").host_port(80), "a")), ConflictCode::Ports);
}

#[test]
fn stale_decisions_meet_a_conflict_with_the_code_of_the_check() {
    let disk = |name: &str| {
        job(name, "1").volume(json!({"gcePersistentDisk": {"pdName": "disk", "fsType": "ext4"}}))
    };
    type Change = fn(&mut Cluster);
    let cases: [(PodBuilder, Change, ConflictCode); 6] = [
        (job("p", "3"), |c| c.foreign(job("f", "2").on("a")), ConflictCode::Resources),
        (job("p", "1"), |c| c.node(small("a").unschedulable()), ConflictCode::NodeUnschedulable),
        (job("p", "1"), |c| c.node(small("a").taint("k", "v", "NoExecute")), ConflictCode::Taints),
        (
            job("p", "1").node_selector("disk", "ssd"),
            |c| c.node(small("a")),
            ConflictCode::NodeSelection,
        ),
        (
            job("p", "1"),
            |c| c.apply(engine::Change::NodeDeleted("a".into()), None),
            ConflictCode::NodeGone,
        ),
        (
            disk("p"),
            |c| {
                let volume = json!({"gcePersistentDisk": {"pdName": "disk", "fsType": "ext4"}});
                c.foreign(job("f", "1").volume(volume).on("a"));
            },
            ConflictCode::Volumes,
        ),
    ];
    for (pod, change, code) in cases {
        let mut cluster = Cluster::new([small("a").label("disk", "ssd"), small("b")]);
        let request = cluster.request(pod, "a", nth(1, 0));
        change(&mut cluster);
        let first = outcome(cluster.call(&request));
        assert_eq!(conflict(first.clone()), code);
        assert_eq!(outcome(cluster.call(&request)), first, "the answer stays the same");
        assert_eq!(cluster.node_of("p"), None);
        assert_eq!(cluster.seal("p", nth(1, 0)), Some(SealOutcome::Sealed));
    }
}

#[test]
fn room_is_taken_from_the_check_on() {
    let mut cluster = Cluster::new([small("a")]);
    cluster.holds_back = |operation| matches!(operation, MemberOperation::Create { .. });
    let requests = [
        cluster.request(job("p", "3"), "a", nth(1, 0)),
        cluster.request(job("q", "3"), "a", nth(1, 0)),
    ];
    assert!(cluster.call(&requests[0]).is_none(), "the API server has not answered");
    let second = outcome(cluster.call(&requests[1]));
    assert_eq!(conflict(second), ConflictCode::Resources);
    assert!(cluster.sample(job("r", "3"), "all", 1).nodes.is_empty());
    assert!(cluster.call(&requests[0]).is_none(), "a repetition waits for the same outcome");
    cluster.carry_out_late();
    let committed = cluster.responses.iter().filter(
        |(_, response)| matches!(response, Response::Commit(outcome) if is_committed(outcome)),
    );
    assert_eq!(committed.count(), 2, "the watch shows the pod, and both are answered");
    assert_eq!(cluster.node_of("p").as_deref(), Some("a"));
}

#[test]
fn commit_is_repeated_without_effect() {
    let mut cluster = Cluster::new([small("a"), small("b")]);
    let request = cluster.request(job("p", "1"), "a", nth(1, 0));
    let first = outcome(cluster.call(&request));
    assert!(is_committed(&first));
    assert_eq!(outcome(cluster.call(&request)), first);
    let later = cluster.request(job("p", "1"), "b", nth(2, 0));
    assert_eq!(outcome(cluster.call(&later)), first, "the pod runs here already");
    assert_eq!(cluster.node_of("p").as_deref(), Some("a"));
    assert!(matches!(cluster.seal("p", nth(1, 0)), Some(SealOutcome::Committed(_))));
    assert!(matches!(cluster.seal("p", nth(7, 0)), Some(SealOutcome::Committed(_))));
}

#[test]
fn copy_of_a_refused_commit_is_refused_even_if_it_would_succeed_now() {
    let mut cluster = Cluster::new([small("a")]);
    cluster.foreign(job("f", "4").on("a"));
    let request = cluster.request(job("p", "1"), "a", nth(1, 0));
    let first = outcome(cluster.call(&request));
    assert_eq!(conflict(first.clone()), ConflictCode::Resources);
    let gone = cluster.api.remove(&PodKey::new("default", "f")).unwrap();
    cluster.show(gone);
    assert_eq!(outcome(cluster.call(&request)), first, "the scheduler has gone on");
    assert_eq!(cluster.node_of("p"), None);

    cluster.holds_back = |operation| matches!(operation, MemberOperation::Create { .. });
    let request = cluster.request(job("q", "1"), "a", nth(1, 0));
    let busy = cluster.request(job("q", "1"), "a", nth(1, 1));
    assert!(cluster.call(&request).is_none());
    assert_eq!(refusal(outcome(cluster.call(&busy))), RefusalCode::Busy);
    cluster.kept.clear();
    let id = *cluster.agent.writes.keys().next().unwrap();
    let refused = WriteAnswer::Refused("quota".to_owned());
    ports(|ports| cluster.agent.write_answered(id, refused, cluster.now, ports));
    cluster.work();
    assert_eq!(refusal(outcome(cluster.call(&busy))), RefusalCode::Sealed);
}

#[test]
fn sealed_commit_is_refused_when_it_arrives() {
    let mut cluster = Cluster::new([small("a")]);
    let late = cluster.request(job("p", "1"), "a", nth(3, 1));
    let next = cluster.request(job("p", "1"), "a", nth(3, 2));
    assert_eq!(cluster.seal("p", nth(3, 1)), Some(SealOutcome::Sealed));
    assert_eq!(refusal(outcome(cluster.call(&late))), RefusalCode::Sealed);
    let made = outcome(cluster.call(&next));
    assert!(is_committed(&made), "a later try may be made");
    assert_eq!(outcome(cluster.call(&late)), made, "the pod runs here by now");
}

#[test]
fn commit_for_an_earlier_life_or_an_old_sample_is_refused() {
    let mut cluster = Cluster::new([small("a")]);
    let request = cluster.request(job("p", "1"), "a", nth(1, 0));
    cluster.restart();
    let refused = refusal(outcome(cluster.call(&request)));
    assert_eq!(refused, RefusalCode::OtherIncarnation);
    let request = cluster.request(job("p", "1"), "a", nth(1, 0));
    cluster.now = cluster.now + Duration::from_secs(61);
    assert_eq!(refusal(outcome(cluster.call(&request))), RefusalCode::StaleSample);
}

#[test]
fn restarted_agent_knows_what_its_predecessor_committed() {
    let mut cluster = Cluster::new([small("a")]);
    let request = cluster.request(job("p", "1"), "a", nth(1, 0));
    let first = outcome(cluster.call(&request));
    cluster.restart();
    assert_eq!(outcome(cluster.call(&request)), first);
}

#[test]
fn unbound_delegate_of_an_earlier_life_keeps_its_room_until_it_is_deleted() {
    let mut cluster = Cluster::new([small("a")]);
    cluster.holds_back = is_bind;
    let request = cluster.request(job("p", "3"), "a", nth(1, 0));
    assert!(cluster.call(&request).is_none(), "the bind is under way");
    cluster.holds_back =
        |operation| is_bind(operation) || matches!(operation, MemberOperation::Delete { .. });
    cluster.restart();
    assert!(cluster.sample(job("q", "3"), "all", 1).nodes.is_empty(), "a bind may still arrive");
    assert_eq!(cluster.seal("p", nth(1, 0)), None, "not known yet");
    let (bind, delete) = (cluster.kept.remove(0), cluster.kept.remove(0));
    assert!(is_bind(&bind));
    assert!(matches!(delete, MemberOperation::Delete { .. }));
    // The bind of the dead agent wins: the delete names an older version, and the delegate counts.
    cluster.holds_back = |_| false;
    cluster.carry_out(bind);
    let sealed = cluster.responses.last().cloned();
    assert!(matches!(sealed, Some((_, Response::Seal(SealOutcome::Committed(_))))), "{sealed:?}");
    assert_eq!(cluster.node_of("p").as_deref(), Some("a"));
    let (answer, _) = cluster.api.carry_out(&delete);
    assert!(matches!(answer, MemberAnswer::Agent(WriteAnswer::Conflict)));

    // Without the bind the delegate is deleted, and its room is free.
    let mut cluster = Cluster::new([small("a")]);
    cluster.holds_back = is_bind;
    let request = cluster.request(job("p", "3"), "a", nth(1, 0));
    assert!(cluster.call(&request).is_none());
    cluster.restart();
    assert_eq!(cluster.seal("p", nth(1, 0)), Some(SealOutcome::Sealed));
    assert!(cluster.api.pods.is_empty());
    assert_eq!(cluster.sample(job("q", "3"), "all", 1).nodes.len(), 1);
    cluster.carry_out_late();
    assert!(cluster.api.pods.is_empty(), "the bind finds no pod");
}

#[test]
fn creation_that_arrives_after_the_seal_leaves_no_pod() {
    let mut cluster = Cluster::new([small("a")]);
    cluster.holds_back = |operation| matches!(operation, MemberOperation::Create { .. });
    let request = cluster.request(job("p", "3"), "a", nth(1, 0));
    assert!(cluster.call(&request).is_none());
    cluster.restart();
    assert_eq!(cluster.seal("p", nth(1, 0)), Some(SealOutcome::Sealed), "no delegate is known");
    cluster.carry_out_late();
    assert!(cluster.api.pods.is_empty(), "it was deleted, and never bound");
    assert_eq!(cluster.sample(job("q", "3"), "all", 1).nodes.len(), 1, "its room is free");
    assert_eq!(cluster.agent.engine().world().assumed_count(), 0);
}

#[test]
fn lost_answer_to_a_creation_is_found_out() {
    let mut cluster = Cluster::new([small("a")]);
    // The answer is lost, and the watch is late.
    cluster.holds_back = |operation| matches!(operation, MemberOperation::Create { .. });
    let request = cluster.request(job("p", "1"), "a", nth(1, 0));
    assert!(cluster.call(&request).is_none());
    let create = cluster.kept.remove(0);
    let (_, event) = cluster.api.carry_out(&create);
    cluster.holds_back = |_| false;
    let id = *cluster.agent.writes.keys().next().unwrap();
    let lost = WriteAnswer::Unknown("timeout".to_owned());
    ports(|ports| cluster.agent.write_answered(id, lost, cluster.now, ports));
    cluster.now = cluster.now + Duration::from_secs(1);
    ports(|ports| cluster.agent.tick(cluster.now, ports));
    cluster.work();
    assert_eq!(cluster.node_of("p").as_deref(), Some("a"), "the pod of that name is the delegate");
    cluster.show(event.unwrap());
    let answered = cluster.responses.iter().any(
        |(_, response)| matches!(response, Response::Commit(outcome) if is_committed(outcome)),
    );
    assert!(answered);
}

#[test]
fn pod_of_another_with_the_same_name_is_left_alone() {
    let mut cluster = Cluster::new([small("a")]);
    cluster.foreign(pod("p").uid("someone").on("a"));
    assert_eq!(conflict(cluster.commit(job("p", "1"), "a")), ConflictCode::NameTaken);
    assert_eq!(cluster.api.pods.len(), 1);
    let known = &cluster.api.pods[&PodKey::new("default", "p")];
    assert_eq!(known.pod.uid, Uid::from("someone"));
    assert_eq!(cluster.sample(job("q", "4"), "all", 1).nodes.len(), 1, "its room is free again");
}

#[test]
fn failed_bind_deletes_the_delegate_before_the_answer() {
    let mut cluster = Cluster::new([small("a")]);
    cluster.holds_back = is_bind;
    let request = cluster.request(job("p", "3"), "a", nth(1, 0));
    assert!(cluster.call(&request).is_none());
    cluster.holds_back = |_| false;
    let refused = Answer::Error("admission webhook denied the request".to_owned());
    let bind = cluster.last_bind.unwrap();
    ports(|ports| cluster.agent.effect_answered(bind, &refused, cluster.now, ports));
    cluster.work();
    let (_, response) = cluster.responses.last().cloned().unwrap();
    let failed = outcome(Some(response));
    assert_eq!(conflict(failed), ConflictCode::Binding);
    assert!(cluster.api.pods.is_empty());
    assert_eq!(cluster.sample(job("q", "3"), "all", 1).nodes.len(), 1);
}

#[test]
fn best_node_is_chosen_again_at_the_commit() {
    let mut cluster = Cluster::new([small("a"), small("b"), small("c").allocatable("cpu", "2")]);
    // From the second pod of a template on there is a ranking.
    for _ in 0..3 {
        let sample = cluster.sample(job("p", "1"), "best", 1);
        assert_eq!(sample.nodes.len(), 1);
        assert_ne!(&*sample.nodes[0].name, "c");
    }
    let sample = cluster.sample(job("p", "1"), "best", 1);
    let best = sample.nodes[0].score;
    let request = |cluster: &mut Cluster, name: &str, floor| {
        let Request::Commit(request) = cluster.request(job(name, "1"), "a", nth(1, 0)) else {
            panic!("a commit");
        };
        let target = CommitTarget { node: "a".into(), best_of_at_least: Some(floor) };
        Request::Commit(Arc::new(CommitRequest { target, ..(*request).clone() }))
    };
    let decisions = ["p", "q", "r"].map(|name| request(&mut cluster, name, best));
    let outcomes = decisions.map(|decision| outcome(cluster.call(&decision)));
    assert!(is_committed(&outcomes[0]) && is_committed(&outcomes[1]), "both name the node a");
    let mut nodes = [cluster.node_of("p").unwrap(), cluster.node_of("q").unwrap()];
    nodes.sort_unstable();
    assert_eq!(nodes, ["a", "b"], "the second one got a node that is as good");
    assert_eq!(conflict(outcomes[2].clone()), ConflictCode::ScoreFell);
    let any = request(&mut cluster, "s", 0);
    assert!(is_committed(&outcome(cluster.call(&any))), "without a limit any node does");
}

#[test]
fn checks_of_plugins_run_at_the_commit() {
    struct NoWeekends;
    impl CheckConflicts for NoWeekends {
        fn check(&self, commit: &CommitView<'_>) -> Result<(), Conflict> {
            let message = format!("{} is closed", commit.node);
            match commit.node {
                "a" => Err(Conflict { code: ConflictCode::Other, message }),
                _ => Ok(()),
            }
        }
    }
    let mut cluster = Cluster::new([small("a"), small("b")]);
    cluster
        .agent
        .config
        .checks
        .push(NamedCheck { name: "NoWeekends".into(), plugin: Arc::new(NoWeekends) });
    assert_eq!(conflict(cluster.commit(job("p", "1"), "a")), ConflictCode::Other);
    assert!(is_committed(&cluster.commit(job("q", "1"), "b")));
}

/// A plugin of an agent that panics at this point for pods of the name `bad`.
struct Careless(&'static str);

impl SamplingStrategy for Careless {
    fn start(&self, seed: u64) -> Source<'_> {
        assert!(self.0 != "Start", "at Start");
        match self.0 {
            "Draw" => Source::Draw(Box::new(CarelessDraw)),
            _ => Random.start(seed),
        }
    }
}

struct CarelessDraw;

impl DrawNodes for CarelessDraw {
    fn draw(&mut self, _: &framework::Cluster, _: usize, _: &NodeBits, _: &mut NodeBits) {
        panic!("at Draw");
    }
}

impl CheckConflicts for Careless {
    fn check(&self, commit: &CommitView<'_>) -> Result<(), Conflict> {
        assert!(*commit.pod.key.name != *"bad", "at CheckConflicts");
        Ok(())
    }
}

#[test]
fn panic_of_a_plugin_fails_one_request() {
    let mut cluster = Cluster::new([small("a")]);
    for point in ["Start", "Draw"] {
        cluster.agent.config.strategies.register("careless", Arc::new(Careless(point)));
        let refusal = cluster.try_sample(job("p", "1"), "careless", 10_000).unwrap_err();
        let expected = format!("plugin \"careless\" panicked: at {point}");
        assert_eq!((refusal.code, refusal.message), (RefusalCode::Failed, expected));
        assert_eq!(names(&cluster.sample(job("p", "1"), "random", 10_000)), ["a"]);
    }
    let check = NamedCheck { name: "Careless".into(), plugin: Arc::new(Careless("")) };
    cluster.agent.config.checks.push(check);
    let failed = cluster.commit(job("bad", "3"), "a");
    assert_eq!(refusal(failed), RefusalCode::Failed);
    assert!(is_committed(&cluster.commit(job("q", "3"), "a")), "no room is held");
}

#[test]
fn closed_records_are_forgotten_after_a_while() {
    let mut cluster = Cluster::new([small("a")]);
    assert_eq!(cluster.seal("p", nth(1, 0)), Some(SealOutcome::Sealed));
    assert!(is_committed(&cluster.commit(job("q", "1"), "a")));
    assert_eq!(cluster.agent.remembered(), 2);
    cluster.now = cluster.now + Duration::from_secs(301);
    ports(|ports| cluster.agent.tick(cluster.now, ports));
    assert_eq!(cluster.agent.remembered(), 1, "the delegate exists");
    let gone = cluster.api.remove(&PodKey::new("default", "q")).unwrap();
    cluster.show(gone);
    cluster.now = cluster.now + Duration::from_secs(301);
    ports(|ports| cluster.agent.tick(cluster.now, ports));
    assert_eq!(cluster.agent.remembered(), 0);
}

#[test]
fn delegate_ends_when_its_lease_is_not_renewed() {
    let mut cluster = Cluster::new([small("a")]);
    let request = cluster.replaceable("early", nth(1, 0), 60);
    let refusal = outcome(cluster.call(&request));
    let CommitOutcome::Rejected(Refusal { code: RefusalCode::NoLease, .. }) = refusal else {
        panic!("{refusal:?}: no scheduler has renewed the lease")
    };
    let stamp = cluster.stamp();
    cluster.renew(Some(stamp.clone())).unwrap();
    for (name, fence_after_s) in [("short", 60), ("long", 100)] {
        let request = cluster.replaceable(name, nth(1, 0), fence_after_s);
        let done = outcome(cluster.call(&request));
        let CommitOutcome::Committed(committed) = done else { panic!("{done:?}") };
        assert_eq!(committed.fence_after_s, Some(fence_after_s));
    }
    cluster.commit(job("stays", "1"), "a");
    cluster.pass(59);
    assert!(!cluster.is_ending("short"));
    // An old stamp renews nothing, and one that is too late saves none.
    cluster.renew(Some(stamp)).unwrap();
    let late = cluster.stamp();
    cluster.now = cluster.now + Duration::from_secs(1);
    cluster.renew(Some(late)).unwrap();
    assert!(cluster.is_ending("short") && !cluster.is_ending("long"));
    cluster.pass(98);
    assert!(!cluster.is_ending("long"));
    cluster.pass(1);
    assert!(cluster.is_ending("long") && !cluster.is_ending("stays"));
    let request = cluster.replaceable("late", nth(1, 0), 60);
    assert!(matches!(outcome(cluster.call(&request)), CommitOutcome::Rejected(_)));
}

#[test]
fn later_commit_does_not_get_a_delegate_that_ends() {
    let mut cluster = Cluster::new([small("a")]);
    let stamp = cluster.stamp();
    cluster.renew(Some(stamp)).unwrap();
    let request = cluster.replaceable("p", nth(1, 0), 60);
    outcome(cluster.call(&request));
    cluster.pass(60);
    let stamp = cluster.stamp();
    cluster.renew(Some(stamp)).unwrap();
    let request = cluster.replaceable("p", nth(3, 0), 60);
    assert_eq!(conflict(outcome(cluster.call(&request))), ConflictCode::NameTaken);
    let gone = cluster.api.remove(&PodKey::new("default", "p")).unwrap();
    cluster.show(gone);
    // The scheduler has gone on since.
    assert!(matches!(outcome(cluster.call(&request)), CommitOutcome::Rejected(_)));
    let request = cluster.replaceable("p", nth(3, 1), 60);
    assert!(matches!(outcome(cluster.call(&request)), CommitOutcome::Committed(_)));
}

#[test]
fn restarted_agent_knows_when_leases_were_renewed() {
    let mut cluster = Cluster::new([small("a")]);
    let stamp = cluster.stamp();
    cluster.renew(Some(stamp.clone())).unwrap();
    for name in ["p", "q"] {
        let fence_after_s = if name == "p" { 30 } else { 90 };
        let request = cluster.replaceable(name, nth(1, 0), fence_after_s);
        outcome(cluster.call(&request));
    }
    cluster.now = cluster.now + Duration::from_secs(40);
    cluster.restart();
    assert_eq!(cluster.renew(Some(stamp)), Err(RefusalCode::OtherIncarnation));
    cluster.pass(0);
    assert!(cluster.is_ending("p") && !cluster.is_ending("q"));
    cluster.pass(50);
    assert!(cluster.is_ending("q"));
}

#[test]
fn stamp_that_the_agent_has_not_reached_yet_renews_nothing() {
    let mut cluster = Cluster::new([small("a")]);
    let mut stamp = cluster.stamp();
    stamp.taken_ms += 1;
    assert_eq!(cluster.renew(Some(stamp)), Err(RefusalCode::Malformed));
    let request = cluster.replaceable("p", nth(1, 0), 60);
    assert!(matches!(outcome(cluster.call(&request)), CommitOutcome::Rejected(_)));
}

#[test]
fn renewal_that_is_not_stored_does_not_count() {
    let mut cluster = Cluster::new([small("a")]);
    let stamp = cluster.stamp();
    cluster.holds_back = |operation| matches!(operation, MemberOperation::KeepLeases { .. });
    let renewal = Request::Renew(RenewRequest { lease: "lease".into(), heard: Some(stamp) });
    assert!(cluster.call(&renewal).is_none(), "the answer waits for the write");
    let request = cluster.replaceable("p", nth(1, 0), 60);
    assert!(matches!(outcome(cluster.call(&request)), CommitOutcome::Rejected(_)));
}

#[test]
fn copies_of_a_commit_are_owned_by_its_delegate_also_after_a_lost_answer() {
    let mut cluster = Cluster::new([small("a")]);
    let Request::Commit(request) = cluster.request(job("p", "1"), "a", nth(1, 0)) else {
        unreachable!("it is a commit")
    };
    let copied = Copied {
        kind: CopyKind::Secret,
        name: "tls".into(),
        type_: None,
        data: BTreeMap::new(),
        binary_data: BTreeMap::new(),
    };
    let copies: CommitCopies = Arc::from([Arc::new(copied)]);
    let request = CommitRequest { copies: copies.clone(), ..(*request).clone() };
    cluster.holds_back = |operation| matches!(operation, MemberOperation::Create { .. });
    assert!(cluster.call(&Request::Commit(Arc::new(request))).is_none());
    assert!(cluster.copies.is_empty(), "they have no owner yet");
    // The answer is lost, and the watch shows the delegate.
    cluster.carry_out_late();
    assert_eq!(cluster.node_of("p").as_deref(), Some("a"));
    let delegate = cluster.api.pods[&PodKey::new("default", "p")].pod.uid.clone();
    assert_eq!(cluster.copies, [(delegate, copies)]);
}

#[test]
fn diagnosis_says_which_nodes_can_take_a_pod_and_why_others_cannot() {
    let mut cluster = Cluster::new([
        small("a"),
        small("b").unschedulable(),
        small("c").taint("dedicated", "x", "NoSchedule"),
        small("d"),
    ]);
    cluster.foreign(job("big", "3").on("d"));
    cluster.foreign(job("bigger", "4").on("a"));
    let mut diagnose = |node: Option<&str>| {
        let (pod, node) = (object(job("p", "1")), node.map(Arc::from));
        let request = Request::Diagnose(Arc::new(DiagnosisRequest { pod, node }));
        match cluster.call(&request) {
            Some(Response::Diagnose(Ok(diagnosis))) => diagnosis,
            other => panic!("{other:?}"),
        }
    };
    let one = diagnose(Some("b"));
    assert_eq!((one.looked_at, one.fitting, one.reasons.len()), (1, 0, 1));
    assert_eq!(diagnose(Some("gone")).looked_at, 0);
    let diagnosis = diagnose(None);
    assert_eq!((diagnosis.total_nodes, diagnosis.looked_at, diagnosis.fitting), (4, 4, 1));
    assert_eq!(diagnosis.fitting_nodes, ["d".into()]);
    let mut reasons: Vec<(&str, &str)> = diagnosis
        .reasons
        .iter()
        .map(|own| (&*own.nodes[0], own.plugin.as_deref().unwrap_or_default()))
        .collect();
    reasons.sort_unstable();
    let expected =
        [("a", "NodeResourcesFit"), ("b", "NodeUnschedulable"), ("c", "TaintToleration")];
    assert_eq!(reasons, expected);
}
