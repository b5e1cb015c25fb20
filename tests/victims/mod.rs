//! Victims of DefaultPreemption, compared with brute force: the plugins of the default profile
//! evaluate every other choice in small random clusters. The rules of these clusters are monotone:
//! fewer pods leave more room.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod cluster;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::cycle::Form;
use engine::ports::Ports;
use engine::profile::Profiles;
use engine::{Change, Engine, EngineConfig, Input, TieBreak};
use fastrand::Rng;
use framework::preemption::Candidate;
use framework::{Code, Pod, Time};
use loadmaster::config::{self, Gates};

use self::cluster::Cluster;

/// Number of generated clusters.
const CLUSTERS: u64 = 200;

/// Returns the default profile, with these arguments of DefaultPreemption.
fn profiles(args: &str) -> Profiles {
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         profiles: [{{pluginConfig: [{{name: DefaultPreemption, args: {args}}}]}}]\n"
    );
    let loaded = config::load(&text, &Gates::default()).unwrap();
    loaded.config.build_profiles(&plugins::registry()).unwrap()
}

/// Names of pods, the most important first.
type Names = Vec<String>;

/// The result for the preemptor, by names of nodes.
struct Decision {
    /// Nodes where the preemptor fits without preemption.
    passed: BTreeSet<String>,
    /// Nodes with a rejection that evictions may resolve.
    potential: BTreeSet<String>,
    /// The victims on each node, and the number of them that the budget protects.
    candidates: BTreeMap<String, (Names, usize)>,
    /// The chosen candidate.
    chosen: Option<(String, Names)>,
}

fn names(pods: &[Arc<Pod>]) -> Names {
    pods.iter().map(|pod| pod.key.name.to_string()).collect()
}

/// Creates an engine with the cluster, without the removed pods. The seed decides where its
/// searches begin.
fn engine(profiles: &Profiles, cluster: &Cluster, gone: &[&Pod], seed: u64) -> Engine {
    let tie_break = TieBreak::Random;
    let mut engine =
        Engine::new(EngineConfig { seed, tie_break, ..EngineConfig::new(profiles.clone()) });
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    let mut apply = |change| {
        engine.step(Input::Change(change), Time::ZERO, ports);
    };
    cluster.nodes.iter().for_each(|node| apply(Change::Node(node.clone())));
    let is_gone = |pod: &&Pod| gone.iter().any(|gone| gone.uid == pod.uid);
    let pods = cluster.placed.iter().filter(|pod| !is_gone(pod)).chain(&cluster.nominated);
    pods.for_each(|pod| apply(Change::Pod(Box::new(pod.clone()))));
    apply(cluster.budget());
    engine
}

/// Evaluates the preemptor in such an engine.
fn decide(profiles: &Profiles, cluster: &Cluster, gone: &[&Pod], seed: u64) -> Decision {
    let mut engine = engine(profiles, cluster, gone, seed);
    let (now, ports) = (Time::from_secs(1000), &mut Ports { extenders: &mut (), probe: &mut () });
    let evaluation = engine
        .step(
            Input::Evaluate { pod: cluster.preemptor.clone(), form: Form::Set, start: None },
            now,
            ports,
        )
        .evaluation()
        .unwrap();

    let all = engine.cluster();
    let name = |node| all.node_name(node).to_string();
    let unschedulable = |node: &_| evaluation.verdicts.get(*node).code() == Code::Unschedulable;
    let rescue = evaluation.post_filter.unwrap_or_default();
    let candidates = rescue.candidates.into_iter().map(|Candidate { node, victims }| {
        (name(node), (names(&victims.pods), victims.pdb_violations))
    });
    let chosen = rescue.preemption.map(|one| (one.node.to_string(), names(&one.victims)));
    Decision {
        passed: evaluation.passed.iter().map(name).collect(),
        potential: all.nodes().iter().filter(unschedulable).map(name).collect(),
        candidates: candidates.collect(),
        chosen,
    }
}

/// A cluster without room for the preemptor, and the result.
struct Case {
    seed: u64,
    cluster: Cluster,
    profiles: Profiles,
    decision: Decision,
}

/// Returns the cases in which evictions may help.
fn cases() -> impl Iterator<Item = Case> {
    let profiles = profiles("{}");
    (0..CLUSTERS).filter_map(move |seed| {
        let cluster = Cluster::random(&mut Rng::with_seed(seed));
        let decision = decide(&profiles, &cluster, &[], seed);
        let full = decision.passed.is_empty() && !decision.potential.is_empty();
        full.then(|| Case { seed, cluster, profiles: profiles.clone(), decision })
    })
}

