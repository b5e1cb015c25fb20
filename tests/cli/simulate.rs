//! `simulate -f`: input and output.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Answer, loadmaster, loadmaster_with, placements, written};

const DUMP: [&str; 5] = ["simulate", "-f", "nodes.yaml", "-f", "pods.json"];

fn dump(more: &[&str]) -> Answer {
    loadmaster(&[&DUMP[..], more].concat())
}

#[test]
fn dump_is_scheduled_and_reported_as_text() {
    let text = dump(&[]).text();
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(text.starts_with("2 pending pods: 1 placed, 1 left pending."), "{text}");
    assert!(text.contains("Scheduled the pods of default-scheduler, other"), "{text}");
    assert!(text.contains("Left out 1 pod that ended."), "{text}");
    assert!(lines.contains(&vec!["a", "web", "large"]), "{text}");
    assert!(text.contains("0/2 nodes are available: 2 Insufficient memory."), "{text}");
    assert!(lines.iter().any(|line| line.starts_with(&["small", "1.5/2", "75"])), "{text}");
    assert!(!text.contains('\u{1b}'), "no colour in a pipe");
}

#[test]
fn json_has_stable_keys() {
    let answer = dump(&["-o", "json"]).json();
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&"v1".into(), &"List".into()));
    let simulation = &answer["simulation"];
    let summary = &simulation["summary"];
    let numbers = ["nodes", "running", "pending", "placed", "left", "ofOtherSchedulers", "ended"];
    let found = numbers.map(|key| summary[key].as_u64());
    assert_eq!(found, [2, 1, 2, 1, 1, 0, 1].map(Some));
    assert_eq!(placements(&answer), [("web".to_owned(), "large".to_owned())]);
    let left = &simulation["left"][0];
    assert_eq!((&left["namespace"], &left["name"]), (&"b".into(), &"huge".into()));
    assert_eq!(left["state"], "unschedulable");
    let cpu = &simulation["nodes"][1]["resources"]["cpu"];
    assert_eq!(*cpu, json!({"requested": 1.5, "allocatable": 2, "percent": 75.0}));
    assert_eq!(simulation["schedulerNames"], json!(["default-scheduler", "other"]));
}

#[test]
fn placed_pods_are_written_completely_and_parse_again() {
    let yaml = dump(&["-o", "yaml"]).text();
    assert!(yaml.contains("unknownField"), "{yaml}");
    assert!(yaml.contains("keep: me"), "{yaml}");
    assert!(!yaml.contains("resourceVersion") && !yaml.contains("uid"), "{yaml}");
    let again = loadmaster_with(&["simulate", "-f", "nodes.yaml", "-", "-o", "json"], &yaml).json();
    let summary = &again["simulation"]["summary"];
    assert_eq!((summary["running"].as_u64(), summary["pending"].as_u64()), (Some(1), Some(0)));
    let total = &again["simulation"]["total"]["cpu"];
    assert_eq!(total["requested"], 1);
}

#[test]
fn folder_is_read_recursively_and_sorted() {
    let answer = loadmaster(&["simulate", "-f", "folder", "-o", "json"]).json();
    let simulation = &answer["simulation"];
    let order: Vec<String> = placements(&answer).into_iter().map(|(pod, _)| pod).collect();
    assert_eq!(order, ["first", "second"]);
    assert_eq!(simulation["left"][0]["state"], "gated");
    assert_eq!(simulation["left"][0]["reason"], "waiting for scheduling gates: [example.com/wait]");
    let cpu = &simulation["nodes"][0]["resources"]["cpu"];
    assert_eq!(cpu["requested"], 1, "what is limited is asked for");
    assert_eq!(cpu["allocatable"], 4, "what a node has is allocatable unless it says otherwise");
}

#[test]
fn pods_are_placed_where_their_volumes_are_or_can_be_provisioned() {
    let answer = loadmaster(&["simulate", "-f", "volumes.yaml", "-o", "json"]).json();
    let placed = placements(&answer);
    let placed: Vec<(&str, &str)> = placed.iter().map(|(pod, node)| (&**pod, &**node)).collect();
    assert_eq!(placed, [("db-0", "a1"), ("reader-0", "b1"), ("reader-1", "b2")]);
    let left = answer["simulation"]["left"].as_array().unwrap().iter();
    let left: Vec<(&str, &str)> =
        left.map(|pod| (pod["name"].as_str().unwrap(), pod["reason"].as_str().unwrap())).collect();
    let expected = [
        (
            "db-1",
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't find available persistent \
             volumes to bind.",
        ),
        ("lost", "0/3 nodes are available: persistentvolumeclaim \"nowhere\" not found."),
    ];
    for ((name, reason), (expected_name, start)) in left.iter().zip(expected) {
        assert!(*name == expected_name && reason.starts_with(start), "{name}: {reason}");
    }
    assert_eq!(left.len(), expected.len());
}

