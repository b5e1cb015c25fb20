//! The results of calls to extenders, decoded like in Go: field names match in any case, null is
//! the zero value, and data after the first JSON value is ignored.

use std::collections::BTreeMap;

use engine::ports::{Filtered, HostPriorities, MetaVictims};
use framework::Uid;
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

/// Decodes the first JSON value of a body as this Go type.
fn decode<'a, T: Deserialize<'a>>(body: &'a [u8], go_type: &str) -> Result<T, String> {
    T::deserialize(&mut serde_json::Deserializer::from_slice(body))
        .map_err(|error| format!("cannot decode {go_type}: {error}"))
}

/// The fields of a JSON object by name in lower case.
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
    /// Decodes the field of this name. A missing field or null is the default value.
    fn decode<T: Deserialize<'a> + Default, E: de::Error>(&self, name: &str) -> Result<T, E> {
        let Some(value) = self.0.get(&name.to_lowercase()) else { return Ok(T::default()) };
        let value: Result<Option<T>, _> = serde_json::from_str(value.get());
        let value = value.map_err(|error| E::custom(format_args!("{name}: {error}")))?;
        Ok(value.unwrap_or_default())
    }
}

/// Implements `Deserialize` for a struct with [`Fields::decode`].
macro_rules! impl_deserialize {
    ($type:ident { $($field:ident = $name:literal),+ }) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let fields = Fields::deserialize(deserializer)?;
                Ok(Self { $($field: fields.decode::<_, D::Error>($name)?),+ })
            }
        }
    };
}

/// Reasons by node name.
type FailedNodesMap = BTreeMap<String, String>;

struct FilterResult {
    nodes: Option<NodeList>,
    node_names: Option<Vec<String>>,
    failed: FailedNodesMap,
    failed_and_unresolvable: FailedNodesMap,
    error: String,
}

impl_deserialize!(FilterResult {
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

/// Decodes the result of a filter call. An extender that is `nodeCacheCapable` may return node
/// names; every extender may return node objects.
///
/// # Errors
/// The error in the result, or the decoding error.
pub fn filter_result(body: &[u8], node_cache_capable: bool) -> Result<Filtered, String> {
    let result: FilterResult = decode(body, "ExtenderFilterResult")?;
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

impl_deserialize!(HostPriority { host = "Host", score = "Score" });

/// Decodes the result of a prioritize call: the scores of the nodes.
///
/// # Errors
/// The body cannot be decoded.
pub fn host_priorities(body: &[u8]) -> Result<HostPriorities, String> {
    let list: Option<Vec<HostPriority>> = decode(body, "HostPriorityList")?;
    Ok(list.into_iter().flatten().map(|priority| (priority.host, priority.score)).collect())
}

struct BindingResult {
    error: String,
}

impl_deserialize!(BindingResult { error = "Error" });

/// Decodes the result of a bind call.
///
/// # Errors
/// The error in the result, or the decoding error.
pub fn binding_result(body: &[u8]) -> Result<(), String> {
    let BindingResult { error } = decode(body, "ExtenderBindingResult")?;
    if error.is_empty() { Ok(()) } else { Err(error) }
}

struct PreemptionResult {
    candidates: BTreeMap<String, MetaVictimsResult>,
}

#[derive(Default)]
struct MetaVictimsResult {
    pods: Vec<MetaPod>,
    num_pdb_violations: i64,
}

struct MetaPod {
    uid: String,
}

impl_deserialize!(PreemptionResult { candidates = "NodeNameToMetaVictims" });
impl_deserialize!(MetaVictimsResult { pods = "Pods", num_pdb_violations = "NumPDBViolations" });
impl_deserialize!(MetaPod { uid = "UID" });

/// Decodes the result of a preempt call: the candidates that the extender accepts, by node.
///
/// # Errors
/// The body cannot be decoded.
pub fn preemption_result(body: &[u8]) -> Result<BTreeMap<String, MetaVictims>, String> {
    let result: PreemptionResult = decode(body, "ExtenderPreemptionResult")?;
    let victims = |result: MetaVictimsResult| MetaVictims {
        pods: result.pods.iter().map(|pod| Uid::from(pod.uid.as_str())).collect(),
        num_pdb_violations: result.num_pdb_violations,
    };
    Ok(result.candidates.into_iter().map(|(node, result)| (node, victims(result))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn filter_result_has_node_names_or_objects() {
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
    fn filter_result_has_failed_nodes_with_reasons() {
        let body =
            r#"{"FailedNodes":{"b":"full","a":""},"failedAndUnresolvableNodes":{"c":"old"}}"#;
        let filtered = filter_result(body.as_bytes(), true).unwrap();
        let owned = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(filtered.failed, [owned("a", ""), owned("b", "full")]);
        assert_eq!(filtered.failed_and_unresolvable, [owned("c", "old")]);
    }

    #[test]
    fn error_field_takes_precedence() {
        let body = br#"{"NodeNames":["a"],"Error":"out of licences"}"#;
        assert_eq!(filter_result(body, true), Err("out of licences".to_owned()));
        assert_eq!(binding_result(br#"{"error":"gone"}"#), Err("gone".to_owned()));
        assert_eq!(binding_result(b"{}"), Ok(()));
    }

    #[test]
    fn host_priorities_are_a_list() {
        let body = br#"[{"Host":"a","Score":7},{"host":"b"},{"HOST":"a","score":-1}]"#;
        let scores = [("a", 7), ("b", 0), ("a", -1)].map(|(name, score)| (name.to_owned(), score));
        assert_eq!(host_priorities(body).unwrap(), scores);
        assert_eq!(host_priorities(b"null").unwrap(), []);
    }

    #[test]
    fn preemption_result_names_victims_by_uid() {
        let body = br#"{"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"u"}],"NumPDBViolations":2},"m":null}}"#;
        let victims = preemption_result(body).unwrap();
        let expected = MetaVictims { pods: vec!["u".into()], num_pdb_violations: 2 };
        assert_eq!(victims["n"], expected);
        assert_eq!(victims["m"], MetaVictims { pods: vec![], num_pdb_violations: 0 });
    }

    #[test]
    fn decoding_errors_name_type_and_field() {
        let filter = |body: &str| filter_result(body.as_bytes(), true).unwrap_err();
        let rows = [
            ("", "cannot decode ExtenderFilterResult: EOF while parsing"),
            ("<html>", "expected value"),
            ("[]", "cannot decode ExtenderFilterResult"),
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
