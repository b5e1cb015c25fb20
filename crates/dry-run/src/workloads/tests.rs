use framework::{Node, Pod};
use serde_json::json;

use super::*;

fn raw(object: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(object).unwrap()
}

fn node(name: &str, spec: Value) -> Node {
    let labels = json!({"kubernetes.io/hostname": name});
    let node = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
    Node::from_api(&serde_json::from_value(node).unwrap()).0
}

/// Returns a pod of a controller with these labels; it runs if it has a node.
fn owned(kind: &str, owner: &str, name: &str, node: &str, labels: &Value) -> Pod {
    let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": owner, "controller": true});
    let metadata = json!({"name": name, "namespace": "shop", "uid": name, "labels": labels,
        "ownerReferences": [owner]});
    let spec = if node.is_empty() { json!({}) } else { json!({"nodeName": node}) };
    Pod::from_api(&serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
}

fn template(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}})
}

fn workload(api_version: &str, kind: &str, name: &str, mut spec: Value) -> Value {
    let labels = json!({"app": name});
    if kind != "CronJob" && spec.get("template").is_none() {
        spec["template"] = template(&labels);
    }
    spec["selector"] = json!({"matchLabels": labels});
    json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")}, "spec": spec})
}

fn made(workloads: &[Value], pods: &[(&'static str, &'static str, Pod)]) -> Made {
    let nodes = ["a", "b"].map(|name| node(name, json!({})));
    made_on(&nodes, workloads, pods)
}

fn made_on(nodes: &[Node], workloads: &[Value], pods: &[(&str, &str, Pod)]) -> Made {
    let workloads: Vec<_> = workloads.iter().map(raw).collect();
    let pods: Vec<_> = pods.iter().map(|(kind, name, pod)| OwnedPod { pod, kind, name }).collect();
    make(&workloads, nodes, &pods, MOST_PODS)
}

fn of_kind<'a>(made: &'a Made, kind: &str) -> Vec<&'a Value> {
    made.objects.iter().filter(|object| object["kind"] == kind).collect()
}

fn names(made: &Made, kind: &str) -> Vec<String> {
    of_kind(made, kind).iter().map(|object| name(object).to_owned()).collect()
}

#[test]
fn what_the_api_server_would_refuse_and_what_makes_no_pod_is_said() {
    let mut mislabelled = workload("apps/v1", "Deployment", "web", json!({"replicas": 1}));
    mislabelled["spec"]["selector"]["matchLabels"]["tier"] = json!("front");
    let negative = workload("apps/v1", "StatefulSet", "db", json!({"replicas": -3}));
    let mut nowhere = workload("apps/v1", "DaemonSet", "agent", json!({}));
    nowhere["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let made = made(&[mislabelled, negative, nowhere], &[]);
    assert_eq!(
        made.warnings,
        [
            "Deployment shop/web: spec.selector: its template has no label tier=front; the API server refuses that",
            "StatefulSet shop/db: spec.replicas: -3 is negative; the API server refuses that, and it counts as 0",
            "DaemonSet shop/agent: no node has what its node selector, affinity and tolerations ask for; no pods are \
             made from it",
        ]
    );
}

#[test]
fn deployment_makes_a_replica_set_and_its_pods() {
    let made = made(&[workload("apps/v1", "Deployment", "web", json!({"replicas": 3}))], &[]);
    let sets = of_kind(&made, "ReplicaSet");
    let [set] = sets[..] else { panic!("{sets:?}") };
    let hash = name(set).strip_prefix("web-").unwrap();
    assert_eq!(
        set["spec"]["selector"]["matchLabels"],
        json!({"app": "web", "pod-template-hash": hash})
    );
    let pods = of_kind(&made, "Pod");
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        assert_eq!(pod["metadata"]["labels"], json!({"app": "web", "pod-template-hash": hash}));
        let owner = &pod["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["name"]), (&json!("ReplicaSet"), &json!(name(set))));
        assert_eq!((&owner["controller"], namespace(pod)), (&json!(true), "shop"));
        let suffix = name(pod).strip_prefix(name(set)).unwrap();
        assert_eq!((suffix.len(), &suffix[..1]), (6, "-"));
    }
    let [own] = &made.workloads[..] else { panic!("{:?}", made.workloads) };
    assert_eq!((own.kind, &*own.name, own.wanted, own.running), ("Deployment", "web", 3, 0));
    assert_eq!(own.pending.len(), 3);
    assert!(made.warnings.is_empty(), "{:?}", made.warnings);
}

#[test]
fn replicas_of_a_dump_are_not_made_again() {
    let deployment = workload("apps/v1", "Deployment", "web", json!({"replicas": 4}));
    let labels = json!({"app": "web", "pod-template-hash": "5d"});
    let mut set = workload(
        "apps/v1",
        "ReplicaSet",
        "web-5d",
        json!({"replicas": 3, "template": template(&labels)}),
    );
    set["spec"]["selector"] = json!({"matchLabels": labels});
    set["metadata"]["ownerReferences"] =
        json!([{"kind": "Deployment", "name": "web", "uid": "uid-web", "controller": true}]);
    let pod = |name: &str, node: &str| {
        ("ReplicaSet", "web-5d", owned("ReplicaSet", "web-5d", name, node, &labels))
    };
    let pods = [pod("web-5d-x", "a"), pod("web-5d-y", "")];
    let found = made(&[set, deployment.clone()], &pods);
    assert_eq!(names(&found, "Pod").len(), 2, "one of the ReplicaSet, one of the Deployment");
    assert!(names(&found, "ReplicaSet").is_empty());
    let owners: Vec<_> = of_kind(&found, "Pod");
    assert!(owners.iter().all(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == "uid-web-5d"));
    let own = &found.workloads[..];
    assert_eq!((own.len(), own[0].kind, own[0].wanted, own[0].running), (1, "Deployment", 4, 1));
    assert_eq!(own[0].pending.len(), 3);
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);

    let found = made(&[deployment], &pods);
    assert_eq!(names(&found, "Pod").len(), 2, "the dump lacks the ReplicaSet of two pods");
    assert!(found.warnings[0].contains("without a rollout"), "{:?}", found.warnings);
}

