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
    let workloads = Workloads { objects: &workloads, first_changed: workloads.len() };
    make(workloads, nodes, &pods, MOST_PODS)
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
            "Deployment.extensions shop/old: no reader knows where its pod templates and their numbers are; its pods are not \
             made and not counted",
        ]
    );
}

fn containers(gpus: u32) -> Value {
    json!([{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": gpus}}}])
}

fn pod_template(gpus: u32) -> Value {
    json!({"spec": {"containers": containers(gpus)}})
}

fn foreign(version: &str, kind: &str, spec: Value) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": "w", "namespace": "ml"}, "spec": spec})
}

/// Version, kind and spec of a foreign workload, and the number of pods of each part.
type ForeignWorkload = (&'static str, &'static str, Value, Vec<(&'static str, usize)>);

fn foreign_workloads() -> Vec<ForeignWorkload> {
    let template = || pod_template(8);
    let job = |parallelism: u32| json!({"spec": {"parallelism": parallelism, "completions": parallelism, "template": template()}});
    let group = |replicas: u32| json!({"replicas": replicas, "template": template()});
    let cluster = json!({
        "headGroupSpec": {"template": template()},
        "workerGroupSpecs": [
            {"groupName": "small", "replicas": 2, "template": template()},
            {"groupName": "large", "replicas": 1, "minReplicas": 3, "numOfHosts": 4, "template": template()},
        ],
    });
    let of_cluster = || vec![("headgroup", 1), ("small", 2), ("large", 12)];
    vec![
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            json!({"replicatedJobs": [
                {"name": "driver", "template": job(1)}, {"name": "workers", "replicas": 4, "template": job(8)},
            ]}),
            vec![("driver", 1), ("workers", 32)],
        ),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            json!({"replicas": 3, "leaderWorkerTemplate": {"size": 4, "workerTemplate": template()}}),
            vec![("leader", 3), ("worker", 9)],
        ),
        ("ray.io/v1", "RayCluster", cluster.clone(), of_cluster()),
        ("ray.io/v1", "RayJob", json!({"rayClusterSpec": cluster}), of_cluster()),
        (
            "kubeflow.org/v1",
            "PyTorchJob",
            json!({"pytorchReplicaSpecs": {"Master": {"template": template()}, "Worker": group(7)}}),
            vec![("master", 1), ("worker", 7)],
        ),
        (
            "kubeflow.org/v2beta1",
            "MPIJob",
            json!({"mpiReplicaSpecs": {"Launcher": group(1), "Worker": group(2)}}),
            vec![("launcher", 1), ("worker", 2)],
        ),
        (
            "batch.volcano.sh/v1alpha1",
            "Job",
            json!({"tasks": [{"name": "ps", "template": template()}, {"name": "w", "replicas": 3, "template": template()}]}),
            vec![("ps", 1), ("w", 3)],
        ),
        (
            "argoproj.io/v1alpha1",
            "Rollout",
            json!({"replicas": 4, "template": template()}),
            vec![("", 4)],
        ),
    ]
}

#[test]
fn foreign_workloads_are_expanded_part_by_part() {
    for (version, kind, spec, expected) in foreign_workloads() {
        let found = made(&[foreign(version, kind, spec)], &[]);
        let all: usize = expected.iter().map(|(_, pods)| pods).sum();
        let names = names(&found, "Pod");
        assert_eq!((names.len(), found.unread.len()), (all, 0), "{kind}: {:?}", found.warnings);
        for (part, pods) in expected.into_iter().filter(|(part, _)| !part.is_empty()) {
            let own = names.iter().filter(|name| name.starts_with(&format!("w-{part}-")));
            assert_eq!(own.count(), pods, "{kind} {part}");
        }
        let [own] = &found.workloads[..] else { panic!("{kind}: {:?}", found.workloads) };
        let group = version.split_once('/').unwrap().0;
        assert_eq!((own.kind, own.wanted), (&*format!("{kind}.{group}"), all));
        assert!(
            of_kind(&found, "Pod").iter().all(|pod| pod["spec"]["containers"] == containers(8))
        );
        let [warning] = &found.warnings[..] else { panic!("{:?}", found.warnings) };
        assert!(warning.contains("pods are made from the templates alone"), "{warning}");
    }
}

#[test]
fn pods_of_foreign_workloads_are_not_made_again() {
    let spec = json!({"pytorchReplicaSpecs": {
        "Master": {"template": pod_template(8)}, "Worker": {"replicas": 3, "template": pod_template(8)},
    }});
    let job = foreign("kubeflow.org/v1", "PyTorchJob", spec);
    let labels = |part: &str| json!({"training.kubeflow.org/job-name": "w", "training.kubeflow.org/replica-type": part});
    let pod = |name: &str, part: &str| {
        let mut pod = owned("PyTorchJob", "w", name, "a", &labels(part));
        pod.key = PodKey::new("ml", name);
        ("PyTorchJob", "w", pod)
    };
    let found = made(
        std::slice::from_ref(&job),
        &[pod("w-worker-0", "worker"), pod("w-worker-1", "worker")],
    );
    let names = names(&found, "Pod");
    let parts: Vec<_> = names.iter().map(|name| &name[..name.len() - 6]).collect();
    assert_eq!(parts, ["w-master", "w-worker"]);
    assert_eq!((found.workloads[0].wanted, found.workloads[0].running), (4, 2));

    let job_set = foreign_workloads().remove(0);
    let mut child = workload("batch/v1", "Job", "w-driver-0", json!({}));
    child["metadata"]["namespace"] = json!("ml");
    child["metadata"]["ownerReferences"] =
        json!([{"kind": "JobSet", "name": "w", "uid": "x", "controller": true}]);
    let found = made(&[foreign(job_set.0, job_set.1, job_set.2), child], &[]);
    assert_eq!(
        of_kind(&found, "Pod").len(),
        1,
        "the controller of the JobSet has made all its Jobs"
    );
}

#[test]
fn train_jobs_take_their_templates_from_the_runtime() {
    let node = json!({"name": "node", "template": {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": pod_template(1)},
    }});
    let runtime = json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch"},
        "spec": {"mlPolicy": {"numNodes": 2}, "template": {"spec": {"replicatedJobs": [node]}}},
    });
    let resources = json!({"limits": {"nvidia.com/gpu": 8}});
    let spec = json!({"runtimeRef": {"name": "torch"}, "trainer": {"resourcesPerNode": resources}});
    let mut job = foreign("trainer.kubeflow.org/v1alpha1", "TrainJob", spec);
    let found = made(&[job.clone(), runtime.clone()], &[]);
    let pods = of_kind(&found, "Pod");
    assert_eq!(pods.len(), 2, "{:?}", found.warnings);
    assert_eq!(pods[0]["spec"]["containers"], containers(8));
    job["spec"]["trainer"]["numNodes"] = json!(5);
    assert_eq!(of_kind(&made(&[runtime, job.clone()], &[]), "Pod").len(), 5);
    let found = made(&[job], &[]);
    let [unread] = &found.unread[..] else { panic!("{:?}", found.warnings) };
    assert!(
        unread.reason.contains("ClusterTrainingRuntime torch is not in the input"),
        "{unread:?}"
    );
}