impl Case {
    /// Whether the preemptor fits on the node without these pods.
    fn makes_room(&self, node: &str, gone: &[&Pod]) -> bool {
        decide(&self.profiles, &self.cluster, gone, self.seed).passed.contains(node)
    }
}

#[test]
fn no_proper_subset_of_the_victims_makes_room() {
    let mut searched = 0;
    for case in cases() {
        for (node, (names, _)) in &case.decision.candidates {
            let mut victims = case.cluster.evictable(node);
            victims.retain(|pod| names.contains(&pod.key.name.to_string()));
            assert_eq!(victims.len(), names.len(), "seed {}, node {node}: {names:?}", case.seed);
            let all = (1_usize << victims.len()) - 1;
            for chosen in 0..=all {
                let gone = (0..victims.len()).filter(|place| chosen & 1 << place != 0);
                let gone: Vec<&Pod> = gone.map(|place| victims[place]).collect();
                let room = case.makes_room(node, &gone);
                assert_eq!(room, chosen == all, "seed {}, node {node}, {chosen:b}", case.seed);
            }
            searched += usize::from(victims.len() > 1);
        }
    }
    assert!(searched > 50, "{searched} candidates with several victims say little");
}

#[test]
fn nodes_are_candidates_exactly_if_evictions_make_room() {
    let mut hopeless = 0;
    for case in cases() {
        for node in &case.cluster.nodes {
            let evictable = case.cluster.evictable(&node.name);
            let helps = case.decision.potential.contains(&*node.name)
                && !evictable.is_empty()
                && case.makes_room(&node.name, &evictable);
            let is_candidate = case.decision.candidates.contains_key(&*node.name);
            assert_eq!(is_candidate, helps, "seed {}, node {}", case.seed, node.name);
            hopeless += usize::from(!helps);
        }
    }
    assert!(hopeless > 10, "{hopeless} nodes without hope say little");
}

#[test]
fn protected_pods_are_victims_only_without_alternatives() {
    let mut spared = 0;
    for case in cases() {
        for (node, (victims, _)) in &case.decision.candidates {
            let evictable = case.cluster.evictable(node);
            let is_protected = |pod: &&&Pod| case.cluster.is_protected(pod);
            let (protected, others): (Vec<_>, Vec<_>) = evictable.iter().partition(is_protected);
            if case.makes_room(node, &others) {
                let goes = |pod: &&Pod| victims.contains(&pod.key.name.to_string());
                assert!(!protected.iter().any(goes), "seed {}, {node}: {victims:?}", case.seed);
                spared += protected.len();
            }
        }
    }
    assert!(spared > 10, "{spared} protected pods say little");
}

#[test]
fn chosen_candidate_is_the_best_one() {
    for Case { seed, cluster, decision, .. } in cases() {
        let Some((node, _)) = &decision.chosen else { continue };
        let priority = |name: &String| {
            let mut placed = cluster.placed.iter();
            placed.find(|pod| *pod.key.name == **name).map(Pod::priority)
        };
        let cost = |(victims, violations): &(Names, usize)| (*violations, priority(&victims[0]));
        let least = decision.candidates.values().map(cost).min();
        assert_eq!(Some(cost(&decision.candidates[node])), least, "seed {seed}");
    }
}

#[test]
fn every_search_order_ends_with_a_candidate() {
    let first_found = profiles("{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 1}");
    let mut differ = 0;
    for Case { seed, cluster, profiles, decision } in cases() {
        let mut chosen = BTreeSet::new();
        for start in 0..4 {
            let whole = decide(&profiles, &cluster, &[], start);
            assert_eq!(whole.candidates, decision.candidates, "seed {seed}");
            let sampled = decide(&first_found, &cluster, &[], start);
            assert_eq!(sampled.chosen.is_some(), decision.chosen.is_some(), "seed {seed}");
            for (node, victims) in [whole.chosen, sampled.chosen].into_iter().flatten() {
                assert_eq!(decision.candidates[&node].0, victims, "seed {seed}, node {node}");
                chosen.insert(node);
            }
        }
        differ += usize::from(chosen.len() > 1);
    }
    assert!(differ > 10, "{differ} choices that depend on the beginning say little");
}