#[test]
fn terminating_replicas_are_replaced() {
    let set = workload("apps/v1", "ReplicaSet", "web", json!({}));
    let mut pod = owned("ReplicaSet", "web", "web-x", "a", &json!({}));
    assert!(
        names(&made(std::slice::from_ref(&set), &[("ReplicaSet", "web", pod.clone())]), "Pod")
            .is_empty()
    );
    pod.terminating = true;
    assert_eq!(names(&made(&[set], &[("ReplicaSet", "web", pod)]), "Pod").len(), 1);
}

#[test]
fn stateful_set_makes_ordinals_with_their_claims() {
    let template = json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}});
    let spec = json!({"replicas": 2, "serviceName": "db", "ordinals": {"start": 1},
        "volumeClaimTemplates": [template]});
    let pod = owned("StatefulSet", "db", "db-1", "a", &json!({}));
    let made =
        made(&[workload("apps/v1", "StatefulSet", "db", spec)], &[("StatefulSet", "db", pod)]);
    assert_eq!(names(&made, "Pod"), ["db-2"]);
    assert_eq!(names(&made, "PersistentVolumeClaim"), ["data-db-2"]);
    assert_eq!(of_kind(&made, "PersistentVolumeClaim")[0]["spec"]["storageClassName"], "fast");
    let pod = of_kind(&made, "Pod")[0];
    assert_eq!(
        pod["spec"]["volumes"],
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-2"}}])
    );
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("db-2"), &json!("db"))
    );
    assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "2");
    assert_eq!(pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"], "db-2");
    assert_eq!((made.workloads[0].wanted, made.workloads[0].running), (2, 1));
}

#[test]
fn daemon_set_makes_a_pod_for_each_node_that_it_selects() {
    let taint = |key: &str, effect: &str| json!({"taints": [{"key": key, "effect": effect}]});
    let nodes = [
        node("plain", json!({})),
        node("cordoned", taint("node.kubernetes.io/unschedulable", "NoSchedule")),
        node("tainted", taint("gpu", "NoSchedule")),
        node("preferred", taint("gpu", "PreferNoSchedule")),
        node("other", json!({})),
        node("taken", json!({})),
    ];
    let mut template = template(&json!({"app": "agent"}));
    let others = json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["other"]});
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [others]}]});
    template["spec"]["affinity"] =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    let set = workload("apps/v1", "DaemonSet", "agent", json!({"template": template}));
    let pod = owned("DaemonSet", "agent", "agent-x", "taken", &json!({}));
    let made = made_on(&nodes, &[set], &[("DaemonSet", "agent", pod)]);
    let pods = of_kind(&made, "Pod");
    let node_of = |pod: &Value| {
        let terms = pod
            .pointer("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
        let terms = &terms.unwrap()["nodeSelectorTerms"];
        assert_eq!(terms.as_array().unwrap().len(), 1, "the affinity of the template is replaced");
        terms[0]["matchFields"][0]["values"][0].clone()
    };
    let found: Vec<_> = pods.iter().map(|pod| node_of(pod)).collect();
    assert_eq!(found, ["plain", "cordoned", "preferred"]);
    let tolerations = pods[0]["spec"]["tolerations"].as_array().unwrap();
    assert_eq!(tolerations.len(), 6);
    assert!(tolerations.contains(&json!({"key": "node.kubernetes.io/not-ready",
        "operator": "Exists", "effect": "NoExecute"})));
    assert_eq!((made.workloads[0].wanted, made.workloads[0].running), (4, 1));
}

