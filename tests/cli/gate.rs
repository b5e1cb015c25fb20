//! Manifests as people have them, and answers that a pipeline can rely on.

use std::fs;

use serde_json::Value;

use super::{Answer, loadmaster_with, placements};

/// Nodes with eight GPUs each.
fn nodes(count: usize) -> String {
    let node = |number| {
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: gpu-{number}}}\n\
             status: {{allocatable: {{cpu: '96', memory: 1Ti, pods: '110', nvidia.com/gpu: '8'}}}}\n"
        )
    };
    (0..count).map(node).collect()
}

fn simulate(input: &str, args: &[&str]) -> Answer {
    let all: Vec<&str> = ["simulate", "-f", "-"].iter().chain(args).copied().collect();
    loadmaster_with(&all, input)
}

fn simulated(input: &str) -> Value {
    simulate(input, &["-o", "json"]).json()
}

fn warnings(answer: &Value) -> Vec<&str> {
    let warnings = answer["simulation"]["warnings"].as_array().unwrap();
    warnings.iter().map(|own| own.as_str().unwrap()).collect()
}

fn placed(answer: &Value) -> Vec<String> {
    placements(answer).into_iter().map(|(pod, node)| format!("{pod} on {node}")).collect()
}

/// A JobSet of `replicas` jobs with eight pods, each of which needs all GPUs of a node.
fn job_set(replicas: usize) -> String {
    let container = "{name: c, image: i, resources: {limits: {nvidia.com/gpu: 8}}}";
    let template = format!("{{spec: {{restartPolicy: Never, containers: [{container}]}}}}");
    let job = format!("{{spec: {{parallelism: 8, completions: 8, template: {template}}}}}");
    format!(
        "---\napiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {{name: train}}\n\
         spec: {{replicatedJobs: [{{name: w, replicas: {replicas}, template: {job}}}]}}\n"
    )
}

#[test]
fn pipeline_stops_a_job_set_that_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump.yaml");
    fs::write(&dump, nodes(64)).unwrap();
    let dump = dump.to_str().unwrap();
    let gate = |replicas| {
        let args = ["whatif", "-f", "-", "--dump", dump, "--fail-if-pending", "--validate=strict"];
        loadmaster_with(&args, &job_set(replicas))
    };
    let refused = gate(2000);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    let summary = "The change moves 0 pods, places 64, leaves 15936 pending and evicts 0.";
    assert!(refused.out.starts_with(summary), "{}", refused.out.lines().next().unwrap_or_default());
    assert!(gate(8).text().contains("places 64, leaves 0 pending"));
    assert_eq!(simulate(&(nodes(64) + &job_set(9)), &["--fail-if-pending"]).code, Some(1));
    simulate(&(nodes(64) + &job_set(8)), &["--fail-if-pending"]).text();
}

#[test]
fn pipeline_stops_what_cannot_be_read() {
    let unknown = "---\napiVersion: example.com/v1\nkind: Stack\nmetadata: {name: s}\n\
                   spec: {parts: [{pod: {containers: [{name: c, image: i}]}}]}\n";
    let quota = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\n";
    let input = nodes(1) + unknown + quota;
    let answer = simulated(&input);
    assert_eq!(
        warnings(&answer),
        [
            "quotas are not read (ResourceQuota q): pods beyond them count as admitted",
            "Stack.example.com default/s: no reader knows where its pod templates and their numbers are; its pods \
             are not made and not counted",
        ]
    );
    assert_eq!(answer["simulation"]["unread"][0]["kind"], "Stack.example.com");
    assert_eq!(simulate(&input, &["--fail-if-pending"]).code, Some(1));
    let with_quota = nodes(1) + quota;
    simulate(&with_quota, &["--fail-if-pending"]).text();
}

#[test]
fn limits_of_claims_are_named() {
    let range = "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: r}\n\
                 spec: {limits: [{type: PersistentVolumeClaim, max: {storage: 1Gi}}]}\n";
    let claim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\n\
                 spec: {accessModes: [ReadWriteOnce], storageClassName: '', resources: {requests: {storage: 2Gi}}}\n";
    let found = simulated(&(nodes(1) + range + claim));
    assert_eq!(
        warnings(&found),
        ["LimitRanges are not read for claims (default/r): claims beyond them count as admitted"]
    );
    let stored = claim.replace("{name: c}", "{name: c, creationTimestamp: '2026-01-01T00:00:00Z'}");
    assert!(warnings(&simulated(&(nodes(1) + range + &stored))).is_empty());
}

