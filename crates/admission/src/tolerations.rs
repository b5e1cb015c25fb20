//! DefaultTolerationSeconds: a pod stays five minutes on a node that is not ready or cannot be
//! reached.

use serde_json::{Value, json};

use super::object::{list, set};

const KEYS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const SECONDS: i64 = 300;

/// Adds the tolerations that the pod lacks.
pub(super) fn admit(pod: &mut Value) {
    let own = list(pod, "/spec/tolerations");
    let missing = KEYS.into_iter().filter(|key| !own.iter().any(|own| tolerates(own, key)));
    let added = missing.map(|key| {
        json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS})
    });
    let all: Vec<Value> = own.iter().cloned().chain(added).collect();
    if all.len() > own.len() {
        set(pod, "tolerations", all.into());
    }
}

fn tolerates(toleration: &Value, key: &str) -> bool {
    let field = |name: &str| toleration[name].as_str().unwrap_or_default();
    (field("key") == key || field("key").is_empty()) && ["", "NoExecute"].contains(&field("effect"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_tolerations_are_added() {
        let count = |tolerations: Value| {
            let mut pod = json!({"spec": {"tolerations": tolerations}});
            admit(&mut pod);
            pod["spec"]["tolerations"].as_array().map(Vec::len)
        };
        assert_eq!(count(json!([])), Some(2));
        assert_eq!(count(json!([{"operator": "Exists"}])), Some(1));
        assert_eq!(count(json!([{"key": KEYS[0], "effect": "NoSchedule"}])), Some(3));
        assert_eq!(count(json!([{"key": KEYS[0], "effect": "NoExecute"}])), Some(2));
    }
}
