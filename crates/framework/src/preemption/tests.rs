use std::cell::RefCell;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{FakeDryRun, HandleParts, PodBuilder, SetJson, cluster, node, pod};
use crate::{ChangedNodes, Code, EventResource, Kept, NodeView, Time};

fn plugin_name() -> &'static PluginName {
    static NAME: LazyLock<PluginName> = LazyLock::new(|| "P".into());
    &NAME
}

/// DefaultPreemption with this number of candidates.
struct Wanting(usize);

impl Evaluator for Wanting {
    fn plugin(&self) -> &PluginName {
        plugin_name()
    }

    fn candidates_wanted(&self, _nodes: usize) -> usize {
        self.0
    }
}

/// CPU, memory, host ports and number of pods.
fn fits(pod: &Pod, node: &NodeView<'_>) -> Status {
    let (allocatable, requested, wanted) =
        (node.allocatable(), node.requested(), &pod.requests.fit);
    let ports = &pod.spec.host_ports;
    if node.pod_count() >= node.allowed_pods() {
        Status::unschedulable("Too many pods")
    } else if requested.milli_cpu + wanted.milli_cpu > allocatable.milli_cpu {
        Status::unschedulable("Insufficient cpu")
    } else if requested.memory + wanted.memory > allocatable.memory {
        Status::unschedulable("Insufficient memory")
    } else if ports.iter().any(|port| node.has_port_conflict(port)) {
        Status::unschedulable("ports")
    } else {
        Status::success()
    }
}

/// The outcome of a preemption.
#[derive(Debug, PartialEq)]
struct Outcome {
    code: Code,
    message: String,
    nominating: NominatingInfo,
    victims: Vec<String>,
    candidates: Vec<(String, usize)>,
}

fn run(evaluator: &dyn Evaluator, pod: &Pod, cluster: &Cluster, verdicts: &Verdicts) -> Outcome {
    let parts = HandleParts { now: Time::from_secs(1000), ..HandleParts::default() };
    let handle = parts.handle(cluster);
    let mut dry_run = FakeDryRun::new(cluster, |node| fits(pod, node));
    let mut state = CycleState::new();
    let mut attempt = FailedAttempt { pod, state: &mut state, verdicts, handle: &handle };
    let result = preempt(evaluator, &mut attempt, &mut dry_run);
    let victims = match &parts.commands.take()[..] {
        [Command::Preempt(preemption)] => preemption.victims.clone(),
        _ => Vec::new(),
    };
    let candidates = state.read::<Candidates>().into_iter().flat_map(|candidates| &candidates.0);
    let name = |node| cluster.node_name(node).to_string();
    Outcome {
        code: result.status.code(),
        message: result.status.message(),
        nominating: result.nominating,
        victims: victims.iter().map(|victim| victim.key.name.to_string()).collect(),
        candidates: candidates
            .map(|candidate| (name(candidate.node), candidate.victims.pdb_violations))
            .collect(),
    }
}

/// Returns the rejection of every node as Unschedulable.
fn all_unschedulable(cluster: &Cluster) -> Verdicts {
    let mut verdicts = Verdicts::default();
    verdicts.record_all(cluster.nodes(), Status::unschedulable("full"));
    verdicts
}

/// Returns the victims among `placed` on one node of 4 CPUs, of a pod of priority 100 with 2 CPUs.
fn victims(placed: impl IntoIterator<Item = PodBuilder>, budgets: Budgets<'_>) -> Vec<String> {
    let placed = placed.into_iter().map(|pod| pod.on("n").build());
    let mut cluster = cluster([node("n").allocatable("cpu", "4").build()], placed);
    protect(&mut cluster, budgets);
    let incoming = pod("p").cpu("2").priority(100).build();
    run(&Wanting(100), &incoming, &cluster, &all_unschedulable(&cluster)).victims
}

