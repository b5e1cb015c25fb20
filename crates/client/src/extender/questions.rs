//! Questions to extenders.

use std::collections::BTreeMap;

use engine::ports::Victims;
use framework::Binding;
use serde::Serialize;
use serde_json::value::RawValue;

/// Nodes as an extender is told of them.
#[derive(Debug)]
pub enum Nodes<'a> {
    /// By name, for an extender that is `nodeCacheCapable`.
    Names(&'a [&'a str]),
    /// As the API server has them.
    Whole(Vec<&'a RawValue>),
}

/// `ExtenderArgs`: what is missing is null.
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

/// The body of a question about a pod and nodes, be it to filter or to prioritize.
pub fn args(pod: &RawValue, nodes: Nodes<'_>) -> Vec<u8> {
    let (nodes, node_names) = match nodes {
        Nodes::Names(names) => (None, Some(names)),
        Nodes::Whole(items) => (Some(NodeList { metadata: ListMeta {}, items }), None),
    };
    to_json(&ExtenderArgs { pod, nodes, node_names })
}

/// Candidates for preemption as an extender is told of them, by node.
#[derive(Debug)]
pub enum Candidates<'a> {
    /// With the UIDs of the victims, for an extender that is `nodeCacheCapable`.
    Meta(&'a BTreeMap<&'a str, Victims<'a>>),
    /// With the victims as the API server has them.
    Whole(BTreeMap<&'a str, WholeVictims<'a>>),
}

/// `Victims`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct WholeVictims<'a> {
    /// The pods, as the API server has them.
    pub pods: Vec<&'a RawValue>,
    /// How many of them a PodDisruptionBudget protects.
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

/// `ExtenderPreemptionArgs`: what is missing is null.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PreemptionArgs<'a> {
    pod: &'a RawValue,
    node_name_to_victims: Option<BTreeMap<&'a str, WholeVictims<'a>>>,
    node_name_to_meta_victims: Option<BTreeMap<&'a str, MetaVictims>>,
}

/// The body of a question about victims.
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

/// The body of the order to bind a pod.
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
    use framework::testing::pod;
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;

    #[track_caller]
    fn check(body: &[u8], expected: &str) {
        assert_eq!(String::from_utf8_lossy(body), expected);
    }

    fn object(name: &str) -> Box<RawValue> {
        to_raw_value(&json!({"metadata": {"name": name}})).unwrap()
    }

    #[test]
    fn nodes_are_sent_by_name_or_whole() {
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
    fn victims_are_sent_by_uid_or_whole() {
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
    fn an_order_to_bind_names_pod_and_node() {
        let binding =
            Binding { pod: PodKey::new("shop", "web"), uid: "u".into(), node: "n".into() };
        check(
            &binding_args(&binding),
            r#"{"PodName":"web","PodNamespace":"shop","PodUID":"u","Node":"n"}"#,
        );
    }
}
