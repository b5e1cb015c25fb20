//! The engine from extenders: changes go in, effects come out, plugins are scripted.
//!
//! Each module tells one part of the reference (kube-scheduler 1.36) as a story; [`harness`] is the
//! world around the engine, [`invariants`] is what must hold whatever happens.

// The name by which the rest of the workspace knows it.
extern crate loadmaster_engine as engine;

#[cfg(test)]
mod binding;
#[cfg(test)]
mod change_log;
#[cfg(test)]
mod cycle;
#[cfg(test)]
mod determinism;
#[cfg(test)]
mod events;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod extender_outages;
#[cfg(test)]
mod extenders;
#[cfg(test)]
mod extenders_preempt;
#[cfg(test)]
mod failure;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod holds;
#[cfg(test)]
mod invariants;
#[cfg(test)]
mod measurements;
#[cfg(test)]
mod moves;
#[cfg(test)]
mod nominated;
#[cfg(test)]
mod notifications;
#[cfg(test)]
mod panics;
#[cfg(test)]
mod plugin_writes;
#[cfg(test)]
mod pod_group_levels;
#[cfg(test)]
mod pod_group_orders;
#[cfg(test)]
mod pod_group_placements;
#[cfg(test)]
mod pod_group_preemption;
#[cfg(test)]
mod pod_group_reports;
#[cfg(test)]
mod pod_groups;
#[cfg(test)]
mod post_filter;
#[cfg(test)]
mod preemption;
#[cfg(test)]
mod preemption_wars;
#[cfg(test)]
mod quota_preemption;
#[cfg(test)]
mod quotas;
#[cfg(test)]
mod records;
#[cfg(test)]
mod reserve_permit;
#[cfg(test)]
mod sampling;
#[cfg(test)]
mod scoring;
#[cfg(test)]
mod unknown_binds;