#[test]
fn pods_get_devices_and_the_reason_why_none_fits() {
    let answer = loadmaster(&["simulate", "-f", "devices.yaml", "-o", "json"]).json();
    let placed = answer["simulation"]["placed"].as_array().unwrap().iter();
    let placed: Vec<_> = placed.map(|pod| (&pod["name"], &pod["node"], &pod["devices"])).collect();
    let device = |pod: &str, device: &str| {
        json!([{"claim": format!("{pod}-gpu"), "request": "gpu", "driver": "gpu.example.com",
            "pool": "gpus", "device": device}])
    };
    let (first, second) = (device("first", "gpu-0"), device("second", "gpu-1"));
    let node = json!("gpus");
    let expected = [(&json!("first"), &node, &first), (&json!("second"), &node, &second)];
    assert_eq!(placed, expected);
    let left = answer["simulation"]["left"].as_array().unwrap().iter();
    let left: Vec<(&str, &str)> =
        left.map(|pod| (pod["name"].as_str().unwrap(), pod["reason"].as_str().unwrap())).collect();
    let [picky, third, lost] = left.as_slice() else { panic!("{left:?}") };
    let start = "0/2 nodes are available: 2 cannot allocate all claims";
    assert!(picky.0 == "picky" && picky.1.starts_with(start), "{picky:?}");
    assert!(third.0 == "third" && third.1.starts_with(start), "{third:?}");
    assert_eq!(*lost, ("lost", "pod \"default/lost\": ResourceClaim not created yet"));
    let warning = "Pod default/lost: the ResourceClaimTemplate unknown is not in the input";
    assert_eq!(answer["simulation"]["warnings"], json!([warning]));
    let answer = loadmaster(&["simulate", "-f", "devices.yaml", "--explain", "default/picky"]);
    let text = answer.text();
    assert!(text.contains("gpu.example.com/gpus/gpu-1"), "{text}");
    let (_, explained) = text.split_once("What the plugins found there:\n").unwrap();
    let lines = explained.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let expected = [
        "NODES PLUGIN DETAIL NAMES",
        "1 DynamicResources claim default/large, request gpu: 0 of 1 devices; the node has 2: 2 \
         rejected by selector #0 of the request gpus",
        "1 DynamicResources claim default/large, request gpu: 0 of 1 devices; the node has none \
         plain",
    ];
    assert_eq!(lines.take(3).collect::<Vec<_>>(), expected);
}

#[test]
fn details_of_rejected_nodes_are_part_of_json() {
    let args = ["simulate", "-f", "devices.yaml", "--explain", "default/third", "-o", "json"];
    let answer = loadmaster(&args).json();
    let verdicts = &answer["simulation"]["explanations"][0]["verdicts"];
    assert_eq!(verdicts[0]["reasons"], json!(["cannot allocate all claims"]));
    let claim = "claim default/third-gpu, request gpu: 0 of 1 devices; the node has";
    let details = json!([
        {"text": format!("{claim} 2: 2 in use"), "nodes": ["gpus"]},
        {"text": format!("{claim} none"), "nodes": ["plain"]},
    ]);
    assert_eq!(verdicts[0]["details"], details);
}

#[test]
fn immediate_claims_are_bound_and_claims_without_a_class_get_the_default_class() {
    let answer = loadmaster(&["simulate", "-f", "claims.yaml", "-o", "json"]).json();
    let placed = placements(&answer);
    let placed: Vec<(&str, &str)> = placed.iter().map(|(pod, node)| (&**pod, &**node)).collect();
    let expected =
        [("static", "a1"), ("made", "b1"), ("defaulted", "b1"), ("named", "a1"), ("scratch", "b1")];
    assert_eq!(placed, expected);
    let left = &answer["simulation"]["left"];
    let reason = left[0]["reason"].as_str().unwrap();
    assert_eq!(left[0]["name"], "classless");
    assert!(reason.contains("pod has unbound immediate PersistentVolumeClaims"), "{reason}");
    assert_eq!(left.as_array().unwrap().len(), 1);
}