/// Values of the label `app`, and how many of the pods that have it may be evicted.
type Budgets<'a> = &'a [(&'a str, i32)];

/// Adds a budget for each of these values of the label `app`.
fn protect(cluster: &mut Cluster, budgets: Budgets<'_>) {
    for (app, allowed) in budgets {
        let budget = json!({
            "spec": { "selector": { "matchLabels": { "app": app } } },
            "status": { "disruptionsAllowed": allowed },
        });
        let kind = EventResource::PodDisruptionBudget;
        cluster.set_json(&kind, "default", app, Some(Arc::new(budget)));
    }
}

fn low(name: &str) -> PodBuilder {
    pod(name).cpu("1")
}

fn one_cpu_each(names: [&str; 4]) -> [PodBuilder; 4] {
    names.map(low)
}

#[test]
fn most_important_pods_are_reprieved_first() {
    let [a, b, c, d] = one_cpu_each(["a", "b", "c", "d"]);
    let by_priority = [a.priority(3), b.priority(1), c.priority(2), d.priority(4)];
    assert_eq!(victims(by_priority, &[]), ["c", "b"]);

    let [a, b, c, d] = one_cpu_each(["a", "b", "c", "d"]);
    let by_start = [a.started(30), b.started(10), c.started(40), d.started(20)];
    assert_eq!(victims(by_start, &[]), ["a", "c"], "the pod that runs longer stays");

    let [a, b, c, d] = one_cpu_each(["a", "b", "c", "d"]);
    let one_without_start = [a.started(30), b.started(10), c, d.started(20)];
    assert_eq!(victims(one_without_start, &[]), ["a", "c"], "no start time counts as now");
}

#[test]
fn pods_of_equal_or_higher_priority_stay() {
    let [a, b, c, d] = one_cpu_each(["a", "b", "c", "d"]);
    let placed = [a.priority(100), b.priority(i32::MAX), c.priority(99), d.priority(i32::MIN)];
    assert_eq!(victims(placed, &[]), ["c", "d"]);
}

#[test]
fn big_victim_spares_small_pods_of_higher_priority() {
    let placed = [pod("big").cpu("2").priority(1), low("s1").priority(5), low("s2").priority(4)];
    assert_eq!(victims(placed, &[]), ["big"]);
}

#[test]
fn pods_under_a_budget_are_reprieved_first() {
    let placed = || {
        let [a, b, c, d] = one_cpu_each(["a", "b", "c", "d"]);
        let web = |pod: PodBuilder, priority| pod.label("app", "web").priority(priority);
        [web(a, 1), web(b, 2), c.priority(3), d.priority(4)]
    };
    // Budgets, victims.
    let rows: [(Budgets<'_>, &[&str]); 4] = [
        (&[], &["b", "a"]),
        (&[("web", 2)], &["b", "a"]),
        (&[("web", 1)], &["c", "b"]),
        (&[("web", 0)], &["d", "c"]),
    ];
    for (budgets, expected) in rows {
        assert_eq!(victims(placed(), budgets), expected, "{budgets:?}");
    }
}

/// Returns the nodes `a`, `b` … of 2 CPUs with these pods, and a pod of priority 100 that wants 2
/// CPUs.
fn choice(nodes: &[&[PodBuilder]]) -> (Cluster, Pod) {
    let names = ["a", "b", "c"];
    let cluster = cluster(
        names[..nodes.len()].iter().map(|name| node(name).allocatable("cpu", "2").build()),
        nodes
            .iter()
            .zip(names)
            .flat_map(|(pods, node)| pods.iter().map(move |pod| pod.clone().on(node).build())),
    );
    (cluster, pod("p").cpu("2").priority(100).build())
}

fn chosen(nodes: &[&[PodBuilder]], budgets: Budgets<'_>) -> Outcome {
    let (mut cluster, incoming) = choice(nodes);
    protect(&mut cluster, budgets);
    run(&Wanting(100), &incoming, &cluster, &all_unschedulable(&cluster))
}

#[test]
fn criteria_choose_in_their_order() {
    let v = |name: &str, priority: i32| pod(name).cpu("2").priority(priority);
    let half = |name: &str, priority: i32| pod(name).cpu("1").priority(priority);
    let web = |name: &str, priority: i32| v(name, priority).label("app", "web");
    let none: Budgets<'_> = &[];
    type Row<'a> = (&'a str, &'a [&'a [PodBuilder]], Budgets<'a>, &'a str);
    let rows: [Row<'_>; 7] = [
        ("fewest violations", &[&[web("x", 1)], &[v("y", 50)]], &[("web", 0)], "b"),
        ("lowest highest priority", &[&[v("x", 5)], &[half("y", 4), half("z", 4)]], none, "b"),
        (
            "smallest sum",
            &[&[half("x", 5), half("w", 4)], &[half("y", 5), half("z", 3)]],
            none,
            "b",
        ),
        ("few of negative priority", &[&[half("x", -1), half("w", -9)], &[v("y", -1)]], none, "b"),
        ("fewest victims", &[&[half("x", 0), half("w", i32::MIN)], &[v("y", 0)]], none, "b"),
        ("latest start", &[&[v("x", 1).started(10)], &[v("y", 1).started(20)]], none, "b"),
        ("no start is now", &[&[v("x", 1)], &[v("y", 1).started(20)]], none, "a"),
    ];
    for (case, nodes, budgets, expected) in rows {
        let outcome = chosen(nodes, budgets);
        assert_eq!(outcome.nominating, NominatingInfo::Override(expected.into()), "{case}");
        assert_eq!((outcome.code, outcome.message.as_str()), (Code::Success, ""), "{case}");
    }
}

#[test]
fn first_of_equally_good_candidates_is_chosen() {
    let v = |name: &str| pod(name).cpu("2").started(5);
    let outcome = chosen(&[&[v("x")], &[v("y")], &[v("z")]], &[]);
    assert_eq!((outcome.victims, outcome.candidates.len()), (vec!["x".to_owned()], 3));
}

#[test]
fn search_ends_with_enough_candidates_of_which_one_violates_no_budget() {
    let v = |name: &str| pod(name).cpu("2");
    let web = |name: &str| v(name).label("app", "web");
    let names = |outcome: Outcome| -> Vec<String> {
        outcome
            .candidates
            .into_iter()
            .map(|(node, violations)| format!("{node}{violations}"))
            .collect()
    };
    let rows: [(usize, [PodBuilder; 3], &[&str]); 4] = [
        (1, [v("x"), v("y"), v("z")], &["a0"]),
        (2, [v("x"), v("y"), v("z")], &["a0", "b0"]),
        (1, [web("x"), web("y"), v("z")], &["c0", "a1"]),
        (2, [web("x"), web("y"), web("z")], &["a1", "b1"]),
    ];
    for (wanted, placed, expected) in rows {
        let [x, y, z] = placed.map(|pod| [pod]);
        let (mut cluster, incoming) = choice(&[&x, &y, &z]);
        protect(&mut cluster, &[("web", 0)]);
        let verdicts = all_unschedulable(&cluster);
        assert_eq!(names(run(&Wanting(wanted), &incoming, &cluster, &verdicts)), expected);
    }
}

/// DefaultPreemption with one candidate, which repeats findings.
struct Repeating;

impl Evaluator for Repeating {
    fn plugin(&self) -> &PluginName {
        plugin_name()
    }

    fn candidates_wanted(&self, _nodes: usize) -> usize {
        1
    }

    fn repeats_findings(&self) -> bool {
        true
    }
}

fn changed(nodes: &[NodeIx]) -> ChangedNodes {
    ChangedNodes { nodes: nodes.to_vec(), ..ChangedNodes::default() }
}

/// Runs a preemption with what the last one has kept, after changes of some nodes. Returns the text
/// and the nodes that were filtered.
fn run_again(
    kept: Option<Kept>,
    changed: &ChangedNodes,
    cluster: &Cluster,
    exceptions: &[NodeIx],
) -> (Kept, String, Vec<usize>) {
    let incoming = pod("p").cpu("3").priority(100).build();
    let (parts, tried) = (HandleParts::default(), RefCell::<Vec<usize>>::default());
    let filter = |node: &NodeView<'_>| {
        tried.borrow_mut().push(node.ix().index());
        fits(&incoming, node)
    };
    let mut dry_run = FakeDryRun::new(cluster, filter).with_exceptions(exceptions.to_vec());
    let mut state = CycleState::new();
    state.resume(kept.unwrap_or_default().next_attempt(Some(Arc::new(changed.clone()))));
    let verdicts = all_unschedulable(cluster);
    let (pod, handle) = (&incoming, parts.handle(cluster));
    let mut attempt =
        FailedAttempt { pod, state: &mut state, verdicts: &verdicts, handle: &handle };
    let result = preempt(&Repeating, &mut attempt, &mut dry_run);
    let text = match &parts.commands.take()[..] {
        [Command::Preempt(preemption)] => format!("preempts on {}", preemption.node),
        _ => result.status.message(),
    };
    let mut tried = tried.into_inner();
    tried.dedup();
    (state.suspend(), text, tried)
}

