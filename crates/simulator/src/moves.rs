//! Moves that make room for pods that fit nowhere.

use std::collections::HashMap;
use std::sync::Arc;

use dry_run::World;
use engine::successor_of;
use framework::{Pod, PodKey, PodSpec, Template};
use make_room::{Answer, Cost, Limits, Movable, Move, Plan, Question};

/// Maximum number of decisions of one search. A search that ends early finds no cheaper plan, and
/// the pod may fit after later moves.
const DECISIONS: u32 = 2_000;
/// Maximum number of moves for one pod.
const MOST: usize = 4;

/// Number of arrivals after which room is looked for again for pods like one without a plan.
const PAUSE: usize = 300;

/// The moves that a run may still make.
#[derive(Debug, Clone)]
pub struct MoveBudget {
    left: usize,
    made: usize,
    /// Number of pods that had arrived when no plan was found for a pod of the template; looked up,
    /// never iterated.
    in_vain: HashMap<Template, usize>,
}

impl MoveBudget {
    /// Allows so many moves.
    pub fn new(moves: usize) -> Self {
        Self { left: moves, made: 0, in_vain: HashMap::new() }
    }

    /// Returns the number of moves that were made.
    pub const fn made(&self) -> usize {
        self.made
    }

    /// Makes room for a pod that fits nowhere, the last of so many, if moves are left for it. Every
    /// placed pod may be moved, at equal costs. Returns whether the pod was placed.
    ///
    /// Pods that are moved end together. Their successors go where the plan has them, before any
    /// pod that waits: they have a higher priority, and evict no pod.
    pub fn make_room(&mut self, pod: &Pod, arrived: usize, world: &mut World) -> bool {
        let moves = self.left.min(MOST);
        let template = Template::of(pod);
        let in_vain = self.in_vain.get(&template).is_some_and(|at| arrived < at + PAUSE);
        if moves == 0 || in_vain {
            return false;
        }
        let placed = world.engine().cluster().pods();
        let movable: Vec<Movable> =
            placed.map(|own| Movable { pod: own.pod.clone(), cost: Cost(1000) }).collect();
        let limits = Limits { moves, decisions: DECISIONS };
        let asked = Arc::new(pod.clone());
        let question = Question { pod: &asked, movable: &movable, limits };
        let Answer::Plan(Plan { moves, node, .. }) = world.make_room(&question) else {
            self.in_vain.insert(template, arrived);
            return false;
        };
        self.left -= moves.len();
        self.made += moves.len();
        carry_out(&moves, &movable, world);
        world.remove_pod(pod);
        world.add_pod(first(pod, &node));
        world.run_ready();
        world.engine().pending_pod(&pod.key).is_none()
    }
}

fn carry_out(moves: &[Move], movable: &[Movable], world: &mut World) {
    for step in moves {
        let Some(old) = movable.iter().find(|own| own.pod.uid == step.uid) else { continue };
        let name = format!("{}-moved", old.pod.key.name);
        let key = PodKey::new(&old.pod.key.namespace, &name);
        let uid = format!("{}-moved", old.pod.uid);
        let successor = Pod {
            key,
            uid: (&*uid).into(),
            extra: framework::Extra::default(),
            start_time: None.into(),
            ..successor_of(&old.pod)
        };
        world.remove_pod(&old.pod);
        world.add_pod(first(&successor, &step.to));
    }
}

/// Returns the pod as one that is placed before others, on this node if it fits there.
fn first(pod: &Pod, node: &Arc<str>) -> Pod {
    let spec = PodSpec { priority: 1, may_preempt: false, ..PodSpec::clone(&pod.spec) };
    let mut pod = Pod { spec: Arc::new(spec), ..pod.clone() };
    pod.set_nominated_node_name(Some(node.clone()));
    pod
}
