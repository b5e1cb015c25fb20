//! The arguments of calls to extenders.

use std::collections::BTreeMap;

use engine::ports::Victims;
use framework::Binding;
use serde::Serialize;
use serde_json::value::RawValue;

/// The nodes of a call, in the form that the extender expects.
#[derive(Debug)]
pub enum Nodes<'a> {
    /// Node names, for an extender that is `nodeCacheCapable`.
    Names(&'a [&'a str]),
    /// Node objects of the API server.
    Whole(Vec<&'a RawValue>),
}

/// `ExtenderArgs`. Missing fields are null.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ExtenderArgs<'a> {
    pod: &'a RawValue,
    nodes: Option<NodeList<'a>>,
    node_names: Option<&'a [&'a str]>,
}

#[derive(Serialize)]
struct NodeList<'a> {
    metadata: ListMeta,
    items: Vec<&'a RawValue>,
}

#[derive(Serialize)]
struct ListMeta {}

/// Returns the body of a filter or prioritize call.
pub fn args(pod: &RawValue, nodes: Nodes<'_>) -> Vec<u8> {
    let (nodes, node_names) = match nodes {
        Nodes::Names(names) => (None, Some(names)),
        Nodes::Whole(items) => (Some(NodeList { metadata: ListMeta {}, items }), None),
    };
    to_json(&ExtenderArgs { pod, nodes, node_names })
}

/// The candidate nodes of a preemption with their victims, in the form that the extender expects.
#[derive(Debug)]
pub enum Candidates<'a> {
    /// UIDs of the victims, for an extender that is `nodeCacheCapable`.
    Meta(&'a BTreeMap<&'a str, Victims<'a>>),
    /// Pod objects of the API server.
    Whole(BTreeMap<&'a str, WholeVictims<'a>>),
}

/// `Victims`: the victims on one node as pod objects.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct WholeVictims<'a> {
    /// Pod objects of the API server.
    pub pods: Vec<&'a RawValue>,
    /// Number of victims whose eviction violates a PodDisruptionBudget.
    #[serde(rename = "NumPDBViolations")]
    pub num_pdb_violations: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct MetaVictims {
    pods: Vec<MetaPod>,
    #[serde(rename = "NumPDBViolations")]
    num_pdb_violations: i64,
}

#[derive(Serialize)]
struct MetaPod {
    #[serde(rename = "UID")]
    uid: String,
}

impl From<&Victims<'_>> for MetaVictims {
    fn from(victims: &Victims<'_>) -> Self {
        let pods = victims.pods.iter().map(|pod| MetaPod { uid: pod.uid.to_string() });
        Self { pods: pods.collect(), num_pdb_violations: victims.num_pdb_violations }
    }
}

/// `ExtenderPreemptionArgs`. Missing fields are null.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PreemptionArgs<'a> {
    pod: &'a RawValue,
    node_name_to_victims: Option<BTreeMap<&'a str, WholeVictims<'a>>>,
    node_name_to_meta_victims: Option<BTreeMap<&'a str, MetaVictims>>,
}

/// Returns the body of a preempt call.
pub fn preemption_args(pod: &RawValue, candidates: Candidates<'_>) -> Vec<u8> {
    let (node_name_to_victims, node_name_to_meta_victims) = match candidates {
        Candidates::Whole(victims) => (Some(victims), None),
        Candidates::Meta(victims) => {
            let victims = victims.iter().map(|(node, victims)| (*node, victims.into()));
            (None, Some(victims.collect()))
        }
    };
    to_json(&PreemptionArgs { pod, node_name_to_victims, node_name_to_meta_victims })
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct BindingArgs<'a> {
    pod_name: &'a str,
    pod_namespace: &'a str,
    #[serde(rename = "PodUID")]
    pod_uid: String,
    node: &'a str,
}

/// Returns the body of a bind call.
pub fn binding_args(binding: &Binding) -> Vec<u8> {
    let Binding { pod, uid, node } = binding;
    let (pod_name, pod_namespace) = (&*pod.name, &*pod.namespace);
    to_json(&BindingArgs { pod_name, pod_namespace, pod_uid: uid.to_string(), node })
}

fn to_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("strings, numbers and maps with text keys have a JSON form")
}

#[cfg(test)]
mod tests {
    use framework::PodKey;
    use serde_json::json;
    use serde_json::value::to_raw_value;
    use testkit::pod;

    use super::*;

    #[track_caller]
    fn check(body: &[u8], expected: &str) {
        assert_eq!(String::from_utf8_lossy(body), expected);
    }

    fn object(name: &str) -> Box<RawValue> {
        to_raw_value(&json!({"metadata": {"name": name}})).unwrap()
    }

    #[test]
    fn filter_args_contain_node_names_or_objects() {
        let (pod, node) = (object("p"), object("n"));
        check(
            &args(&pod, Nodes::Names(&["n", "m"])),
            r#"{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["n","m"]}"#,
        );
        check(
            &args(&pod, Nodes::Whole(vec![&node])),
            r#"{"Pod":{"metadata":{"name":"p"}},"Nodes":{"metadata":{},"items":[{"metadata":{"name":"n"}}]},"NodeNames":null}"#,
        );
    }

    #[test]
    fn preemption_args_contain_victim_uids_or_objects() {
        let (preemptor, victim) = (object("p"), pod("v").build());
        let victims = Victims { pods: vec![&victim], num_pdb_violations: 1 };
        let uid = victim.uid.to_string();
        check(
            &preemption_args(&preemptor, Candidates::Meta(&[("n", victims)].into())),
            &format!(
                r#"{{"Pod":{{"metadata":{{"name":"p"}}}},"NodeNameToVictims":null,"NodeNameToMetaVictims":{{"n":{{"Pods":[{{"UID":"{uid}"}}],"NumPDBViolations":1}}}}}}"#
            ),
        );
        let whole = object("v");
        let victims = WholeVictims { pods: vec![&whole], num_pdb_violations: 0 };
        check(
            &preemption_args(&preemptor, Candidates::Whole([("n", victims)].into())),
            r#"{"Pod":{"metadata":{"name":"p"}},"NodeNameToVictims":{"n":{"Pods":[{"metadata":{"name":"v"}}],"NumPDBViolations":0}},"NodeNameToMetaVictims":null}"#,
        );
    }

    #[test]
    fn binding_args_name_pod_and_node() {
        let binding =
            Binding { pod: PodKey::new("shop", "web"), uid: "u".into(), node: "n".into() };
        check(
            &binding_args(&binding),
            r#"{"PodName":"web","PodNamespace":"shop","PodUID":"u","Node":"n"}"#,
        );
    }
}
