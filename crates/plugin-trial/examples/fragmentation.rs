//! How many jobs of a whole rack can start in racks that jobs of other sizes come to and leave, by
//! the plugin that chooses the rack:
//!
//! ```sh
//! cargo run --release -p loadmaster-plugin-trial --example fragmentation [-- SEEDS JOBS]
//! ```
//!
//! Each job is a PodGroup whose pods need a node each, all in one rack. A job comes in every unit
//! of time, and stays for a time that its seed draws; together the jobs ask for 90 % of the nodes.
//! A job that does not fit when it comes goes away. The jobs of the first tenth fill the cluster
//! and are not counted.

use std::collections::{BTreeMap, BTreeSet};

use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::{Change, Engine, EngineConfig, Input};
use fastrand::Rng;
use framework::{Answer, EventResource, ObjectKey, PluginGates, Pod, PodGroupKey, Time};
use serde_json::{Value, json};
use testkit::{node, object, pod};

const GPU: &str = "nvidia.com/gpu";

/// Racks, and the jobs that come to them.
struct Case {
    name: &'static str,
    /// Number of racks, and of the nodes of each.
    racks: &'static [(usize, usize)],
    /// How many of a hundred jobs have so many pods. The last are those of a whole rack.
    jobs: &'static [(usize, usize)],
}

const CASES: [Case; 2] = [
    Case {
        name: "64 of 16 nodes",
        racks: &[(64, 16)],
        jobs: &[(30, 1), (20, 2), (20, 4), (20, 8), (10, 16)],
    },
    Case {
        name: "24 of 8, 24 of 16, 16 of 32",
        racks: &[(24, 8), (24, 16), (16, 32)],
        jobs: &[(25, 1), (20, 2), (20, 4), (20, 8), (10, 16), (5, 32)],
    },
];

/// The plugins that choose the rack, and the changes of the default profile.
fn choices() -> [(&'static str, Value); 4] {
    let without_fit = json!([{"name": "NodeResourcesFit"}]);
    let of_gpus = json!({"scoringStrategy": {
        "type": "LeastAllocated", "resources": [{"name": GPU, "weight": 1}],
    }});
    [
        ("at random", json!({"plugins": {"placementScore": {"disabled": without_fit}}})),
        ("most allocated", json!({})),
        (
            "most GPUs allocated",
            json!({"pluginConfig": [{"name": "NodeResourcesFit", "args": of_gpus}]}),
        ),
        (
            "TightestPlacement",
            json!({"plugins": {"placementScore": {
                "enabled": [{"name": "TightestPlacement"}], "disabled": without_fit,
            }}}),
        ),
    ]
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|own| own.parse().ok()).collect();
    let seeds = numbers.first().copied().unwrap_or(10);
    let jobs = numbers.get(1).and_then(|own| usize::try_from(*own).ok()).unwrap_or(2_000);
    println!("| Racks | The rack is chosen | Whole racks | Other jobs | Nodes in use |");
    println!("|---|---|---:|---:|---:|");
    for case in &CASES {
        for (name, profile) in choices() {
            let mut tally = Tally::default();
            (0..seeds).for_each(|seed| tally.add(&run(case, &profile, seed, jobs)));
            println!("| {} | {name} | {} |", case.name, tally.row());
        }
    }
}

/// What became of the jobs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Number of jobs of a whole rack that came, and that could start.
    whole: [usize; 2],
    /// The same of other jobs.
    others: [usize; 2],
    /// Sum of the nodes over time, and of those in use.
    nodes: [usize; 2],
}

impl Tally {
    fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.whole, other.whole),
            (&mut self.others, other.others),
            (&mut self.nodes, other.nodes),
        ];
        for (own, other) in pairs {
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
    }

    /// The shares in tenths of a percent.
    fn row(&self) -> String {
        let percent = |[all, part]: [usize; 2]| {
            let tenths = (part * 1_000 + all / 2) / all.max(1);
            format!("{}.{} %", tenths / 10, tenths % 10)
        };
        [self.whole, self.others, self.nodes].map(percent).join(" | ")
    }
}

/// Runs so many jobs through the racks of a case.
fn run(case: &Case, profile: &Value, seed: u64, jobs: usize) -> Tally {
    let mut rng = Rng::with_seed(seed);
    let mut scheduler = Scheduler::new(profile, seed);
    let mut nodes = 0;
    for (rack, size) in case.racks.iter().flat_map(|(racks, size)| vec![*size; *racks]).enumerate()
    {
        (0..size).for_each(|number| scheduler.add_node(rack, number));
        nodes += size;
    }
    let pods: usize = case.jobs.iter().map(|(share, pods)| share * pods).sum();
    // The mean of the draw is half of it: jobs of `pods / 100` pods ask for 90 % of the nodes.
    let longest = 2 * nodes * 90 / pods;
    let (mut ends, mut in_use) = (BTreeSet::new(), 0);
    let mut tally = Tally::default();
    for number in 0..jobs {
        while ends.first().is_some_and(|(end, _)| *end <= number) {
            in_use -= ends.pop_first().map_or(0, |(_, ended)| scheduler.delete(ended));
        }
        let mut place = rng.usize(0..100);
        let size = case.jobs.iter().find(|(share, _)| {
            let is_meant = place < *share;
            place = place.saturating_sub(*share);
            is_meant
        });
        let Some((_, size)) = size.copied() else { continue };
        let (cpu, stays) = (rng.usize(1..12) * 8, 1 + rng.usize(0..longest));
        let starts = scheduler.starts(number, size, cpu);
        if starts {
            ends.insert((number + stays, number));
            in_use += size;
        }
        if number >= jobs / 10 {
            let is_whole = case.jobs.last().is_some_and(|own| own.1 == size);
            let counted = if is_whole { &mut tally.whole } else { &mut tally.others };
            counted[0] += 1;
            counted[1] += usize::from(starts);
            tally.nodes[0] += nodes;
            tally.nodes[1] += in_use;
        }
    }
    tally
}

