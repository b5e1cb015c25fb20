use framework::testing::{FakeDryRun, PodBuilder, cluster, handle, node, pod};
use framework::{Cluster, Code, NominatingInfo};
use serde_json::{Value, json};

use super::*;
use crate::catalogue;

fn stand_in(name: &str) -> Plugin {
    plugin(catalogue::get(name).unwrap())
}

/// Builds a pod with these fields of its spec.
fn with_spec(name: &str, fields: &Value) -> PodBuilder {
    pod(name).with(|api| {
        let mut spec = serde_json::to_value(&api.spec).unwrap();
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        api.spec = serde_json::from_value(spec).unwrap();
    })
}

fn pre_filter(plugin: &Plugin, pod: &Pod, cluster: &Cluster) -> Status {
    let point = plugin.pre_filter.as_ref().unwrap();
    point.pre_filter(&mut CycleState::new(), pod, &handle(cluster)).unwrap_err()
}

#[test]
fn pods_that_need_the_plugin_are_rejected_with_its_name() {
    let devices = json!({"resourceClaims": [{"name": "r"}]});
    for (name, fields, needed) in
        [("DynamicResources", &devices, true), ("DynamicResources", &json!({}), false)]
    {
        let pod = with_spec("p", fields).build();
        let status = pre_filter(&stand_in(name), &pod, &Cluster::default());
        let code = if needed { Code::UnschedulableAndUnresolvable } else { Code::Skip };
        assert_eq!(status.code(), code, "{name} {fields}");
        let start = format!("plugin {name} is not built yet, and the pod has ");
        assert_eq!(status.message().starts_with(&start), needed, "{status:?}");
    }
}

#[test]
fn rejection_names_plugin_and_reason() {
    let pod = with_spec("p", &json!({"resourceClaims": [{"name": "r"}]})).build();
    let expected = "plugin DynamicResources is not built yet, and the pod has resource claims";
    let status = pre_filter(&stand_in("DynamicResources"), &pod, &Cluster::default());
    assert_eq!(status, Status::unresolvable(expected));
}

#[test]
fn filter_without_pre_filter_rejects_the_same_pods() {
    let cluster = cluster([node("n").build()], []);
    let plugin = stand_in("DynamicResources");
    let filter = plugin.filter.as_ref().unwrap();
    let claiming = with_spec("p", &json!({"resourceClaims": [{"name": "r"}]})).build();
    let state = CycleState::new();
    for (pod, passes) in [(claiming, false), (pod("p").build(), true)] {
        let mut nodes = cluster.nodes().clone();
        filter.filter_set(&state, &pod, &handle(&cluster), &mut nodes).unwrap();
        assert_eq!(!nodes.is_empty(), passes);
        let view = cluster.node(cluster.node_named("n").unwrap());
        assert_eq!(
            filter.filter(&state, &pod, &view, &handle(view.cluster())).is_success(),
            passes
        );
    }
}

#[test]
fn post_filter_leaves_the_pod_unschedulable() {
    let cluster = Cluster::default();
    let mut dry_run = FakeDryRun::new(&cluster, |_| Status::success());
    let point = stand_in("DynamicResources").post_filter.unwrap();
    let (mut state, pod) = (CycleState::new(), pod("p").build());
    let verdicts = Verdicts::default();
    let handle = handle(&cluster);
    let result = point.post_filter(&mut state, &pod, &verdicts, &mut dry_run, &handle);
    assert_eq!((result.status.code(), result.status.message()), (Code::Unschedulable, "".into()));
    assert_eq!(result.nominating, NominatingInfo::Noop);
}

#[test]
fn no_event_requeues_pods_that_need_the_plugin() {
    for entry in catalogue::ALL.iter().filter(|entry| !entry.is_built()) {
        assert_eq!(plugin(entry).events.unwrap().len(), 0, "{}", entry.name);
    }
}