#[test]
fn only_nodes_that_have_changed_are_tried_again_where_evictions_did_not_help() {
    // Without the low pods there is room for 2 CPUs, not for 3.
    let high = |name: &str| pod(&format!("{name}1")).cpu("2").priority(100).on(name);
    let weak = |name: &str| pod(&format!("{name}0")).cpu("2").on(name);
    let names = ["a", "b", "c", "d"];
    let nodes = names.map(|name| node(name).allocatable("cpu", "4").build());
    let placed = names.into_iter().flat_map(|name| [high(name).build(), weak(name).build()]);
    let mut cluster = cluster(nodes, placed);
    let [b, d] = ["b", "d"].map(|name| cluster.node_named(name).unwrap());
    let text = "0/4 nodes are available: 4 Insufficient cpu.".to_owned();

    let (kept, first, tried) = run_again(None, &changed(&[]), &cluster, &[]);
    assert_eq!((first, tried), (text.clone(), vec![0, 1, 2, 3]));
    let (kept, second, tried) = run_again(Some(kept), &changed(&[]), &cluster, &[]);
    assert_eq!((second, tried), (text.clone(), vec![]));
    let (kept, third, tried) = run_again(Some(kept), &changed(&[b]), &cluster, &[d]);
    assert_eq!((third, tried), (text.clone(), vec![1, 3]), "changed, and nominated");
    let (kept, fourth, tried) = run_again(Some(kept), &changed(&[]), &cluster, &[]);
    assert_eq!((fourth, tried), (text, vec![3]), "no longer nominated");

    // Evictions now help on two nodes; the first in order is chosen.
    for (uid, node) in [("b1", b), ("d1", d)] {
        let gone = cluster.node(node).placed().find(|(_, pod)| *pod.key.name == *uid).unwrap().0;
        cluster.remove_pod(gone);
    }
    let (kept, chosen, _) = run_again(Some(kept), &changed(&[b, d]), &cluster, &[]);
    assert_eq!(chosen, "preempts on b");
    let (_, chosen, tried) = run_again(Some(kept), &changed(&[]), &cluster, &[]);
    assert_eq!(chosen, "preempts on b");
    assert!(!tried.contains(&0) && !tried.contains(&2), "{tried:?}");
}