/// An engine whose requests are answered at once.
struct Scheduler {
    engine: Engine,
    /// The pods of the jobs, by the number of the job.
    pods: BTreeMap<usize, Vec<Pod>>,
}

impl Scheduler {
    fn new(profile: &Value, seed: u64) -> Self {
        let gates = PluginGates { generic_workload: true, ..PluginGates::default() };
        let mut profile: SchedulerProfile =
            serde_json::from_value(profile.clone()).expect("a profile");
        profile.scheduler_name = "default-scheduler".to_owned();
        let of_groups = ["GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"];
        let defaults = plugins::catalogue::defaults();
        let defaults = defaults.map(|entry| PluginRef::new(entry.name, entry.default_weight));
        let defaults = defaults.chain(of_groups.map(|name| PluginRef::new(name, 1)));
        let (defaults, registry) = (defaults.collect::<Vec<_>>(), plugins::registry());
        let profiles = Profiles::build(&[profile], &defaults, &registry.with_gates(gates), false);
        let config = EngineConfig::new(profiles.expect("the profile builds"));
        Self { engine: Engine::new(EngineConfig { seed, ..config }), pods: BTreeMap::new() }
    }

    /// Takes a step, and answers all requests.
    fn step(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut ports = Ports { extenders: &mut (), probe: &mut () };
            self.engine.step(input, Time::ZERO, &mut ports);
            let effects = self.engine.take_effects().into_iter();
            let answer = |id| Input::Answer { effect: id, answer: Answer::ok() };
            inputs.extend(effects.map(|effect| answer(effect.id)));
        }
    }

    fn add_node(&mut self, rack: usize, number: usize) {
        let node = node(&format!("rack-{rack}-{number}")).label("rack", &format!("rack-{rack}"));
        let node = node.allocatable("cpu", "96").allocatable("memory", "768Gi");
        let node = node.allocatable(GPU, "8").allocatable("pods", "110");
        self.step(Input::Change(Change::Node(node.build())));
    }

    /// Returns whether a job with so many pods, of so many CPUs each, can start. If not, it goes
    /// away.
    fn starts(&mut self, number: usize, size: usize, cpu: usize) -> bool {
        let name = format!("job-{number}");
        let group = json!({
            "metadata": {"namespace": "default", "name": name, "uid": name},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": size}},
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
            },
        });
        let group = Change::Object(Box::new(object(EventResource::PodGroup, group)));
        self.step(Input::Change(group));
        let pods: Vec<_> = (0..size)
            .map(|member| {
                let pod = pod(&format!("{name}-{member}")).scheduling_group(&name);
                let (cpu, memory) = (cpu.to_string(), format!("{}Gi", cpu * 8));
                pod.cpu(&cpu).request("memory", &memory).request(GPU, "8").build()
            })
            .collect();
        for pod in &pods {
            self.step(Input::Change(Change::Pod(Box::new(pod.clone()))));
        }
        self.pods.insert(number, pods);
        self.step(Input::Schedule);
        let state = self.engine.cluster().pod_group_state(&PodGroupKey::new("default", &name));
        let starts = state.is_some_and(|own| own.scheduled().count() == size);
        if !starts {
            self.delete(number);
        }
        starts
    }

    /// Deletes a job. Returns the number of its pods.
    fn delete(&mut self, number: usize) -> usize {
        let pods = self.pods.remove(&number).unwrap_or_default();
        let count = pods.len();
        for pod in pods {
            let gone = Change::PodDeleted { key: pod.key, uid: pod.uid };
            self.step(Input::Change(gone));
        }
        let name = format!("job-{number}");
        let key = ObjectKey::namespaced(EventResource::PodGroup, "default".into(), name.into());
        let gone = Change::decode(key, None::<Value>).expect("a deletion decodes");
        self.step(Input::Change(gone));
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_that_leaves_whole_racks_lets_most_jobs_of_a_whole_rack_start() {
        let rows =
            CASES.map(|case| choices().map(|(_, profile)| run(&case, &profile, 0, 600).row()));
        let expected = [
            [
                "62.1 % | 100.0 % | 70.1 %",
                "98.3 % | 100.0 % | 79.3 %",
                "100.0 % | 100.0 % | 79.5 %",
                "100.0 % | 100.0 % | 79.5 %",
            ],
            [
                "34.4 % | 99.8 % | 71.0 %",
                "84.4 % | 98.8 % | 79.9 %",
                "90.6 % | 98.8 % | 80.7 %",
                "90.6 % | 99.0 % | 81.2 %",
            ],
        ];
        assert_eq!(rows, expected);
    }
}