#[test]
fn each_claim_gets_its_own_volume() {
    let driver = "disks.example.com";
    let limit = json!({"name": driver, "nodeID": "n", "allocatable": {"count": 2}});
    let resources = json!({"requests": {"storage": "1Gi"}});
    let of_namespace = |(namespace, claim): (&str, &str)| {
        let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
        [
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": claim, "namespace": namespace},
                "spec": {"storageClassName": "disks", "accessModes": ["ReadWriteOnce"],
                    "resources": resources}}),
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "p", "namespace": namespace},
                "spec": {"containers": [{"name": "c"}], "volumes": [volume]}}),
        ]
    };
    let cluster = [
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"},
            "spec": {"drivers": [limit]}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": "disks"}, "provisioner": driver,
            "volumeBindingMode": "WaitForFirstConsumer"}),
    ];
    let pods = [("a", "b-c"), ("a-b", "c"), ("c", "d")].into_iter().flat_map(of_namespace);
    let items: Vec<_> = cluster.into_iter().chain(pods).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let answer = loadmaster_with(&["simulate", "-f", "-", "-o", "json"], &list).json();
    assert_eq!(placements(&answer).len(), 2, "as many as the node can attach");
}

#[test]
fn pod_affinity_and_anti_affinity_are_followed() {
    let answer = loadmaster(&["simulate", "-f", "neighbours.yaml", "-o", "json"]).json();
    let simulation = &answer["simulation"];
    let placed = placements(&answer);
    let node_of = |pod: &str| &*placed.iter().find(|(name, _)| name == pod).unwrap().1;
    assert_eq!(node_of("near-db"), "b1", "its namespace selector means the namespace of the db");
    assert_eq!(node_of("web-1"), "a2", "spread by default from the other pod of its ReplicaSet");
    let zones: BTreeSet<&str> = ["queue-0", "queue-1"].map(|pod| &node_of(pod)[..1]).into();
    assert_eq!(zones.len(), 2, "one in each zone");
    let left = simulation["left"].as_array().unwrap().iter();
    let left: Vec<(&str, &str)> =
        left.map(|pod| (pod["name"].as_str().unwrap(), pod["reason"].as_str().unwrap())).collect();
    let expected = [
        ("near-nothing", "0/3 nodes are available: 3 node(s) didn't match pod affinity rules."),
        (
            "queue-2",
            "0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints.",
        ),
        (
            "odd",
            "the pod is invalid, and an API server refuses it: \
             spec.topologySpreadConstraints[0].maxSkew: is not greater than zero, \
             spec.topologySpreadConstraints[0].labelSelector: \"Near\" is not a valid label \
             selector operator",
        ),
    ];
    for ((name, reason), (expected_name, start)) in left.iter().zip(expected) {
        assert!(*name == expected_name && reason.starts_with(start), "{name}: {reason}");
    }
    assert_eq!(left.len(), expected.len());
    assert_eq!(simulation["otherKinds"], json!({}), "all of them are read");
}

#[test]
fn pod_affinity_is_ignored_if_its_plugin_is_disabled() {
    let off = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
               profiles: [{plugins: {multiPoint: {disabled: [{name: PodTopologySpread}]}}}]\n";
    let config = written("no-spread.yaml", off.as_bytes());
    let args = ["simulate", "-f", "neighbours.yaml", "--config", &config, "-o", "json"];
    let answer = loadmaster(&args).json();
    let web = ("web-1".to_owned(), "a1".to_owned());
    assert!(placements(&answer).contains(&web), "it has more room: {:?}", placements(&answer));
    assert_eq!(answer["simulation"]["otherKinds"], json!({"Service": 2}), "workloads are read");
}

#[test]
fn affinity_verdicts_are_explained_as_text() {
    let answer = loadmaster(&["simulate", "-f", "neighbours.yaml", "--explain", "shop/queue-2"]);
    let warnings = [
        "Service shop/odd: spec.selector: invalid type: string \"app=web\", expected a map; it is \
         left out",
        "namespaces of pods are not in the input (shop)",
    ];
    for warning in warnings {
        assert!(answer.err.contains(warning), "{}", answer.err);
    }
    let text = answer.text();
    let (_, explained) = text.split_once("EXPLAINED shop/queue-2").unwrap();
    let verdict = ["3", "PodTopologySpread", "Unschedulable"];
    let is_verdict = |line: &str| line.split_whitespace().take(3).eq(verdict);
    assert!(explained.lines().any(is_verdict), "{explained}");
}