#[test]
fn victims_are_selected_once_while_nodes_budgets_and_start_times_stay() {
    let placed = |name: &str, low: &str| pod(low).cpu("4").label("app", low).on(name).build();
    let nodes = ["a", "b"].map(|name| node(name).allocatable("cpu", "4").build());
    let mut cluster = cluster(nodes, [placed("a", "x"), placed("b", "y")]);
    let [a, b] = ["a", "b"].map(|name| cluster.node_named(name).unwrap());
    let none = changed(&[]);
    let again = |kept: Kept, changed: &ChangedNodes, cluster: &Cluster, nominated: &[NodeIx]| {
        run_again(Some(kept), changed, cluster, nominated)
    };
    let on_a = "preempts on a".to_owned();

    let (kept, chosen, tried) = run_again(None, &none, &cluster, &[]);
    assert_eq!((chosen, tried), (on_a.clone(), vec![0]));
    let (kept, chosen, tried) = again(kept, &none, &cluster, &[]);
    assert_eq!((chosen, tried), (on_a.clone(), vec![]), "nothing has changed");
    let (kept, _, tried) = again(kept, &changed(&[b]), &cluster, &[]);
    assert!(tried.is_empty(), "another node has changed");
    let (kept, _, tried) = again(kept, &changed(&[a]), &cluster, &[]);
    assert_eq!(tried, [0], "the node has changed");
    let started = ChangedNodes { starts: vec![a], ..ChangedNodes::default() };
    let (kept, _, tried) = again(kept, &started, &cluster, &[]);
    assert_eq!(tried, [0], "a pod has started");
    let (kept, _, tried) = again(kept, &none, &cluster, &[a]);
    assert_eq!(tried, [0], "a pod is nominated");
    let (kept, _, tried) = again(kept, &none, &cluster, &[]);
    assert_eq!(tried, [0], "no longer nominated");

    protect(&mut cluster, &[("other", 0)]);
    let (kept, _, tried) = again(kept, &none, &cluster, &[]);
    assert_eq!(tried, [0], "budgets have changed");
    let (kept, _, tried) = again(kept, &none, &cluster, &[]);
    assert!(tried.is_empty(), "no budget selects the pod");
    protect(&mut cluster, &[("x", 1)]);
    let (kept, ..) = again(kept, &none, &cluster, &[]);
    let (_, chosen, tried) = again(kept, &none, &cluster, &[]);
    assert_eq!((chosen, tried), (on_a, vec![0]), "a budget selects the pod");
}

