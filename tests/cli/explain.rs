//! `explain`: answers from a dump, and refusals.

use serde_json::json;

use super::{api, loadmaster, loadmaster_with};

const FILES: [&str; 3] = ["--dump", "nodes.yaml", "pods.json"];

#[test]
fn pending_pod_of_a_dump_is_explained_with_what_would_help() {
    let args = [&["explain", "pod", "huge", "-n", "b"][..], &FILES].concat();
    let text = loadmaster(&args).text();
    assert!(text.starts_with("Pod b/huge is pending."), "{text}");
    assert!(text.contains("Now, 0 of 2 nodes can take the pod."), "{text}");
    assert!(text.contains("Insufficient memory"), "{text}");
    assert!(text.contains("What would help"), "{text}");
    assert!(text.contains("a dump has no history"), "{text}");
    let json = loadmaster(&[&args[..], &["-o", "json"]].concat()).json();
    assert_eq!((&json["now"]["asOf"], &json["now"]["feasible"]), (&json!("now"), &json!(0)));
    assert!(json["help"].as_array().is_some_and(|help| !help.is_empty()), "{json}");
    let yaml = loadmaster(&[&args[..], &["-o", "yaml"]].concat()).text();
    assert!(yaml.contains("asOf: now"), "{yaml}");
}

#[test]
fn one_node_a_node_and_the_cluster_are_explained() {
    let args = [&["explain", "pod", "huge", "-n", "b", "--node", "small"][..], &FILES].concat();
    let text = loadmaster(&args).text();
    assert!(text.contains("Node small cannot take the pod: "), "{text}");
    let text = loadmaster(&[&["explain", "node", "small"][..], &FILES].concat()).text();
    assert!(text.starts_with("Node small runs "), "{text}");
    let text = loadmaster(&[&["explain", "cluster", "-o", "wide"][..], &FILES].concat()).text();
    assert!(text.starts_with("2 nodes, "), "{text}");
    let input = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "1", "pods": "9"}}}"#;
    let text = loadmaster_with(&["explain", "cluster", "--dump", "-"], input).text();
    assert!(text.starts_with("1 node, 0 pods with a node, 0 pending."), "{text}");
}

/// A gang of four pods of one CPU, and nodes that take one of them each.
fn gang(nodes: usize, group: &serde_json::Value) -> String {
    let node = |number: usize| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number}")},
            "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}}})
    };
    let pod = |number: usize| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("p{number}"), "namespace": "default",
                "uid": format!("u{number}"), "labels": {"scheduling.x-k8s.io/pod-group": "train"}},
            "spec": {"schedulingGroup": {"podGroupName": "train"}, "schedulerName": "default-scheduler",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})
    };
    let items: Vec<_> =
        (0..nodes).map(node).chain((0..4).map(pod)).chain([group.clone()]).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

#[test]
fn pod_group_is_explained_with_its_shortfall_and_a_lower_min_count() {
    let group = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default", "uid": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}});
    let ask = |nodes: usize, args: &[&str]| {
        let args = [&["explain", "podgroup", "train", "--dump", "-"][..], args].concat();
        loadmaster_with(&args, &gang(nodes, &group))
    };
    let text = ask(3, &[]).text();
    let first = "PodGroup default/train (scheduling.k8s.io): 4 pods are needed, and 3 fit together: \
                 room for 1 is missing.\n";
    assert!(text.contains(first), "{text}");
    assert!(text.contains("0/3 nodes are available: 3 Insufficient cpu."), "{text}");
    assert!(text.contains("lower minCount from 4 to 3"), "{text}");
    assert!(text.contains("kubectl patch podgroups.scheduling.k8s.io train -n default"), "{text}");
    let answer = ask(3, &["-o", "json"]).json();
    assert_eq!((&answer["state"], &answer["fit"]), (&json!("unschedulable"), &json!(3)));
    assert_eq!((&answer["shortfall"], &answer["minCount"]), (&json!(1), &json!(4)));
    let states: Vec<_> =
        answer["members"].as_array().unwrap().iter().map(|own| &own["state"]).collect();
    assert_eq!(states, ["fits", "fits", "fits", "doesNotFit"]);
    assert_eq!(ask(4, &["-o", "json"]).json()["state"], "fits");
    let args = ["explain", "pod", "p0", "--dump", "-"];
    let text = loadmaster_with(&args, &gang(3, &group)).text();
    assert!(text.contains("belongs to PodGroup default/train: 4 pods are needed"), "{text}");
    let err = loadmaster_with(&["explain", "podgroup", "never", "--dump", "-"], &gang(1, &group));
    let err = err.refused(1);
    assert!(err.contains("the dump has no PodGroup default/never"), "{err}");
}

