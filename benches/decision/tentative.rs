//! Groups of pods that are placed for a while.

use std::time::{Duration, Instant};

use engine::Engine;
use engine::cycle::Form;
use engine::ports::Ports;
use framework::{Pod, Time};

use crate::support::node_name;
use crate::text::text;
use crate::workload::{Shape, Workload};
use crate::{config, templates};

/// Sizes of groups.
const GROUPS: [usize; 3] = [1, 8, 64];
/// Number of pods that are placed in groups of one size.
const PODS: usize = 64_000;
/// Number of applications whose pods have spread constraints and affinity.
const APPLICATIONS: usize = 10;

/// Prints the time that a pod takes to be placed on a node, and taken off at the end of the
/// savepoint: for plain pods, and for pods with spread constraints or affinity, which are counted
/// by queries.
pub(crate) fn print(sizes: &[usize]) {
    println!("\n{:>8} {:>9} {:>6} {:>12} {:>12}", "nodes", "pods", "group", "plain", "mixed");
    for nodes in sizes.iter().copied() {
        let (mut plain, pods) = templates::engine(config(Form::Ranked), nodes);
        let shape = Shape::Mixed;
        let workload = Workload { shape, applications: APPLICATIONS, nodes, pods_per_node: 5 };
        let mut mixed = workload.engine(config(Form::Ranked));
        // The first decision of a template registers its queries.
        crate::decision(&mut mixed, 8 * APPLICATIONS, |number| workload.pod(number));
        for group in GROUPS {
            let place = |number: usize, pod: Pod| Pod {
                node_name: Some(node_name(number * 7919 % nodes).into()),
                ..pod
            };
            let of_plain =
                mean(&mut plain, group, |number| place(number, templates::pod(pods + number)));
            let of_mixed = mean(&mut mixed, group, |number| {
                place(number, workload.pod(workload.pods() + number))
            });
            let (of_plain, of_mixed) = (text(of_plain), text(of_mixed));
            println!("{nodes:>8} {pods:>9} {group:>6} {of_plain:>12} {of_mixed:>12}");
        }
    }
}

/// Returns the mean time for each pod, in groups of this size. `pod` creates the pods by number.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn mean(engine: &mut Engine, group: usize, pod: impl Fn(usize) -> Pod) -> Duration {
    let pods: Vec<Pod> = (0..group.max(1_000)).map(pod).collect();
    let start = Instant::now();
    for number in 0..PODS / group {
        let first = number * group % (pods.len() + 1 - group);
        let mut ports = Ports { extenders: &mut (), probe: &mut () };
        let placed = engine.suppose(Time::ZERO, &mut ports, |supposed| {
            pods[first..first + group].iter().filter(|pod| supposed.put(pod)).count()
        });
        assert_eq!(placed, group);
    }
    start.elapsed() / PODS as u32
}
