//! Answers of extenders, read as Go reads them: names of fields in any case, null as nothing, and
//! whatever comes after the first JSON value is not looked at.

use std::collections::BTreeMap;

use engine::ports::{Filtered, HostPriorities, MetaVictims};
use framework::Uid;
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

/// The first JSON value of a body.
fn first<'a, T: Deserialize<'a>>(body: &'a [u8], go_type: &str) -> Result<T, String> {
    T::deserialize(&mut serde_json::Deserializer::from_slice(body))
        .map_err(|error| format!("the answer is no {go_type}: {error}"))
}

/// An object, by the names of its fields in lower case.
#[derive(Default)]
struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields: Option<BTreeMap<String, &'de RawValue>> = Option::deserialize(deserializer)?;
        let lower_case = |(name, value): (String, _)| (name.to_lowercase(), value);
        Ok(Self(fields.unwrap_or_default().into_iter().map(lower_case).collect()))
    }
}

impl<'a> Fields<'a> {
    /// The field of this name, or what stands for nothing.
    fn take<T: Deserialize<'a> + Default, E: de::Error>(&self, name: &str) -> Result<T, E> {
        let Some(value) = self.0.get(&name.to_lowercase()) else { return Ok(T::default()) };
        let value: Result<Option<T>, _> = serde_json::from_str(value.get());
        let value = value.map_err(|error| E::custom(format_args!("{name}: {error}")))?;
        Ok(value.unwrap_or_default())
    }
}

/// Reads a struct whose fields are found by [`Fields::take`].
macro_rules! read {
    ($type:ident { $($field:ident = $name:literal),+ }) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let fields = Fields::deserialize(deserializer)?;
                Ok(Self { $($field: fields.take::<_, D::Error>($name)?),+ })
            }
        }
    };
}

/// Why nodes failed, by name.
type FailedNodesMap = BTreeMap<String, String>;

struct FilterResult {
    nodes: Option<NodeList>,
    node_names: Option<Vec<String>>,
    failed: FailedNodesMap,
    failed_and_unresolvable: FailedNodesMap,
    error: String,
}

read!(FilterResult {
    nodes = "Nodes",
    node_names = "NodeNames",
    failed = "FailedNodes",
    failed_and_unresolvable = "FailedAndUnresolvableNodes",
    error = "Error"
});

#[derive(Deserialize)]
struct NodeList {
    items: Option<Vec<Object>>,
}

