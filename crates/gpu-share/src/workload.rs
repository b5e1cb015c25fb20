//! The GPU amount of a node that the expected workload could use.
//!
//! The measure comes from "Beware of Fragmentation" (Weng et al., USENIX ATC'23). A task cannot use
//! a node that lacks the CPU, memory, devices or model it needs. A task without GPU demand uses no
//! devices. On any other node a task can use the devices with enough free for it. The free amount
//! less the usable amount, averaged over the tasks, is *fragmented*.
//!
//! In the notation of the paper, F(n) is the free amount less [`Workload::usable`]. It is computed
//! without visiting each task for each device: tasks of one device add up to a function of the free
//! amount of the device. For tasks of several devices only the number of unused devices matters.

use framework::{Resources, parse_resource_list};

use crate::args::Task;
use crate::demand::{Demand, WHOLE};
use crate::devices::Devices;

/// The sum of all popularities. Integers make scores the same on every machine.
pub(crate) const EVERY_TASK: i64 = 1_000_000;

/// The GPU model of a node, as the workload distinguishes models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ModelIx(usize);

/// The expected tasks.
#[derive(Debug, Default)]
pub(crate) struct Workload {
    /// Every model that a task names, sorted.
    models: Vec<String>,
    /// The tasks that can use each model, and last the tasks that can use any other model.
    of_model: Vec<Tasks>,
}

/// Tasks with GPU demand that can use a certain model.
#[derive(Debug, Default)]
struct Tasks {
    tasks: Vec<Weighted>,
    /// Amounts that tasks of one device take, ascending, each once.
    shares: Vec<u32>,
    /// Numbers of devices that tasks of several devices take, each once.
    multiples: Vec<u32>,
}

#[derive(Debug)]
struct Weighted {
    milli_cpu: i64,
    memory: i64,
    /// Position among the shares, or after them among the multiples.
    kind: usize,
    /// Its share of [`EVERY_TASK`].
    weight: i64,
}

/// The weights of the tasks that fit the CPU and memory of a node.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    /// Weights by kind of task; for a share the sum over it and all smaller shares.
    weights: Vec<i64>,
}

impl Workload {
    /// Creates the workload.
    ///
    /// # Errors
    /// The fields that cannot be read.
    pub(crate) fn new(tasks: &[Task]) -> Result<Self, String> {
        let requests = requests_of(tasks)?;
        let mut models: Vec<String> = tasks.iter().flat_map(|task| &task.models).cloned().collect();
        models.sort_unstable();
        models.dedup();
        let weights = weights_of(tasks);
        let weighted = || tasks.iter().zip(&requests).zip(&weights);
        let tasks_of = |model: Option<&String>| {
            let can_use = |task: &Task| {
                task.models.is_empty() || model.is_some_and(|model| task.models.contains(model))
            };
            let usable = weighted().filter(|((task, _), _)| can_use(task));
            Tasks::new(usable.map(|((_, requests), weight)| (requests, *weight)))
        };
        let of_model = models.iter().map(Some).chain([None]).map(tasks_of).collect();
        Ok(Self { models, of_model })
    }

    /// Returns the model with this name.
    pub(crate) fn model(&self, name: Option<&str>) -> ModelIx {
        let known = |name: &str| self.models.binary_search_by(|model| (**model).cmp(name)).ok();
        ModelIx(name.and_then(known).unwrap_or(self.models.len()))
    }

    /// Computes `reach` for a node with this much CPU and memory left.
    pub(crate) fn reach(&self, model: ModelIx, milli_cpu: i64, memory: i64, reach: &mut Reach) {
        let Some(tasks) = self.of_model.get(model.0) else { return reach.weights.clear() };
        reach.weights.clear();
        reach.weights.resize(tasks.shares.len() + tasks.multiples.len(), 0);
        for task in &tasks.tasks {
            let fits = task.milli_cpu <= milli_cpu && task.memory <= memory;
            reach.weights[task.kind] += if fits { task.weight } else { 0 };
        }
        let mut smaller = 0;
        for weight in &mut reach.weights[..tasks.shares.len()] {
            smaller += *weight;
            *weight = smaller;
        }
    }

    /// Returns the usable amount of a device with this much free for tasks of one device, in
    /// thousandths times weight.
    pub(crate) fn usable_of_device(&self, model: ModelIx, reach: &Reach, free: u32) -> i64 {
        let Some(tasks) = self.of_model.get(model.0) else { return 0 };
        match tasks.shares.partition_point(|share| *share <= free) {
            0 => 0,
            shares => reach.weights[shares - 1] * i64::from(free),
        }
    }