#[test]
fn scheduler_name_limits_the_scheduled_pods() {
    let answer = dump(&["--scheduler-name", "other", "-o", "json"]).json();
    let summary = &answer["simulation"]["summary"];
    assert_eq!(summary["pending"], 1);
    assert_eq!(summary["ofOtherSchedulers"], 1);
    assert_eq!(placements(&answer), []);
}

#[test]
fn pending_pod_is_explained_by_verdict() {
    let text = dump(&["--explain", "b/huge"]).text();
    let (_, explained) = text.split_once("EXPLAINED b/huge (now, that is after the run)").unwrap();
    assert!(explained.contains("0 of 2 nodes can take it."), "{explained}");
    let verdict =
        ["2", "NodeResourcesFit", "UnschedulableAndUnresolvable", "Insufficient", "memory"];
    let is_verdict = |line: &str| line.split_whitespace().take(5).eq(verdict);
    assert!(explained.lines().any(is_verdict), "{explained}");
    assert!(explained.contains("large, small"), "{explained}");
}

#[test]
fn placed_pod_is_explained_with_scores_as_if_it_were_removed() {
    let answer = dump(&["--explain", "a/web", "-o", "json"]).json();
    let explanation = &answer["simulation"]["explanations"][0];
    assert_eq!((&explanation["node"], &explanation["asOf"]), (&"large".into(), &"now".into()));
    assert_eq!(explanation["feasible"], 1);
    assert_eq!(explanation["best"][0]["node"], "large");
    let placed = &answer["simulation"]["nodes"][0]["resources"]["cpu"]["requested"];
    assert_eq!(*placed, 1, "asking changes nothing");
}

#[test]
fn scores_are_shown_per_plugin() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n\
               spec: {containers: [{name: c, resources: {requests: {cpu: 1, memory: 1Gi}}}]}\n";
    let args = ["simulate", "-f", "nodes.yaml", "-", "--explain", "p", "-o", "json"];
    let answer = loadmaster_with(&args, pod).json();
    let best = &answer["simulation"]["explanations"][0]["best"];
    assert_eq!(best[0]["node"], "large");
    let scores = best[0]["scores"].as_array().unwrap();
    let sum: i64 = scores.iter().map(|score| score["score"].as_i64().unwrap()).sum();
    assert_eq!(best[0]["total"], sum);
    assert!(scores.iter().any(|score| score["plugin"] == "NodeResourcesFit"), "{scores:?}");
}

#[test]
fn pending_pod_named_by_explain_is_explained_once() {
    let text = dump(&["--explain", "b/huge", "-o", "wide"]).text();
    assert_eq!(text.matches("EXPLAINED b/huge").count(), 1, "{text}");
}

#[test]
fn wide_output_explains_pending_pods() {
    let text = dump(&["-o", "wide"]).text();
    assert!(text.contains("EXPLAINED b/huge"), "{text}");
    assert!(text.contains("PRIORITY"), "{text}");
}

#[test]
fn equal_seeds_give_equal_output() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/cluster");
    let run = |seed: u32| {
        loadmaster(&["simulate", "-f", example, "--seed", &seed.to_string(), "-o", "json"])
    };
    assert_eq!(run(7).text(), run(7).text());
    let seven = placements(&run(7).json());
    let different = (0..20).any(|seed| placements(&run(seed).json()) != seven);
    assert!(different, "ties are broken by the seed");
}

#[test]
fn cluster_without_nodes_is_reported() {
    let answer = loadmaster(&["simulate", "-f", "pods.json", "-o", "json"]).json();
    assert_eq!(answer["simulation"]["left"][0]["reason"], "no nodes available to schedule pods");
}

