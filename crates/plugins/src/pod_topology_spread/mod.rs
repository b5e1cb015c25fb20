//! PodTopologySpread: spreads pods evenly over topology domains such as zones, racks or nodes.
//!
//! `constraint` determines which constraints apply to a pod and which nodes and pods count.
//! `domain_counts` counts the pods. Hard constraints filter nodes (`filtering`); soft constraints
//! score them (`scoring`). `hints` requeues rejected pods.

mod args;
mod constraint;
mod domain_counts;
mod filtering;
mod hints;
mod scoring;

use framework::{
    EventResource, Handle, Plugin, PluginArgs, PluginBuilder, PluginGates, Pod, PodQuery,
    StandingQueries,
};

use self::args::DefaultConstraints;
use self::constraint::Constraint;

/// Plugin name.
pub const NAME: &str = "PodTopologySpread";

/// The label whose domains are single nodes.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The PodTopologySpread plugin.
#[derive(Debug)]
pub struct PodTopologySpread {
    defaults: DefaultConstraints,
    gates: PluginGates,
}

/// Makes the plugin from `PodTopologySpreadArgs`.
///
/// # Errors
/// The arguments do not decode, or a default constraint is invalid.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let defaults = DefaultConstraints::decode(args)?;
    let (any_defaults, hard_defaults) = (!defaults.constraints.is_empty(), defaults.have_hard());
    let mut plugin = Plugin::new(NAME, PodTopologySpread { defaults, gates: args.gates() })
        .pre_filter()
        .pre_filter_extensions()
        .filter()
        .pre_score()
        .score()
        .normalize_score()
        .standing_queries();
    if any_defaults {
        plugin = SELECTING.into_iter().fold(plugin, PluginBuilder::read);
    }
    Ok(hints::register(plugin, hard_defaults).build())
}

/// The kinds from which the selector of default constraints is derived.
const SELECTING: [EventResource; 4] = [
    EventResource::Service,
    EventResource::ReplicationController,
    EventResource::ReplicaSet,
    EventResource::StatefulSet,
];

impl StandingQueries for PodTopologySpread {
    fn queries(&self, pod: &Pod, handle: &Handle<'_>) -> Vec<PodQuery> {
        let both = [
            self.hard_constraints(pod, handle.cluster),
            self.soft_constraints(pod, handle.cluster),
        ];
        both.into_iter().flatten().flatten().filter_map(Constraint::standing_query).collect()
    }
}

#[cfg(test)]
mod tests;