#[test]
fn pod_group_with_a_topology_is_explained_by_domain() {
    let group = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default", "uid": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 4}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]}}});
    let mut list: serde_json::Value = serde_json::from_str(&gang(5, &group)).unwrap();
    for number in 0..5 {
        let rack = if number < 3 { "a" } else { "b" };
        list["items"][number]["metadata"]["labels"] = json!({"rack": rack});
    }
    let gates = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true";
    let ask = |args: &[&str]| {
        let args = [&["explain", "podgroup", "train", "--dump", "-"][..], args].concat();
        loadmaster_with(&args, &list.to_string())
    };
    let text = ask(&[gates]).text();
    assert!(text.contains("3 fit together in a, the closest of 2 domains of rack"), "{text}");
    let rows = "DOMAIN  NODES  PODS THAT FIT  FREE        PODS OF OTHER GROUPS  MISSING\n\
                a           3  3 of 4         cpu 3 of 3                        0/3 nodes are \
                available: 3 Insufficient cpu.\n\
                b           2  2 of 4         cpu 2 of 2                        0/2 nodes";
    assert!(text.contains(rows), "{text}");
    assert!(text.contains("another node like n0 (1 cpu, 1Gi memory) in a: 4 pods fit"), "{text}");
    let answer = ask(&[gates, "-o", "json"]).json();
    let domain = &answer["topology"]["domains"][1];
    assert_eq!((&domain["name"], &domain["fit"]), (&json!("b"), &json!(2)));
    let text = ask(&[]).text();
    assert!(text.contains("4 pods fit together, 4 are needed"), "{text}");
    assert!(text.contains("the gate TopologyAwareWorkloadScheduling is off"), "{text}");
    let err = ask(&["--feature-gates=Nonsense=true"]).refused(1);
    assert!(err.contains("unrecognized feature gate: Nonsense"), "{err}");
}

#[test]
fn unknown_objects_and_bad_names_are_refused() {
    let refused = |args: &[&str]| loadmaster(&[args, &FILES].concat()).refused(1);
    let err = refused(&["explain", "pod", "never"]);
    assert!(err.contains("the dump has no pod default/never"), "{err}");
    let err = refused(&["explain", "node", "never"]);
    assert!(err.contains("the dump has no node never"), "{err}");
    let err = refused(&["explain", "group", "never"]);
    assert!(err.contains("no pods of a controller default/never"), "{err}");
    let err = refused(&["explain", "pod", "b/huge"]);
    assert!(err.contains("give the name alone"), "{err}");
    let err = loadmaster(&["explain", "pod", "p", "--kubeconfig", "no-such-file"]).refused(1);
    assert!(err.contains("no-such-file"), "{err}");
    loadmaster(&["explain"]).refused(2);
}

#[test]
fn plugin_of_kubectl_explains_and_runs_no_scheduler() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-loadmaster");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_loadmaster"), &plugin).unwrap();
    let call = |args: &[&str]| {
        let mut command = std::process::Command::new(&plugin);
        command.args(args).current_dir(super::fixtures());
        super::Answer::from(command.output().unwrap())
    };
    let text = call(&[&["explain", "cluster"][..], &FILES].concat()).text();
    assert!(text.starts_with("2 nodes, "), "{text}");
    let err = call(&[]).refused(2);
    assert!(err.contains("runs no scheduler"), "{err}");
}

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
const PODS: &str = "/api/v1/namespaces/kube-system/pods/";

/// Asks about a pod that waits, with a Lease that `holder` holds, and these answers of the API
/// server.
fn asked(name: &str, holder: &str, more: &[api::Route]) -> String {
    let lease = json!({"spec": {"holderIdentity": holder}});
    let web = json!({"spec": {"schedulerName": "loadmaster"}, "status": {"phase": "Pending"}});
    let mut routes = vec![(LEASE, 200, lease), ("/api/v1/namespaces/shop/pods/web", 200, web)];
    routes.extend_from_slice(more);
    let kubeconfig = api::serve(name, &routes);
    let lease = "--lease=kube-system/kube-scheduler";
    loadmaster(&["explain", "pod", "web", "-n", "shop", "--kubeconfig", &kubeconfig, lease])
        .refused(1)
}

#[test]
fn holder_of_the_lease_that_is_no_pod_is_named_with_what_to_pass() {
    let err = asked("no-pod", "cp-1_0b7c", &[]);
    assert!(err.contains("kube-system/kube-scheduler is held by \"cp-1_0b7c\""), "{err}");
    assert!(err.contains("\"cp-1\" is no pod in kube-system"), "{err}");
    assert!(err.contains("--scheduler NAMESPACE/NAME, or its port with --server URL"), "{err}");
    let pod = ("/api/v1/namespaces/kube-system/pods/kube-scheduler-cp-1", 200, json!({}));
    let err = asked("static-pod", "cp-1_0b7c", &[pod]);
    assert!(err.contains("--scheduler kube-system/kube-scheduler-cp-1,"), "{err}");
    assert!(!err.contains("belongs to"), "{err}");
}

#[test]
fn pod_that_answers_no_questions_is_called_another_scheduler() {
    let proxied = "/api/v1/namespaces/kube-system/pods/https:kube-scheduler-a:10259/proxy/";
    let routes = [(proxied, 404, json!("404 page not found\n")), (PODS, 200, json!({}))];
    let err = asked("kube-scheduler", "kube-scheduler-a_0b7c", &routes);
    assert!(err.contains("Is it another scheduler, such as kube-scheduler?"), "{err}");
    let unreachable = json!({"message": "error trying to reach service: dial tcp 10.0.0.1:10259: connect: refused"});
    let routes = [(proxied, 503, unreachable), (PODS, 200, json!({}))];
    let err = asked("closed-port", "kube-scheduler-a_0b7c", &routes);
    assert!(err.contains("kubectl port-forward -n kube-system kube-scheduler-a 10259"), "{err}");
}

#[test]
fn dump_has_the_pods_of_its_workloads() {
    let set = r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "999"}}}]}}}}"#;
    let args = ["explain", "group", "web", "--dump", "nodes.yaml", "-"];
    let text = loadmaster_with(&args, set).text();
    assert!(
        text.contains("2 of 2 pods are pending") && text.contains("Insufficient cpu"),
        "{text}"
    );
}