#[derive(Deserialize)]
struct Object {
    metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct ObjectMeta {
    name: String,
}

/// What an extender makes of nodes. One that was sent names may answer with names, and any with
/// nodes.
///
/// # Errors
/// The text in the answer, or why it cannot be read.
pub fn filter_result(body: &[u8], node_cache_capable: bool) -> Result<Filtered, String> {
    let result: FilterResult = first(body, "ExtenderFilterResult")?;
    if !result.error.is_empty() {
        return Err(result.error);
    }
    let whole = result.nodes.and_then(|list| list.items).unwrap_or_default();
    let nodes = match result.node_names.filter(|_| node_cache_capable) {
        Some(names) => names,
        None => whole.into_iter().map(|node| node.metadata.name).collect(),
    };
    Ok(Filtered {
        nodes,
        failed: result.failed.into_iter().collect(),
        failed_and_unresolvable: result.failed_and_unresolvable.into_iter().collect(),
    })
}

struct HostPriority {
    host: String,
    score: i64,
}

read!(HostPriority { host = "Host", score = "Score" });

/// The scores an extender gives nodes.
///
/// # Errors
/// The answer cannot be read.
pub fn host_priorities(body: &[u8]) -> Result<HostPriorities, String> {
    let list: Option<Vec<HostPriority>> = first(body, "HostPriorityList")?;
    Ok(list.into_iter().flatten().map(|one| (one.host, one.score)).collect())
}

struct BindingResult {
    error: String,
}

read!(BindingResult { error = "Error" });

/// What has become of the order to bind a pod.
///
/// # Errors
/// The text in the answer, or why it cannot be read.
pub fn binding_result(body: &[u8]) -> Result<(), String> {
    let BindingResult { error } = first(body, "ExtenderBindingResult")?;
    if error.is_empty() { Ok(()) } else { Err(error) }
}

struct PreemptionResult {
    candidates: BTreeMap<String, MetaVictimsRead>,
}

#[derive(Default)]
struct MetaVictimsRead {
    pods: Vec<MetaPod>,
    num_pdb_violations: i64,
}

struct MetaPod {
    uid: String,
}

read!(PreemptionResult { candidates = "NodeNameToMetaVictims" });
read!(MetaVictimsRead { pods = "Pods", num_pdb_violations = "NumPDBViolations" });
read!(MetaPod { uid = "UID" });

/// The candidates an extender accepts, by node.
///
/// # Errors
/// The answer cannot be read.
pub fn preemption_result(body: &[u8]) -> Result<BTreeMap<String, MetaVictims>, String> {
    let result: PreemptionResult = first(body, "ExtenderPreemptionResult")?;
    let victims = |read: MetaVictimsRead| MetaVictims {
        pods: read.pods.iter().map(|pod| Uid::from(pod.uid.as_str())).collect(),
        num_pdb_violations: read.num_pdb_violations,
    };
    Ok(result.candidates.into_iter().map(|(node, read)| (node, victims(read))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn kept_nodes_come_by_name_or_whole() {
        let (named, whole) = (
            r#"{"NodeNames":["a","b"]}"#,
            r#"{"Nodes":{"metadata":{},"items":[{"metadata":{"name":"c","labels":{}}}]}}"#,
        );
        let both = r#"{"NodeNames":["a"],"Nodes":{"items":[{"metadata":{"name":"c"}}]}}"#;
        let rows: [(&str, bool, &[&str]); 9] = [
            (named, true, &["a", "b"]),
            (named, false, &[]),
            (whole, true, &["c"]),
            (whole, false, &["c"]),
            (both, true, &["a"]),
            (both, false, &["c"]),
            (r#"{"NodeNames":null,"Nodes":{"items":null},"FailedNodes":null}"#, true, &[]),
            ("null", true, &[]),
            (r#"{"nodenames":["a"]} trailing"#, true, &["a"]),
        ];
        for (body, node_cache_capable, expected) in rows {
            let filtered = filter_result(body.as_bytes(), node_cache_capable).unwrap();
            assert_eq!(filtered.nodes, names(expected), "{body} {node_cache_capable}");
        }
    }

    #[test]
    fn failed_nodes_come_with_reasons() {
        let body =
            r#"{"FailedNodes":{"b":"full","a":""},"failedAndUnresolvableNodes":{"c":"old"}}"#;
        let filtered = filter_result(body.as_bytes(), true).unwrap();
        let owned = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(filtered.failed, [owned("a", ""), owned("b", "full")]);
        assert_eq!(filtered.failed_and_unresolvable, [owned("c", "old")]);
    }

    #[test]
    fn an_error_in_the_answer_counts_whatever_else_it_says() {
        let body = br#"{"NodeNames":["a"],"Error":"out of licences"}"#;
        assert_eq!(filter_result(body, true), Err("out of licences".to_owned()));
        assert_eq!(binding_result(br#"{"error":"gone"}"#), Err("gone".to_owned()));
        assert_eq!(binding_result(b"{}"), Ok(()));
    }

    #[test]
    fn scores_come_as_a_list() {
        let body = br#"[{"Host":"a","Score":7},{"host":"b"},{"HOST":"a","score":-1}]"#;
        let scores = [("a", 7), ("b", 0), ("a", -1)].map(|(name, score)| (name.to_owned(), score));
        assert_eq!(host_priorities(body).unwrap(), scores);
        assert_eq!(host_priorities(b"null").unwrap(), []);
    }

    #[test]
    fn victims_come_by_uid() {
        let body = br#"{"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"u"}],"NumPDBViolations":2},"m":null}}"#;
        let victims = preemption_result(body).unwrap();
        let expected = MetaVictims { pods: vec!["u".into()], num_pdb_violations: 2 };
        assert_eq!(victims["n"], expected);
        assert_eq!(victims["m"], MetaVictims { pods: vec![], num_pdb_violations: 0 });
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let filter = |body: &str| filter_result(body.as_bytes(), true).unwrap_err();
        let rows = [
            ("", "the answer is no ExtenderFilterResult: EOF while parsing"),
            ("<html>", "expected value"),
            ("[]", "the answer is no ExtenderFilterResult"),
            (r#"{"NodeNames":"a"}"#, "NodeNames: invalid type: string \"a\", expected a sequence"),
            (r#"{"FailedNodes":{"a":1}}"#, "FailedNodes: invalid type"),
            (r#"{"Nodes":{"items":[{}]}}"#, "Nodes: missing field `metadata`"),
        ];
        for (body, expected) in rows {
            let text = filter(body);
            assert!(text.contains(expected), "{body}: {text}");
        }
        assert!(host_priorities(br#"[{"Score":"7"}]"#).unwrap_err().contains("Score: "));
        assert!(host_priorities(b"{}").unwrap_err().contains("HostPriorityList"));
        assert!(binding_result(b"\xff").unwrap_err().contains("ExtenderBindingResult"));
        assert!(preemption_result(b"7").unwrap_err().contains("ExtenderPreemptionResult"));
    }
}