#[test]
fn victims_are_selected_again_while_only_some_pods_of_the_node_have_started() {
    let low = |name: &str| pod(name).cpu("2").on("a");
    let starts = [(false, false), (true, false), (true, true)];
    let tried_again = starts.map(|(one, other)| {
        let start = |pod: PodBuilder, has_started: bool| match has_started {
            true => pod.started(0).build(),
            false => pod.build(),
        };
        let placed = [start(low("x"), one), start(low("y"), other)];
        let cluster = cluster([node("a").allocatable("cpu", "4").build()], placed);
        let (kept, ..) = run_again(None, &changed(&[]), &cluster, &[]);
        let (_, chosen, tried) = run_again(Some(kept), &changed(&[]), &cluster, &[]);
        assert_eq!(chosen, "preempts on a");
        !tried.is_empty()
    });
    assert_eq!(tried_again, [false, true, false]);
}

#[test]
fn missing_candidate_is_explained_and_clears_the_nomination() {
    let high = || pod("x").cpu("2").priority(100);
    let (cluster, incoming) = choice(&[&[high()], &[high(), low("y").cpu("0")], &[]]);
    let mut verdicts = all_unschedulable(&cluster);
    let c = cluster.node_named("c").unwrap();
    verdicts.record(c, Status::unresolvable("tainted"));
    let outcome = run(&Wanting(100), &incoming, &cluster, &verdicts);
    let text = "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for \
                incoming pod, 1 Preemption is not helpful for scheduling.";
    assert_eq!((outcome.code, outcome.message.as_str()), (Code::Unschedulable, text));
    assert_eq!(outcome.nominating, NominatingInfo::Override("".into()));
}

#[test]
fn error_is_returned_only_without_candidates() {
    struct Failing;
    impl Evaluator for Failing {
        fn plugin(&self) -> &PluginName {
            plugin_name()
        }

        fn candidates_wanted(&self, nodes: usize) -> usize {
            nodes
        }

        fn select_victims_on_node(
            &self,
            attempt: &FailedAttempt<'_>,
            node: NodeIx,
            _trial: &mut dyn Trial,
        ) -> Result<Victims, Status> {
            let pods: Vec<_> = attempt.cluster().node(node).pods().cloned().collect();
            match &**attempt.cluster().node_name(node) {
                "a" => Err(Status::error("boom")),
                _ => Ok(Victims { pods, pdb_violations: 0 }),
            }
        }
    }
    let rows: [(&[&[PodBuilder]], Code, &str); 3] = [
        (&[&[], &[]], Code::Error, "boom"),
        (&[&[]], Code::Error, "boom"),
        (&[&[], &[low("x")]], Code::Success, ""),
    ];
    for (nodes, code, message) in rows {
        let (cluster, incoming) = choice(nodes);
        let outcome = run(&Failing, &incoming, &cluster, &all_unschedulable(&cluster));
        assert_eq!((outcome.code, outcome.message.as_str()), (code, message));
        assert_eq!(outcome.nominating == NominatingInfo::Noop, code == Code::Error);
    }
}

