//! An invariant of nodes on which other components place pods, too.

use std::collections::BTreeSet;

use framework::Uid;
use serde_json::Value;

use super::rules::{Checked, rule};
use super::server::{Bound, Server, requests};

/// Feasibility beside others: a pod that we bind has room beside the pods that we bound to the
/// node, and those of others that the watch had shown there when the node was chosen. Pods that
/// others placed there later are not ours to count: kube-scheduler does not check a node again
/// before the bind either, and the kubelet rejects a pod that does not fit.
pub(crate) fn fits_beside(server: &Server, bound: &Bound, beside: &BTreeSet<Uid>) -> Checked {
    let mut nodes = server.nodes();
    let node = nodes.find(|node| node["metadata"]["name"] == bound.node.as_str());
    let Some(node) = node else { return Ok(()) };
    let counts = |pod: &&Value| {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let is_ours = server.bound_by_us.get(uid).is_some_and(|own| *own == bound.node);
        pod["spec"]["nodeName"] == bound.node.as_str()
            && (is_ours || beside.contains(&Uid::from(uid)))
    };
    let pods: Vec<&Value> = server.live_pods().map(AsRef::as_ref).filter(counts).collect();
    let amounts = pods.iter().map(|pod| requests(pod));
    let (cpu, memory) = amounts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let whole = |name: &str| node["status"]["allocatable"][name].as_str().unwrap_or_default();
    let amount = |name: &str| whole(name).trim_end_matches("Gi").parse::<i64>().unwrap_or(0);
    let is_bound = |pod: &&&Value| pod["metadata"]["uid"] == bound.uid.as_str();
    let has_port = |pod: &&&Value| !pod["spec"]["containers"][0]["ports"][0]["hostPort"].is_null();
    let ports = match pods.iter().find(is_bound).filter(has_port) {
        Some(_) => pods.iter().filter(has_port).count(),
        None => 0,
    };
    let fits = cpu <= amount("cpu") * 1000
        && memory <= amount("memory") << 30
        && i64::try_from(pods.len()).is_ok_and(|count| count <= amount("pods"))
        && ports <= 1;
    rule(fits, || {
        let pods: Vec<_> = pods.iter().map(|pod| &pod["metadata"]["name"]).collect();
        let Bound { uid, node } = bound;
        format!("{uid} is bound to {node}, which was known to have no room beside {pods:?}")
    })
}
