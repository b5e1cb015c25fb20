//! What a seed does often, and what it leaves out (swarm testing): where everything happens at low
//! rates, the situations seldom meet in which a bug matters.

use fastrand::Rng;

use super::churn::nodes::NODE_NAMES;

/// A part of the faults and actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    /// Pods are created, deleted, replaced and changed.
    Pods,
    /// Plugins wait, and pods are disturbed that the scheduler is working on.
    UnderWay,
    /// Nodes come, go and change.
    Nodes,
    /// Namespaces, Services, controllers.
    Topology,
    /// Preemptors, budgets, nominations.
    Preemption,
    /// Claims, volumes and classes.
    Storage,
    /// Claims, classes and slices of devices.
    Devices,
    /// Other schedulers and kubelets.
    Foreign,
    /// Processes end and are stopped.
    Ends,
    /// Wall clocks are corrected.
    Clocks,
    /// API servers lag and restart, history is compacted.
    Servers,
    /// Lists and watches fail.
    Watches,
    /// Binds fail.
    Binds,
    /// Patches of the status of pods fail.
    Statuses,
    /// Deletions of victims fail.
    Evictions,
    /// Reads of pods fail.
    Reads,
    /// Writes of claims and volumes fail.
    Claims,
    /// Writes of events fail.
    Events,
    /// Writes of the Lease fail.
    Leases,
    /// Faults of single places last for minutes.
    Troubles,
    /// PodGroups, and pods that belong to them.
    Groups,
}

use Theme::{
    Binds, Claims, Clocks, Devices, Ends, Events, Evictions, Foreign, Groups, Leases, Nodes, Pods,
    Preemption, Reads, Servers, Statuses, Storage, Topology, Troubles, UnderWay, Watches,
};

/// All themes, in their order.
const THEMES: [Theme; 21] = [
    Pods, UnderWay, Nodes, Topology, Preemption, Storage, Devices, Foreign, Ends, Clocks, Servers,
    Watches, Binds, Statuses, Evictions, Reads, Claims, Events, Leases, Troubles, Groups,
];
/// Number of themes that a seed without groups may have.
const WITHOUT_GROUPS: usize = THEMES.len() - 1;

impl Theme {
    /// Number of themes of requests and calls.
    pub(crate) const OF_REQUESTS: usize = 1 + Leases as usize - Watches as usize;

    /// Returns the number of the theme among those of requests and calls.
    pub(crate) fn of_requests(self) -> Option<usize> {
        (self as usize).checked_sub(Watches as usize).filter(|number| *number < Self::OF_REQUESTS)
    }
}

/// Themes whose faults and actions meet in one place of the scheduler.
const SCENARIOS: [&[Theme]; 14] = [
    &[Binds, UnderWay],
    &[Binds, Statuses, Reads],
    &[Binds, Foreign, Nodes],
    &[Binds, Ends, Leases],
    &[Preemption, Evictions],
    &[Preemption, Evictions, Foreign],
    &[Preemption, UnderWay, Statuses],
    &[Preemption, Nodes, Pods],
    &[UnderWay, Nodes],
    &[UnderWay, Pods, Topology],
    &[Devices, Claims],
    &[Devices, Binds, UnderWay],
    &[Storage, Claims, UnderWay],
    &[Watches, Servers, Ends],
];

/// How much more often the actions and faults of an emphasised theme happen.
const OFTEN: u32 = 6;
/// Maximum rate of what happens often, in thousandths.
const MOST: u32 = 600;
/// Fewest and most nodes of a tiny cluster.
const TINY: std::ops::Range<usize> = 2..5;

/// The emphasis of a seed.
#[derive(Debug, Clone)]
pub(crate) struct Emphasis {
    /// By how much the rates of each theme are multiplied.
    factors: [u32; THEMES.len()],
    /// The numbers of the nodes.
    pub(crate) nodes: Vec<usize>,
    /// Number of names of pods.
    pub(crate) pod_names: u32,
    /// Number of templates of most pods; `None` if they do not repeat.
    pub(crate) templates: Option<usize>,
    /// Longest pauses between actions, in milliseconds: mostly, often, seldom.
    pub(crate) pauses: [u64; 3],
}

impl Emphasis {
    /// Everything, at low rates, in a larger cluster.
    pub(crate) fn general(has_devices: bool) -> Self {
        let mut factors = [1; THEMES.len()];
        factors[Devices as usize] = u32::from(has_devices);
        factors[Groups as usize] = 0;
        let nodes = (0..NODE_NAMES).collect();
        Self { factors, nodes, pod_names: 14, templates: None, pauses: [20, 1000, 15_000] }
    }

    /// A scenario and one or two more themes, in a tiny cluster with few names. Most of the rest
    /// does not happen.
    pub(crate) fn swarm(rng: &mut Rng) -> Self {
        let mut factors = THEMES.map(|theme| match theme {
            Devices | Groups => 0,
            // Nothing happens without pods and nodes.
            Pods => rng.u32(1..4),
            Nodes => 1,
            _ => u32::from(rng.u32(..5) < 2),
        });
        let scenario = SCENARIOS[rng.usize(..SCENARIOS.len())].iter().copied();
        let more = (0..rng.u32(1..3)).map(|_| THEMES[rng.usize(..WITHOUT_GROUPS)]);
        for theme in scenario.chain(more.collect::<Vec<_>>()) {
            factors[theme as usize] = OFTEN;
        }
        let mut nodes: Vec<usize> = (0..NODE_NAMES).collect();
        rng.shuffle(&mut nodes);
        nodes.truncate(rng.usize(TINY));
        let templates = [None, Some(2), Some(4)][rng.usize(..3)];
        let pauses = [[20, 1000, 15_000], [10, 100, 3_000], [300, 3_000, 20_000]][rng.usize(..3)];
        Self { factors, nodes, pod_names: rng.u32(3..9), templates, pauses }
    }

    /// PodGroups, and what a [swarm](Self::swarm) has. Devices and volumes do not happen.
    pub(crate) fn with_groups(rng: &mut Rng) -> Self {
        let mut own = Self::swarm(rng);
        for (theme, factor) in [(Groups, OFTEN), (Devices, 0), (Storage, 0)] {
            own.factors[theme as usize] = factor;
        }
        own
    }

    /// Whether the cluster is tiny.
    pub(crate) const fn is_tiny(&self) -> bool {
        self.nodes.len() < NODE_NAMES
    }

    /// Whether a theme is emphasised.
    pub(crate) const fn is_on(&self, theme: Theme) -> bool {
        self.factors[theme as usize] == OFTEN
    }

    /// Whether anything of a theme happens.
    pub(crate) const fn has(&self, theme: Theme) -> bool {
        self.factors[theme as usize] > 0
    }

    /// Returns the weight of an action of a theme.
    pub(crate) const fn weight(&self, theme: Theme, usual: u32) -> u32 {
        usual * self.factors[theme as usize]
    }

    /// Decides whether a fault of a theme happens that usually does at this rate, in thousandths.
    pub(crate) fn happens(&self, theme: Theme, rng: &mut Rng, usual: u32) -> bool {
        rng.u32(..1000) < self.weight(theme, usual).min(MOST)
    }

    /// Returns the rate, in thousandths, of the faults of the requests of the theme of this number;
    /// `None` if it is that of the network.
    pub(crate) fn rate_of_requests(&self, number: usize, rng: &mut Rng) -> Option<u32> {
        match self.factors[Watches as usize + number] {
            OFTEN => Some(rng.u32(150..MOST)),
            0 => Some(0),
            _ => None,
        }
    }
}