#[test]
fn members_of_groups_are_left_gated_unless_they_are_scheduled_alone() {
    let pod = |name: &str, labels: serde_json::Value, spec: serde_json::Value| {
        let mut spec = spec;
        spec["containers"] = json!([{"name": "c"}]);
        json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
            "metadata": {"name": name, "labels": labels}})
    };
    let items = [
        pod("field", json!({}), json!({"schedulingGroup": {"podGroupName": "g"}})),
        pod("label", json!({"scheduling.x-k8s.io/pod-group": "g"}), json!({})),
        pod("single", json!({}), json!({})),
    ];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let run = |more: &[&str]| {
        let args = ["simulate", "-f", "nodes.yaml", "-", "-o", "json"];
        loadmaster_with(&[&args[..], more].concat(), &list).json()
    };
    let answer = run(&[]);
    let names: Vec<String> = placements(&answer).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["single"]);
    for left in answer["simulation"]["left"].as_array().unwrap() {
        assert_eq!(left["state"], "gated", "{left}");
        let reason = left["reason"].as_str().unwrap();
        assert!(reason.contains("pod group \"g\" to appear"), "{reason}");
    }
    let gated = run(&["--feature-gates", "AllBeta=false"]);
    let left = gated["simulation"]["left"].as_array().unwrap();
    assert!(
        left.iter().all(|left| left["reason"].as_str().unwrap().contains("the PodGroup \"g\""))
    );
    for alone in ["--schedule-group-members-alone", "--feature-gates=GenericWorkload=false"] {
        assert_eq!(placements(&run(&[alone])).len(), 3, "{alone}");
    }
}

#[test]
fn gangs_of_every_api_version_are_placed_whole_or_not_at_all() {
    let versions = [
        ("scheduling.k8s.io/v1alpha2", json!({"schedulingPolicy": {"gang": {"minCount": 3}}})),
        ("scheduling.k8s.io/v1beta1", json!({"schedulingPolicy": {"gang": {"minCount": 3}}})),
        ("scheduling.x-k8s.io/v1alpha1", json!({"minMember": 3})),
    ];
    for (version, spec) in versions {
        let place = |nodes: usize| {
            let node = |number: usize| {
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number}")},
                    "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}}})
            };
            let pod = |number: usize| {
                let spec =
                    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
                let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
                    "metadata": {"name": format!("p{number}")}});
                match version {
                    "scheduling.x-k8s.io/v1alpha1" => {
                        pod["metadata"]["labels"] = json!({"scheduling.x-k8s.io/pod-group": "g"});
                    }
                    _ => pod["spec"]["schedulingGroup"] = json!({"podGroupName": "g"}),
                }
                pod
            };
            let group = json!({"apiVersion": version, "kind": "PodGroup",
                "metadata": {"name": "g"}, "spec": spec});
            let items: Vec<_> =
                (0..nodes).map(node).chain((0..3).map(pod)).chain([group]).collect();
            let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
            loadmaster_with(&["simulate", "-f", "-", "-o", "json"], &list).json()
        };
        assert_eq!(placements(&place(3)).len(), 3, "{version}");
        let answer = place(2);
        assert_eq!(placements(&answer).len(), 0, "{version}");
        let left = answer["simulation"]["left"].as_array().unwrap();
        assert_eq!(left.len(), 3, "{version}: {left:?}");
        for left in left {
            assert_eq!(left["state"], "unschedulable", "{version}: {left}");
            let reason = left["reason"].as_str().unwrap();
            let of_group = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining";
            let is_told = reason.contains(of_group) || reason.contains("2 Insufficient cpu");
            assert!(is_told, "{version}: {left}");
        }
    }
}

/// The gangs of the guide: each is placed whole where there is room, and not at all where it lacks.
#[test]
fn gangs_of_the_guide_are_placed_whole_or_not_at_all() {
    let guide = include_str!("../../docs/guides/groups.md");
    let blocks = guide.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let gangs: Vec<&str> = blocks.filter(|block| block.contains("kind: PodGroup")).collect();
    assert_eq!(gangs.len(), 4, "a Job with each API, a JobSet and a LeaderWorkerSet");
    for gang in gangs {
        let placed = |nodes: usize| {
            let node = |number: usize| {
                format!(
                    "---\napiVersion: v1\nkind: Node\nmetadata: {{name: n{number}}}\n\
                     status: {{allocatable: {{cpu: '1', memory: 8Gi, pods: '9'}}}}\n"
                )
            };
            let nodes: String = (0..nodes).map(node).collect();
            let input = format!("{gang}{nodes}");
            let answer = loadmaster_with(&["simulate", "-f", "-", "-o", "json"], &input).json();
            let left = answer["simulation"]["left"].as_array().unwrap().len();
            (placements(&answer).len(), left)
        };
        let (none, all) = placed(3);
        assert_eq!(none, 0, "{gang}");
        assert_eq!(placed(all), (all, 0), "{gang}");
    }
}

#[test]
fn sampling_can_be_enabled() {
    for more in [["--percentage-of-nodes-to-score", "50"].as_slice(), &["--adaptive-sampling"]] {
        dump(more).text();
    }
}