#[test]
fn what_looks_like_a_workload_and_cannot_be_expanded_is_named() {
    let of = |version: &str, kind: &str, spec: Value| {
        let found = made(&[foreign(version, kind, spec)], &[]);
        assert!(of_kind(&found, "Pod").is_empty());
        found.unread.into_iter().map(|own| own.kind).collect::<Vec<_>>()
    };
    let nested = json!({"components": [{"template": pod_template(1)}]});
    assert_eq!(of("example.com/v1", "Stack", nested), ["Stack.example.com"]);
    let old = json!({"replicas": 2, "template": pod_template(1)});
    assert_eq!(of("extensions/v1beta1", "Deployment", old), ["Deployment.extensions"]);
    assert_eq!(of("tekton.dev/v1", "TaskRun", json!({})), ["TaskRun.tekton.dev"]);
    let operated = json!({"kafka": {"replicas": 3, "resources": {"requests": {"cpu": "1"}}}});
    assert_eq!(of("kafka.strimzi.io/v1", "Kafka", operated), ["Kafka.kafka.strimzi.io"]);
    let graph = json!({"services": {"web": {"replicas": 2, "extraPodSpec": {"mainContainer": {"image": "i"}}}}});
    assert_eq!(of("nvidia.com/v1alpha1", "Graph", graph), ["Graph.nvidia.com"]);
    let referring = json!({"workloadRef": {"name": "web"}});
    assert_eq!(of("argoproj.io/v1alpha1", "Rollout", referring), ["Rollout.argoproj.io"]);
    let rule = json!({"rules": [{"pattern": {"spec": {"containers": [{"name": "*"}]}}}]});
    assert!(!is_workload(&foreign("kyverno.io/v1", "ClusterPolicy", rule)));
    assert!(!is_workload(&foreign("example.com/v1", "Database", json!({"size": 3}))));
    let machines = json!({"replicas": 3, "template": {"spec": {"image": "disk"}}});
    assert!(!is_workload(&foreign("machine.openshift.io/v1beta1", "MachineSet", machines)));
}

