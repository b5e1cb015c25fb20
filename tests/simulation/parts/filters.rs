//! PreFilter and Filter of a plugin alone.

use framework::{Attempt, AttemptMut, CycleState, Handle, NodeBits, Plugin, Pod, Status, Verdicts};

/// The nodes of clusters in which plugins are alone.
pub(super) const NODES: [&str; 2] = ["a", "b"];

/// Runs PreFilter and Filter for a pod. Returns the state of the cycle and the verdict on each
/// node; an error is that of PreFilter, or says that the set form of Filter, or its explanation,
/// differs from the one-node form.
pub(super) fn filter(
    plugin: &Plugin,
    pod: &Pod,
    handle: &Handle<'_>,
) -> (CycleState, Result<[Status; 2], Status>) {
    let mut state = CycleState::new();
    let (Some(pre_filter), Some(filter)) = (&plugin.pre_filter, &plugin.filter) else {
        return (state, Err(Status::error("the plugin has no filter")));
    };
    if let Err(status) = pre_filter.pre_filter(AttemptMut::new(&mut state, pod, handle)) {
        return (state, Err(status));
    }
    let cluster = handle.cluster;
    let node = |name: &str| cluster.node_named(name).expect("the node exists");
    let one = NODES
        .map(|name| filter.filter(&Attempt::new(&state, pod, handle), &cluster.node(node(name))));
    let mut kept: NodeBits = NODES.iter().map(|name| node(name)).collect();
    let together = filter.filter_set(&Attempt::new(&state, pod, handle), &mut kept);
    let mut rejected: NodeBits = NODES.iter().map(|name| node(name)).collect();
    rejected.subtract(&kept);
    let mut verdicts = Verdicts::with_len(cluster.table_len());
    filter.explain_set(&Attempt::new(&state, pod, handle), &rejected, &mut verdicts);
    let agree = together.is_ok()
        && NODES.iter().zip(&one).all(|(name, own)| {
            let explained = verdicts.get(node(name)).message();
            kept.contains(node(name)) == own.is_success() && explained == own.message()
        });
    match agree {
        true => (state, Ok(one)),
        false => {
            let text = format!("both forms differ: {kept:?}, {verdicts:?}, {one:?}");
            (state, Err(Status::error(text)))
        }
    }
}