#[test]
fn job_makes_the_pods_that_run_at_once() {
    let rows = [
        (json!({}), json!({}), 1),
        (json!({"parallelism": 3}), json!({}), 3),
        (json!({"parallelism": 3, "completions": 5}), json!({"succeeded": 3}), 2),
        (json!({"parallelism": 3, "completions": 2}), json!({}), 2),
        (json!({"completions": 4}), json!({}), 1),
        (json!({"parallelism": 2}), json!({"succeeded": 1}), 0),
        (json!({"suspend": true}), json!({}), 0),
        (json!({}), json!({"conditions": [{"type": "Complete", "status": "True"}]}), 0),
    ];
    for (spec, status, expected) in rows {
        let mut job = workload("batch/v1", "Job", "sum", spec.clone());
        job["status"] = status.clone();
        let made = made(&[job], &[]);
        assert_eq!(of_kind(&made, "Pod").len(), expected, "{spec} {status}");
    }
}

#[test]
fn pods_of_an_indexed_job_have_the_open_indexes() {
    let spec = json!({"completionMode": "Indexed", "parallelism": 3, "completions": 6});
    let mut job = workload("batch/v1", "Job", "sum", spec);
    job["status"] = json!({"completedIndexes": "0,2-3", "succeeded": 3});
    let labels = json!({"batch.kubernetes.io/job-completion-index": "4"});
    let pod = owned("Job", "sum", "sum-4-x", "a", &labels);
    let made = made(&[job], &[("Job", "sum", pod)]);
    let pods = of_kind(&made, "Pod");
    let indexes = pods
        .iter()
        .map(|pod| pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"].clone());
    assert_eq!(indexes.collect::<Vec<_>>(), ["1", "5"]);
    assert_eq!(pods[0]["spec"]["hostname"], "sum-1");
    assert!(name(pods[0]).starts_with("sum-1-"));
    assert_eq!(pods[0]["metadata"]["labels"]["job-name"], "sum");
}

#[test]
fn cron_job_runs_once_unless_a_job_is_under_way() {
    let spec =
        json!({"jobTemplate": {"spec": {"parallelism": 2, "template": template(&json!({}))}}});
    let cron = workload("batch/v1", "CronJob", "nightly", spec);
    let found = made(std::slice::from_ref(&cron), &[]);
    let pods = of_kind(&found, "Pod");
    assert_eq!(pods.len(), 2);
    assert_eq!(pods[0]["metadata"]["ownerReferences"][0]["name"], "nightly-0");
    assert_eq!((found.workloads.len(), found.workloads[0].kind), (1, "CronJob"));
    let mut job = workload("batch/v1", "Job", "nightly-29", json!({}));
    job["metadata"]["ownerReferences"] =
        json!([{"kind": "CronJob", "name": "nightly", "uid": "x", "controller": true}]);
    let found = made(&[job.clone(), cron.clone()], &[]);
    assert_eq!(names(&found, "Pod").len(), 1, "the pod of the Job");
    assert_eq!((found.workloads.len(), found.workloads[0].kind), (1, "CronJob"));
    job["status"] = json!({"conditions": [{"type": "Failed", "status": "True"}]});
    assert_eq!(names(&made(&[job, cron], &[]), "Pod").len(), 2);
}

#[test]
fn last_workload_of_a_name_counts() {
    let sets = [5, 1]
        .map(|replicas| workload("apps/v1", "ReplicaSet", "web", json!({"replicas": replicas})));
    assert_eq!(names(&made(&sets, &[]), "Pod").len(), 1);
}

#[test]
fn odd_workloads_make_no_pods() {
    let mut bare = workload("apps/v1", "Deployment", "bare", json!({}));
    bare["spec"]["template"] = json!(7);
    let mut gone = workload("apps/v1", "Deployment", "gone", json!({}));
    gone["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let none = workload("apps/v1", "Deployment", "none", json!({"replicas": -3}));
    let old = workload("extensions/v1beta1", "Deployment", "old", json!({}));
    let made = made(&[bare, gone, none, old], &[]);
    assert!(made.objects.is_empty(), "{:?}", made.objects);
    assert_eq!(
        made.warnings,
        [
            "Deployment shop/bare: spec.template: is missing; no pods are made from it",
            "Deployment shop/none: spec.replicas: -3 is negative; the API server refuses that, and it counts as 0",
        ]
    );
}