#[test]
fn objects_that_are_given_twice_in_a_change_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump.yaml");
    fs::write(&dump, nodes(1) + &job_set(1)).unwrap();
    let args = ["whatif", "-f", "-", "--dump", dump.to_str().unwrap()];
    let once = loadmaster_with(&args, &job_set(2));
    assert!(!once.err.contains("given twice"), "it replaces that of the dump: {}", once.err);
    let twice = loadmaster_with(&args, &(job_set(2) + &job_set(1)));
    assert!(twice.err.contains("JobSet train is given twice"), "{}", twice.err);
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n\
               spec: {containers: [{name: c, image: i}]}\n";
    let twice = loadmaster_with(&args, &pod.repeat(2));
    assert!(twice.err.contains("Pod p is given twice"), "{}", twice.err);
}

#[test]
fn pipeline_stops_workloads_without_a_name_or_a_number_of_pods() {
    let template = "{spec: {containers: [{name: c, image: i}]}}";
    let nameless = format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{}}\nspec: {{template: {template}}}\n"
    );
    let wordy = job_set(1).replace("replicas: 1", "replicas: \"1\"");
    let operated = "---\napiVersion: example.com/v1\nkind: Broker\nmetadata: {name: b}\n\
                    spec: {size: 3, image: i}\n";
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump.yaml");
    fs::write(&dump, nodes(1)).unwrap();
    let dump = dump.to_str().unwrap();
    for (change, reason) in [
        (&*nameless, "Deployment metadata.name: is missing"),
        (&wordy, "w: replicas: \"1\" is no number of pods"),
        (operated, "no reader knows where its pod templates and their numbers are"),
    ] {
        let simulated = simulate(&(nodes(1) + change), &["--fail-if-pending"]);
        let args = ["whatif", "-f", "-", "--dump", dump, "--fail-if-pending"];
        for answer in [simulated, loadmaster_with(&args, change)] {
            assert_eq!(answer.code, Some(1), "{change}: {}", answer.err);
            assert!(answer.err.contains(reason), "{change}: {}", answer.err);
        }
    }
}

#[test]
fn files_of_a_folder_that_are_no_objects_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let files = [
        ("Chart.yaml", "name: web\nversion: 1.0.0\n"),
        ("nodes.yaml", &*nodes(1)),
        ("templates/web.yaml", "{{- if .Values.on }}\nkind: Pod\n{{- end }}\n"),
        ("values.json", "{\"replicas\": 2}"),
    ];
    fs::create_dir(folder.path().join("templates")).unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    let answer = loadmaster_with(&["simulate", "-f", path, "-o", "json"], "");
    let found = answer.json();
    let warnings = warnings(&found);
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    for (warning, file) in warnings.iter().zip(["Chart.yaml", "templates/web.yaml", "values.json"])
    {
        let is_named = warning.contains(file) && warning.ends_with("; it is left out");
        assert!(is_named, "{warning}");
    }
    let silent = loadmaster_with(&["simulate", "-f", path, "--validate=ignore"], "");
    assert_eq!((silent.code, &*silent.err), (Some(0), ""));
    loadmaster_with(&["simulate", "-f", path, "--validate"], "").refused(1);
    let gate = loadmaster_with(&["simulate", "-f", path, "--fail-if-pending"], "");
    assert_eq!(gate.code, Some(1), "the template may make pods");
    fs::remove_file(folder.path().join("nodes.yaml")).unwrap();
    let refused = loadmaster_with(&["simulate", "-f", path], "").refused(1);
    assert!(refused.contains("Chart.yaml") && refused.contains("no object"), "{refused}");
}

/// A Job with this metadata.
fn job(metadata: &str) -> String {
    let template = "{spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}";
    format!(
        "---\napiVersion: batch/v1\nkind: Job\nmetadata: {metadata}\n\
         spec: {{parallelism: 2, template: {template}}}\n"
    )
}

#[test]
fn objects_with_generated_names_are_distinct() {
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: p-}\n\
               spec: {containers: [{name: c, image: i}]}\n";
    let input =
        nodes(1) + &job("{generateName: a-}").repeat(2) + &job("{generateName: b}") + pod + pod;
    let answer = simulated(&input);
    assert_eq!(placements(&answer).len(), 8);
    assert_eq!(answer["simulation"]["workloads"].as_array().unwrap().len(), 3);
    assert!(warnings(&answer).is_empty(), "{:?}", warnings(&answer));
}

#[test]
fn objects_that_are_given_twice_are_reported() {
    let claim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c, namespace: default}\n";
    let class = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: c}\n";
    let twice = [&*job("{name: j}"), claim, class].map(|own| own.repeat(2)).concat();
    let answer = simulated(&(nodes(1) + &twice));
    let found = warnings(&answer);
    assert_eq!(found.len(), 3, "{found:?}");
    for (warning, object) in
        found.iter().zip(["Job j", "PersistentVolumeClaim default/c", "StorageClass c"])
    {
        assert!(
            warning.contains(&format!("{object} is given twice; it replaces the one in ")),
            "{warning}"
        );
    }
    assert_eq!(placements(&answer).len(), 2);
}