#[test]
fn version_is_printed() {
    let version = format!("loadmaster {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(loadmaster(&["version"]).text(), version);
}

#[test]
fn pod_of_higher_priority_evicts_the_least_important_pod() {
    let answer = loadmaster(&["simulate", "-f", "preemption.yaml", "-o", "json"]).json();
    assert_eq!(placements(&answer), [("urgent".to_owned(), "open".to_owned())]);
    let simulation = &answer["simulation"];
    assert_eq!(simulation["summary"]["evicted"], 1);
    let expected = json!([{
        "namespace": "batch", "name": "cleanup", "node": "open", "priority": 3,
        "preemptor": "shop/urgent",
    }]);
    assert_eq!(simulation["evicted"], expected, "the budget protects the other node");
    let left = &simulation["left"][0];
    let reason = left["reason"].as_str().unwrap();
    assert_eq!(left["name"], "patient");
    assert!(reason.ends_with("not eligible due to preemptionPolicy=Never."), "{reason}");
    let text = loadmaster(&["simulate", "-f", "preemption.yaml"]).text();
    assert!(text.starts_with("2 pending pods: 1 placed, 1 left pending, 1 pod evicted."), "{text}");
    let row = ["batch", "cleanup", "open", "shop/urgent"];
    assert!(text.lines().any(|line| line.split_whitespace().eq(row)), "{text}");
}

#[test]
fn workloads_make_the_pods_that_they_lack() {
    let answer = loadmaster(&["simulate", "-f", "workloads.yaml", "-o", "json"]).json();
    let simulation = &answer["simulation"];
    let workloads = simulation["workloads"].as_array().unwrap().iter();
    let numbers = workloads.map(|own| {
        let number = |key: &str| own[key].as_u64().unwrap();
        let name = format!("{} {}", own["kind"].as_str().unwrap(), own["name"].as_str().unwrap());
        (name, ["wanted", "running", "placed", "left"].map(number))
    });
    let expected = [
        ("Deployment web", [3, 0, 2, 1]),
        ("ReplicaSet cache", [2, 1, 1, 0]),
        ("StatefulSet db", [2, 0, 2, 0]),
        ("DaemonSet agent", [2, 0, 2, 0]),
        ("CronJob report", [2, 0, 2, 0]),
    ];
    let expected = expected.map(|(name, numbers)| (name.to_owned(), numbers));
    assert_eq!(numbers.collect::<Vec<_>>(), expected);
    let nodes_of = |prefix: &str| {
        let placed = placements(&answer).into_iter().filter(|(pod, _)| pod.starts_with(prefix));
        placed.map(|(_, node)| node).collect::<Vec<_>>()
    };
    assert_eq!(nodes_of("agent-"), ["a", "b"], "one for each node");
    assert_eq!(nodes_of("db-"), ["a", "a"], "with volumes");
    assert_eq!(simulation["left"][0]["state"], "unschedulable");
    assert_eq!(simulation["otherKinds"], json!({}), "all of them are read");
    assert_eq!(simulation["warnings"], json!([]));

    let text = loadmaster(&["simulate", "-f", "workloads.yaml"]).text();
    let row = ["Deployment", "shop", "web", "3", "0", "2", "1"];
    assert!(text.lines().any(|line| line.split_whitespace().eq(row)), "{text}");
}

#[test]
fn placed_pods_of_workloads_are_not_made_again() {
    let run = ["simulate", "-f", "workloads.yaml", "-o", "yaml"];
    let placed = loadmaster(&run).text();
    let args = ["simulate", "-f", "workloads.yaml", "-", "-o", "json"];
    let again = loadmaster_with(&args, &placed).json();
    let summary = &again["simulation"]["summary"];
    let numbers = ["running", "pending"].map(|key| summary[key].as_u64());
    assert_eq!(numbers, [10, 1].map(Some), "{summary}");
}

#[test]
fn long_tables_are_cut_and_shown_in_full_on_demand() {
    let pod = |number: usize| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
        )
    };
    let pods: String = (0..60).map(pod).collect();
    let file = written("many.yaml", pods.as_bytes());
    let rows = |args: &[&str]| {
        let text = loadmaster(&[&["simulate", "-f", "nodes.yaml", &file], args].concat()).text();
        let rows = text.lines().filter(|line| line.contains("default    p")).count();
        (rows, text.contains("more; --all lists them"))
    };
    assert_eq!(rows(&[]), (50, true));
    assert_eq!(rows(&["--all"]), (60, false));
    assert_eq!(rows(&["-o", "wide"]), (60, false));
}
