//! SchedulingGates.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::json;

use super::objects::{create, delete, label, node, patch, pod, tolerate};
use super::scenario::{Expected, Scenario, event};
use Expected::Bound;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let gates = |names: &[&str]| {
        let gates: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
        json!({"schedulingGates": gates})
    };
    let reopen = |names: &[&str]| patch("pods/p", json!({"spec": gates(names)}));
    let waiting = pod("p").spec(gates(&["example.com/a", "example.com/b"]));
    vec![
        Scenario::new("SchedulingGates", waiting, [node("n"), pod("q").on("n")])
            .on(
                event(R::UnschedulablePod, A::UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
                "the gates open",
                reopen(&[]),
                Bound,
            )
            .passes_over("one of them opens", reopen(&["example.com/b"]))
            .passes_over("the pod is labelled", label("pods/p", "k", "v"))
            .passes_over("the pod tolerates something", tolerate("pods/p", "k"))
            .passes_over("a node comes", create(node("m")))
            .passes_over("a pod goes", delete("pods/q")),
    ]
}

#[test]
fn scheduling_gates_reject_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