#[test]
fn yaml_means_what_it_means_to_kubectl() {
    let node = nodes(1);
    let with_port = |name: &str, port: &str| {
        format!(
            "\u{feff}---\r\napiVersion: v1\r\nkind: Pod\r\nmetadata: {{name: {name}}}\r\nspec:\r\n  hostNetwork: on\r\n  \
             containers: [{{name: c, image: i, ports: [{{containerPort: {port}}}]}}]\r\n"
        )
    };
    let answer = simulated(&(node.clone() + &with_port("a", "0100") + &with_port("b", "64")));
    assert_eq!(placed(&answer), ["a on gpu-0"], "both want port 64");
    let merged = "---\napiVersion: v1\nkind: List\nitems:\n\
                  - apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  \
                  spec: &s {nodeSelector: {disk: 'no'}, containers: [{name: c, image: i}]}\n\
                  - {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {<<: *s, priority: 1_0}}\n";
    let answer = simulated(&(node + merged));
    assert!(placed(&answer).is_empty());
    let left = answer["simulation"]["left"].as_array().unwrap();
    let found: Vec<_> = left.iter().map(|own| (&own["name"], &own["priority"])).collect();
    assert_eq!(format!("{found:?}"), "[(String(\"a\"), Number(0)), (String(\"b\"), Number(10))]");
}

#[test]
fn new_pods_are_admitted_as_by_an_api_server() {
    let input = nodes(2)
        + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n\
           spec: {runtimeClassName: vm, priorityClassName: polite, containers: [{name: c, image: i}]}\n\
           ---\napiVersion: v1\nkind: Pod\nmetadata: {name: lost}\n\
           spec: {runtimeClassName: gone, priorityClassName: gone, containers: [{name: c, image: i}]}\n\
           ---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: polite}\nvalue: 7\n\
           preemptionPolicy: Never\n\
           ---\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: vm}\nhandler: vm\n\
           overhead: {podFixed: {cpu: '1'}}\nscheduling: {nodeSelector: {vm: 'true'}}\n\
           ---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: r}\n\
           spec: {limits: [{type: Container, max: {cpu: '96'}}]}\n\
           ---\napiVersion: v1\nkind: Node\nmetadata: {name: vm, labels: {vm: 'true'}}\n\
           status: {allocatable: {cpu: '96', memory: 1Ti, pods: '110'}}\n";
    let answer = simulated(&input);
    let left = &answer["simulation"]["left"][0];
    assert_eq!((&left["name"], &left["priority"]), (&"p".into(), &7.into()));
    let reason = left["reason"].as_str().unwrap();
    assert!(
        reason.contains("1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector"),
        "{reason}"
    );
    assert!(reason.contains("not eligible due to preemptionPolicy=Never"), "{reason}");
    assert_eq!(placements(&answer).len(), 1, "the default limit is a whole node");
    assert_eq!(
        warnings(&answer),
        [
            "1 pod (default/lost) with spec.priorityClassName gone: there is no such PriorityClass in the input; \
             priority 0 counts",
            "1 pod (default/lost) with spec.runtimeClassName gone: there is no such RuntimeClass in the input; its \
             overhead, node selector and tolerations do not count",
        ]
    );
}

#[test]
fn pods_that_an_api_server_refuses_are_left_out() {
    let input = nodes(1)
        + "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: small}\n\
           spec: {limits: [{type: Container, max: {cpu: '1'}}]}\n\
           ---\napiVersion: v1\nkind: Pod\nmetadata: {name: large}\n\
           spec: {containers: [{name: c, image: i, resources: {limits: {cpu: '2'}}}]}\n\
           ---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n\
           spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, \
           spec: {containers: [{name: c, image: i, resources: {limits: {cpu: '3'}}}]}}}\n";
    let answer = simulated(&input);
    assert!(placements(&answer).is_empty());
    let unread = answer["simulation"]["unread"].as_array().unwrap();
    assert_eq!(unread.len(), 3);
    assert_eq!(
        warnings(&answer)[..1],
        [
            "1 pod (default/large): the API server refuses that because of LimitRange small: maximum cpu usage per \
          Container is 1, but limit is 2; left out"
        ]
    );
    assert!(warnings(&answer)[1].starts_with("2 pods (default/web-"), "{:?}", warnings(&answer));
    let failed = loadmaster_with(&["simulate", "-f", "-", "--fail-if-pending"], &input);
    assert_eq!(failed.code, Some(1));
}

#[test]
fn configuration_may_be_utf_16() {
    let text =
        "\u{feff}apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    let folder = tempfile::tempdir().unwrap();
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (name, bytes) in [("marked.yaml", text.as_bytes()), ("wide.yaml", &wide)] {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        loadmaster_with(&["config", "validate", path.to_str().unwrap()], "").text();
    }
}