#[test]
fn workloads_that_are_suspended_or_over_make_no_pods() {
    let (version, kind, mut spec, _) = foreign_workloads().remove(0);
    let mut over = foreign(version, kind, spec.clone());
    over["status"] = json!({"conditions": [{"type": "Completed", "status": "True"}]});
    let found = made(&[over], &[]);
    assert!(found.objects.is_empty() && found.unread.is_empty() && found.warnings.is_empty());
    spec["suspend"] = json!(true);
    let found = made(&[foreign(version, kind, spec)], &[]);
    assert!(found.objects.is_empty());
    assert_eq!(
        found.warnings,
        ["JobSet.jobset.x-k8s.io ml/w: is suspended; no pods are made from it"]
    );
}

#[test]
fn huge_numbers_of_pods_are_cut_and_said() {
    let spec = json!({"replicatedJobs": [{"name": "a", "replicas": i32::MAX, "template":
        {"spec": {"parallelism": i32::MAX, "completionMode": "Indexed", "template": pod_template(1)}}}]});
    let job = workload(
        "batch/v1",
        "Job",
        "j",
        json!({"parallelism": i32::MAX, "completions": i32::MAX, "completionMode": "Indexed"}),
    );
    for object in [foreign("jobset.x-k8s.io/v1alpha2", "JobSet", spec), job] {
        let workloads = [raw(&object)];
        let workloads = Workloads { objects: &workloads, first_changed: 1 };
        let found = make(workloads, &[], &[], 1000);
        assert_eq!((found.objects.len(), found.is_full), (1000, true));
        assert_eq!(found.unread.len(), 1, "{:?}", found.warnings);
    }
}

#[test]
fn numbers_of_pods_that_are_none_are_named() {
    let (version, kind, spec, _) = foreign_workloads().remove(0);
    for number in [json!("4"), json!(-1), json!(1.5)] {
        let mut spec = spec.clone();
        spec["replicatedJobs"][1]["replicas"] = number.clone();
        let found = made(&[foreign(version, kind, spec)], &[]);
        let [unread] = &found.unread[..] else { panic!("{number}: {:?}", found.warnings) };
        assert_eq!(unread.reason, format!("workers: replicas: {number} is no number of pods"));
        assert!(of_kind(&found, "Pod").is_empty());
    }
}

#[test]
fn exclusive_topologies_are_named() {
    let (version, kind, spec, _) = foreign_workloads().remove(0);
    let mut job_set = foreign(version, kind, spec);
    job_set["metadata"]["annotations"] =
        json!({"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"});
    let found = made(&[job_set], &[]);
    assert!(found.warnings[0].contains("exclusive topologies"), "{:?}", found.warnings);
}
