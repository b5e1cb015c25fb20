//! The gate of pods that belong to a group.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::{Value, json};

use super::objects::{create, delete, node, patch, pod, tolerate};
use super::scenario::{Expected, Scenario, event};
use Expected::Bound;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let leave =
        patch("pods/p", json!({"metadata": {"labels": {framework::POD_GROUP_LABEL: Value::Null}}}));
    let waiting = pod("p").label(framework::POD_GROUP_LABEL, "g");
    vec![
        Scenario::new("PodGroups", waiting, [node("n"), pod("q").on("n")])
            .on(
                event(R::UnschedulablePod, A::UPDATE_POD_LABEL),
                "the pod leaves its group",
                leave,
                Bound,
            )
            .passes_over("the pod tolerates something", tolerate("pods/p", "k"))
            .passes_over("a node comes", create(node("m")))
            .passes_over("a pod goes", delete("pods/q")),
    ]
}

#[test]
fn gate_of_groups_rejects_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