    /// Returns the usable amount of this many unused devices for tasks of several devices, in
    /// thousandths times weight.
    pub(crate) fn usable_of_unused(&self, model: ModelIx, reach: &Reach, unused: u32) -> i64 {
        let Some(tasks) = self.of_model.get(model.0) else { return 0 };
        let weights = reach.weights[tasks.shares.len()..].iter();
        let fit = tasks.multiples.iter().zip(weights).filter(|(devices, _)| **devices <= unused);
        fit.map(|(_, weight)| weight).sum::<i64>() * i64::from(unused) * i64::from(WHOLE)
    }

    /// Returns the usable amount of these devices, in thousandths times weight.
    pub(crate) fn usable(&self, model: ModelIx, reach: &Reach, devices: &Devices) -> i64 {
        let of_each = devices.free().iter().map(|free| self.usable_of_device(model, reach, *free));
        of_each.sum::<i64>() + self.usable_of_unused(model, reach, devices.whole())
    }
}

impl Tasks {
    fn new<'a>(tasks: impl Iterator<Item = (&'a Resources, i64)>) -> Self {
        let wanting: Vec<(&Resources, Demand, i64)> = tasks
            .filter_map(|(requests, weight)| {
                Some((requests, Demand::in_requests(requests)?, weight))
            })
            .collect();
        let sorted = |kinds: Vec<u32>| {
            let mut kinds = kinds;
            kinds.sort_unstable();
            kinds.dedup();
            kinds
        };
        let single = wanting.iter().filter(|(_, demand, _)| demand.devices() == 1);
        let shares = sorted(single.map(|(_, demand, _)| demand.of_each()).collect());
        let several = wanting.iter().filter(|(_, demand, _)| demand.devices() > 1);
        let multiples = sorted(several.map(|(_, demand, _)| demand.devices()).collect());
        let kind = |demand: Demand| match demand.devices() {
            1 => shares.partition_point(|share| *share < demand.of_each()),
            devices => shares.len() + multiples.partition_point(|several| *several < devices),
        };
        let weighted = |(requests, demand, weight): &(&Resources, Demand, i64)| Weighted {
            milli_cpu: requests.milli_cpu,
            memory: requests.memory,
            kind: kind(*demand),
            weight: *weight,
        };
        Self { tasks: wanting.iter().map(weighted).collect(), shares, multiples }
    }
}

