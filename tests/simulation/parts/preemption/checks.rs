//! Comparisons with the model.

use std::collections::BTreeSet;

use framework::preemption::FruitlessPreemptions;
use framework::{Pod, Uid};

use super::super::super::oracle::{Budgets, Oracle};
use super::super::super::rules::{Checked, rule};
use super::{History, InProgress};

impl History<'_> {
    /// Compares what the engine shows with the model.
    pub(super) fn check(&mut self) -> Checked {
        self.note_nominations();
        // Budgets count pods on nodes only.
        let charged = std::mem::take(&mut self.charged);
        self.charged = charged.into_iter().filter(|uid| self.is_placed(uid)).collect();
        for pod in self.engine.pending() {
            let gates = |own: &InProgress| own.gates && own.preemptor.uid == pod.uid;
            let expected = self.preemptions.iter().any(gates);
            let found = self.engine.is_preempting(&pod.uid);
            rule(found == expected, || {
                format!("{} is preempting: {found}; {:?}", pod.key, self.preemptions)
            })?;
            self.compare_pauses(pod)?;
            let pause = self.pauses.get(&pod.uid).copied();
            let next = self.engine.next_deadline();
            rule(pause.is_none_or(|until| next.is_some_and(|next| next <= until)), || {
                format!("{} pauses until {pause:?}, and the next deadline is {next:?}", pod.key)
            })?;
        }
        for uid in &self.pods {
            let is_open = self
                .preemptions
                .iter()
                .any(|own| own.requested.values().any(|victim| victim.uid == *uid));
            let expected = is_open || self.ending.contains(uid);
            let found = self.engine.is_evicting(uid);
            rule(found == expected, || format!("{uid} is being evicted: {found}"))?;
        }
        let cluster = self.engine.cluster();
        let charged: BTreeSet<Uid> = cluster.evicting("default", "web").cloned().collect();
        rule(charged == self.charged, || {
            format!("the budget counts {charged:?}, not {:?}", self.charged)
        })
    }

    fn note_nominations(&mut self) {
        let nominator = self.engine.nominator();
        let nominated = self
            .engine
            .pending()
            .filter_map(|pod| Some((pod.uid.clone(), nominator.node_of(&pod.uid)?.clone())));
        let nominated = nominated.collect();
        for (pod, node) in std::mem::replace(&mut self.nominated, nominated) {
            let is_pending = self.engine.pending().any(|own| own.uid == pod);
            if is_pending && self.nominated.get(&pod) != Some(&node) {
                self.attempt += 1;
                self.given_up.insert(node, self.attempt);
            }
        }
    }

    pub(super) fn compare_pauses(&self, pod: &Pod) -> Checked {
        let handle = self.engine.handle(self.now);
        let fruitless = handle.preemptions.fruitless();
        let own = |all: &FruitlessPreemptions| all.pause_of(&pod.uid, self.now);
        let (found, expected) = (own(fruitless), own(&self.fruitless));
        rule(found == expected, || format!("{} pauses for {found:?}, not {expected:?}", pod.key))?;
        let of_nodes = |all: &FruitlessPreemptions| -> Vec<_> {
            let paused = all.paused_nodes(pod, self.now);
            paused.map(|(node, pause)| (node.clone(), pause)).collect()
        };
        let (found, expected) = (of_nodes(fruitless), of_nodes(&self.fruitless));
        rule(found == expected, || format!("{found:?} pause for {}, not {expected:?}", pod.key))
    }

    pub(super) fn all_is_done(&self) -> Checked {
        if !self.is_at_rest() {
            return Ok(());
        }
        let oracle = Oracle::of_engine(&self.engine, &self.related);
        let budgets = Budgets::of_engine(&self.engine, &self.related);
        // No event says that the plugin lets pods pass now.
        let has_waited = |pod: &Pod| {
            let queued = self.engine.queue().get(&pod.key);
            queued.is_some_and(|(_, own)| own.history.unschedulable_plugins.contains("Waits"))
        };
        for pod in self.engine.pending().filter(|pod| !has_waited(pod)) {
            // No event says that a nomination was given up, as in kube-scheduler.
            let last = self.attempts.get(&pod.uid);
            let is_known = |node: &str| self.given_up.get(node) < last;
            let takers: Vec<_> = oracle.takers(pod).filter(|node| is_known(node)).collect();
            rule(takers.is_empty(), || format!("{} waits, and {takers:?} would take it", pod.key))?;
            let is_paused = self.fruitless.pause_of(&pod.uid, self.now).is_some()
                || self.fruitless.paused_nodes(pod, self.now).next().is_some();
            let mut givers = oracle.candidates(pod, &budgets, self.now).unwrap_or_default();
            // Nor does one say that a pod came which could be evicted.
            givers.retain(|giver| self.arrivals.get(&giver.node) < last && is_known(&giver.node));
            rule(is_paused || givers.is_empty(), || {
                format!("{} waits, and evictions would make room: {givers:?}", pod.key)
            })?;
        }
        Ok(())
    }
}

/// Checks that the numbers of nodes in the text of an attempt add up to all nodes. Without numbers
/// the pod was rejected as a whole.
pub(super) fn counts_add_up(text: &str, nodes: usize) -> Checked {
    let mut parts = text.split(" nodes are available: ").skip(1);
    parts.try_for_each(|part| {
        let list = part.split(". ").next().unwrap_or(part);
        let counts =
            list.split(", ").filter_map(|own| own.split(' ').next()?.parse::<usize>().ok());
        let sum: usize = counts.sum();
        rule(sum == 0 || sum == nodes, || format!("{sum} of {nodes} nodes are explained: {text}"))
    })
}

/// Checks that a text says for each node why evictions do not help, or why the pod may evict none,
/// or which node it gets, as kube-scheduler 1.37 does.
pub(super) fn preemption_is_explained(text: &str, nodes: usize) -> Checked {
    let Some((_, why)) = text.split_once(" preemption: ") else { return Ok(()) };
    let starts = [
        format!("0/{nodes} nodes are available: "),
        "not eligible ".to_owned(),
        "found a potential placement for pod on node ".to_owned(),
    ];
    rule(starts.iter().any(|start| why.starts_with(start)), || {
        format!("preemption is not explained: {text}")
    })
}