#[test]
fn ineligible_pod_gets_the_reason_and_keeps_its_nomination() {
    let never = "not eligible due to preemptionPolicy=Never.";
    let terminating = "not eligible due to a terminating pod on the nominated node.";
    let evicted = |reason: &str, priority: i32| {
        let condition = json!({ "type": "DisruptionTarget", "status": "True", "reason": reason });
        pod("x").cpu("2").priority(priority).with(|pod| {
            pod.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
            pod.status.conditions.push(serde_json::from_value(condition).unwrap());
        })
    };
    let ours = || evicted("PreemptionByScheduler", 1);
    let to = |node: &str| pod("p").cpu("2").priority(100).nominated(node);
    let never_preempts = to("a").with(|pod| pod.spec.preemption_policy = Some("Never".to_owned()));
    let resolvable = Status::unschedulable("full");
    let unresolvable = Status::unresolvable("tainted");
    let rows = [
        (never_preempts, ours(), &resolvable, Some(never)),
        (to("a"), ours(), &resolvable, Some(terminating)),
        (to("a"), ours(), &unresolvable, None),
        (to("gone"), ours(), &resolvable, None),
        (to("a"), evicted("EvictionByEvictionAPI", 1), &resolvable, None),
        (to("a"), evicted("PreemptionByScheduler", 100), &resolvable, None),
        (pod("p").cpu("2").priority(100), ours(), &resolvable, None),
    ];
    for (place, (incoming, placed, status, expected)) in rows.into_iter().enumerate() {
        let (cluster, _) = choice(&[&[placed]]);
        let mut verdicts = Verdicts::default();
        verdicts.record_all(cluster.nodes(), status.clone());
        let outcome = run(&Wanting(1), &incoming.build(), &cluster, &verdicts);
        let not_eligible = outcome.message.starts_with("not eligible");
        assert_eq!(not_eligible.then_some(outcome.message.as_str()), expected, "row {place}");
        assert_eq!(outcome.nominating == NominatingInfo::Noop, not_eligible, "row {place}");
    }
}

#[derive(Debug, Clone)]
struct Traits {
    priority: i32,
    cpu: i64,
    memory: i64,
    host_port: Option<i32>,
    /// Whether the pod has the label `app: web`.
    labelled: bool,
}

prop_compose! {
    fn any_pod()(
        priority in 0..4,
        cpu in 0_i64..4,
        memory in 0_i64..4,
        host_port in prop::option::weighted(0.3, 80..83),
        labelled: bool,
    ) -> Traits {
        Traits { priority, cpu, memory, host_port, labelled }
    }
}

fn built(name: &str, traits: Traits) -> PodBuilder {
    let Traits { priority, cpu, memory, host_port, labelled } = traits;
    let pod = pod(name).priority(priority).cpu(&cpu.to_string()).memory(&memory.to_string());
    let pod = if labelled { pod.label("app", "web") } else { pod };
    host_port.map_or(pod.clone(), |port| pod.host_port(port))
}

proptest! {
    #[test]
    fn no_proper_subset_of_the_victims_is_enough(
        placed in prop::collection::vec(any_pod(), 1..9),
        incoming in any_pod(),
        allowed in -1..3,
    ) {
        let names: Vec<String> = (0..placed.len()).map(|place| format!("v{place}")).collect();
        let pods = placed.into_iter().zip(&names).map(|(what, name)| built(name, what).on("n").build());
        let small = node("n").allocatable("cpu", "6").allocatable("memory", "6").allocatable("pods", "6");
        let mut cluster = cluster([small.build()], pods);
        protect(&mut cluster, &[("web", allowed)]);
        let incoming = built("p", incoming).priority(3).build();
        let outcome = run(&Wanting(1), &incoming, &cluster, &all_unschedulable(&cluster));

        let view = cluster.node(cluster.node_named("n").unwrap());
        let victims: Vec<_> =
            view.placed().filter(|(_, pod)| outcome.victims.contains(&pod.key.name.to_string())).collect();
        prop_assert!(victims.iter().all(|(_, victim)| victim.priority() < 3));
        prop_assume!(!victims.is_empty());
        let all = (1_u32 << victims.len()) - 1;
        for chosen in 0..=all {
            let mut overlay = crate::Overlay::default();
            for (place, (pod, _)) in victims.iter().enumerate() {
                if chosen & 1 << place != 0 {
                    overlay.remove(&cluster, *pod);
                }
            }
            let makes_room = fits(&incoming, &view.with(&overlay)).is_success();
            prop_assert_eq!(makes_room, chosen == all, "{:?}", outcome);
        }
    }
}