fn requests_of(tasks: &[Task]) -> Result<Vec<Resources>, String> {
    let mut problems = Vec::new();
    let requests = tasks.iter().enumerate().map(|(place, task)| {
        let path = format_args!("workload[{place}].requests");
        parse_resource_list(&task.requests, path, &mut problems)
    });
    let requests = requests.collect();
    match problems.is_empty() {
        true => Ok(requests),
        false => Err(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}

/// Returns the popularities as parts of [`EVERY_TASK`].
fn weights_of(tasks: &[Task]) -> Vec<i64> {
    // Divide by the largest first, so that the sum of very large numbers stays finite.
    let largest = tasks.iter().map(|task| task.popularity).fold(0.0, f64::max);
    let sum: f64 = tasks.iter().map(|task| task.popularity / largest).sum();
    let part = |task: &Task| (task.popularity / largest / sum * EVERY_TASK as f64).round() as i64;
    tasks.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use framework::api::QuantityText;
    use proptest::prelude::*;

    use super::*;
    use crate::demand::GPU_MILLI;

    fn task(cpu: i64, memory: i64, gpu: i64, models: &[&str], popularity: f64) -> Task {
        let amounts = [("cpu", cpu), ("memory", memory), (GPU_MILLI, gpu)];
        let amount = |(name, amount): (&str, i64)| (name.into(), QuantityText(amount.to_string()));
        let models = models.iter().map(ToString::to_string).collect();
        Task { requests: amounts.map(amount).into(), models, popularity }
    }

    fn devices(free: &[u32]) -> Devices {
        let mut devices = Devices::unused(1000 * free.len() as i64);
        for (device, free) in free.iter().enumerate().filter(|(_, free)| **free < WHOLE) {
            let used = Demand::Share(WHOLE - free);
            devices.take(used, &device.to_string().parse().unwrap());
        }
        devices
    }

    /// Computes [`Workload::usable`] task by task, in thousandths.
    fn oracle(tasks: &[Task], model: &str, cpu: i64, memory: i64, free: &[u32]) -> f64 {
        let amount = |task: &Task, name: &str| task.requests[name].0.parse::<i64>().unwrap();
        let total: f64 = tasks.iter().map(|task| task.popularity).sum();
        let mut usable = 0.0;
        for task in tasks {
            let gpu = amount(task, GPU_MILLI);
            let (number, each) = if gpu < 1000 { (1, gpu) } else { (gpu / 1000, 1000) };
            let enough: Vec<i64> =
                free.iter().map(|free| i64::from(*free)).filter(|free| *free >= each).collect();
            let fits = gpu > 0
                && amount(task, "cpu") <= cpu
                && amount(task, "memory") <= memory
                && (task.models.is_empty() || task.models.iter().any(|own| own == model))
                && enough.len() as i64 >= number;
            if fits {
                usable += task.popularity / total * enough.iter().sum::<i64>() as f64;
            }
        }
        usable
    }

    fn usable(tasks: &[Task], model: &str, cpu: i64, memory: i64, free: &[u32]) -> f64 {
        let workload = Workload::new(tasks).unwrap();
        let (model, mut reach) = (workload.model(Some(model)), Reach::default());
        workload.reach(model, 1000 * cpu, memory, &mut reach);
        workload.usable(model, &reach, &devices(free)) as f64 / EVERY_TASK as f64
    }

    #[test]
    fn usable_amount_depends_on_each_task() {
        let tasks = [
            task(4, 8, 0, &[], 10.0),
            task(4, 8, 300, &[], 20.0),
            task(8, 8, 1000, &["T4"], 30.0),
            task(4, 16, 2000, &[], 40.0),
        ];
        let free = [1000, 1000, 500, 200];
        for (model, cpu, memory, expected) in [
            ("T4", 8, 16, 0.2 * 2500.0 + 0.3 * 2000.0 + 0.4 * 2000.0),
            ("T4", 7, 16, 0.2 * 2500.0 + 0.4 * 2000.0),
            ("P100", 8, 15, 0.2 * 2500.0),
            ("T4", 3, 16, 0.0),
            ("T4", -1, -1, 0.0),
        ] {
            assert_eq!(usable(&tasks, model, cpu, memory, &free), expected, "{model} {cpu}");
            assert_eq!(oracle(&tasks, model, cpu, memory, &free), expected, "{model} {cpu}");
        }
        assert_eq!(usable(&tasks[3..], "T4", 8, 16, &[1000, 999]), 0.0);
    }

    #[test]
    fn unreadable_request_is_named_in_the_error() {
        let mut bad = task(1, 1, 1, &[], 1.0);
        bad.requests.insert("cpu".to_owned(), QuantityText("many".to_owned()));
        let error = Workload::new(&[task(1, 1, 1, &[], 1.0), bad]).unwrap_err();
        assert!(error.starts_with("workload[1].requests[cpu]: cannot read \"many\""), "{error}");
    }

    #[test]
    fn very_large_popularities_do_not_overflow() {
        let tasks = [task(1, 1, 500, &[], f64::MAX), task(1, 1, 500, &[], f64::MAX)];
        assert_eq!(usable(&tasks, "", 1, 1, &[600]), 600.0);
    }

    proptest! {
        #[test]
        fn usable_amount_equals_the_oracle(
            tasks in prop::collection::vec(
                (0..4_i64, 0..4_i64, 0..13_i64, 0..4_usize, 1..9_u32),
                1..8,
            ),
            free in prop::collection::vec(prop_oneof![Just(1000_u32), 0..1000_u32], 0..9),
            (cpu, memory, model) in (-1..4_i64, -1..4_i64, 0..3_usize),
        ) {
            const MODELS: [&str; 3] = ["A", "B", "C"];
            let tasks: Vec<Task> = tasks
                .into_iter()
                .map(|(cpu, memory, gpu, models, popularity)| {
                    let gpu = if gpu < 10 { gpu * 100 } else { (gpu - 9) * 1000 };
                    // No task names the last model.
                    let models = [&[][..], &MODELS[..1], &MODELS[1..2], &MODELS[..2]][models];
                    task(cpu, memory, gpu, models, f64::from(popularity))
                })
                .collect();
            let expected = oracle(&tasks, MODELS[model], cpu, memory, &free);
            let found = usable(&tasks, MODELS[model], cpu, memory, &free);
            // Weights are rounded to millionths.
            prop_assert!((found - expected).abs() < 0.1, "{found} instead of {expected}");
        }
    }
}
