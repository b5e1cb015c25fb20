//! `simulate --config`, `--compare` and `--gpu-share`: the effect of a configuration.

use std::path::Path;

use serde_json::{Value, json};

use super::{Answer, loadmaster, loadmaster_with, placements, written};

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// A first profile that packs, and a second one that spreads.
const PACKING: &str = "\
profiles:
- schedulerName: packing
  plugins:
    score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
- schedulerName: spreading
  plugins:
    score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}
";

/// Two equal nodes and two small pods of one scheduler name.
fn pair(scheduler: &str) -> String {
    let nodes = ["a", "b"].map(|name| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}})
    });
    let requests = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    let pods = ["p", "q"].map(|name| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "x"},
            "spec": {"schedulerName": scheduler,
                "containers": [{"name": "c", "resources": requests}]}})
    });
    let items = [nodes, pods].concat();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Writes a file with a configuration of these fields.
fn configuration(name: &str, fields: &str) -> String {
    written(name, format!("{HEAD}{fields}").as_bytes())
}

/// The default configuration and one that packs.
fn both(test: &str) -> [String; 2] {
    let default = configuration(&format!("{test}-default.yaml"), "");
    [default, configuration(&format!("{test}-packing.yaml"), PACKING)]
}

/// Simulates two pods of this scheduler name.
fn simulate(scheduler: &str, more: &[&str]) -> Answer {
    loadmaster_with(&[&["simulate", "-f", "-"], more].concat(), &pair(scheduler))
}

fn compare(files: &[String; 2], more: &[&str]) -> Answer {
    let files = ["--compare", &files[0], "--compare", &files[1]];
    simulate("default-scheduler", &[&files, more].concat())
}

/// Returns the number of nodes with placed pods.
fn nodes_used(answer: &Value) -> usize {
    let placed = placements(answer);
    assert_eq!(placed.len(), 2, "{answer:#}");
    if placed[0].1 == placed[1].1 { 1 } else { 2 }
}

/// Returns the words of the line that begins with these words.
fn values<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    let found = text.lines().find_map(|line| line.trim_start().strip_prefix(start));
    found.unwrap_or_else(|| panic!("no {start} in {text}")).split_whitespace().collect()
}

#[test]
fn a_configuration_changes_placements() {
    let [default, packing] = both("changes");
    let used = |more: &[&str]| {
        let args = [more, &["-o", "json"]].concat();
        nodes_used(&simulate("default-scheduler", &args).json())
    };
    assert_eq!(used(&[]), 2);
    assert_eq!(used(&["--config", &default]), 2);
    assert_eq!(used(&["--config", &packing]), 1);
}

#[test]
fn pods_of_unknown_names_get_the_first_profile() {
    let [_, packing] = both("names");
    for (scheduler, nodes) in [("packing", 1), ("spreading", 2), ("nobody", 1)] {
        let answer = simulate(scheduler, &["--config", &packing, "-o", "json"]).json();
        assert_eq!(nodes_used(&answer), nodes, "{scheduler}");
        assert_eq!(answer["simulation"]["schedulerNames"], json!([scheduler]));
    }
}

#[test]
fn configuration_is_read_from_standard_input() {
    let dump = written("config-stdin-dump.json", pair("any").as_bytes());
    let args = ["simulate", "-f", &dump, "--config", "-", "-o", "json"];
    let answer = loadmaster_with(&args, &format!("{HEAD}{PACKING}")).json();
    assert_eq!(nodes_used(&answer), 1);
}

#[test]
fn invalid_configuration_names_its_file() {
    let rows = [
        ("parallelism: -1\n", "parallelism: Invalid value: -1"),
        ("bogus: 1\n", "unknown field \"bogus\""),
        ("profiles: [{plugins: {filter: {enabled: [{name: Nope}]}}}]\n", "\"Nope\" does not exist"),
    ];
    for (fields, expected) in rows {
        let broken = configuration("broken-config.yaml", fields);
        let error = simulate("any", &["--config", &broken]).refused(1);
        assert!(error.starts_with(&format!("error: {broken}: ")), "{error}");
        assert_eq!(error.matches(expected).count(), 1, "{error}");
        let [default, _] = both("broken");
        let error = compare(&[default, broken.clone()], &[]).refused(1);
        assert!(error.starts_with(&format!("error: {broken}: ")), "{error}");
    }
}

#[test]
fn missing_configuration_is_named() {
    let error = simulate("any", &["--config", "/no/such.yaml"]).refused(1);
    assert_eq!(error, "error: open /no/such.yaml: no such file or directory\n");
}

#[test]
fn comparison_as_text_has_counts_and_differing_pods() {
    let files = both("table");
    let text = compare(&files, &[]).text();
    assert_eq!(values(&text, &files[0]), [&files[1]], "{text}");
    let rows = [
        ("placed", ["2", "2"]),
        ("left pending", ["0", "0"]),
        ("empty nodes", ["0", "1"]),
        ("cpu requested, %", ["25.0", "25.0"]),
        ("memory requested, %", ["12.5", "12.5"]),
    ];
    for (name, expected) in rows {
        assert_eq!(values(&text, name), expected, "{text}");
    }
    let (_, pods) = text.split_once("\nPLACED DIFFERENTLY: 1\n").unwrap();
    let nodes = values(pods, "x/q");
    assert!(nodes == ["a", "b"] || nodes == ["b", "a"], "{text}");
}

#[test]
fn comparison_as_json_has_counts_and_differing_pods() {
    let files = both("json");
    let answer = compare(&files, &["-o", "json"]).json();
    for (place, empty) in [(0, 0), (1, 1)] {
        let compared = &answer["configurations"][place];
        assert_eq!(compared["configuration"], files[place]);
        let numbers = ["placed", "left"].map(|key| compared["summary"][key].as_u64());
        assert_eq!(numbers, [2, 0].map(Some));
        assert_eq!(compared["utilisation"], json!({"cpu": 25.0, "memory": 12.5, "pods": 10.0}));
        assert_eq!(compared["emptyNodes"], empty);
    }
    let differing = answer["differing"].as_array().unwrap();
    assert_eq!(differing.len(), 1, "{answer:#}");
    assert_eq!(differing[0]["pod"], "x/q");
    let nodes = &differing[0]["nodes"];
    assert!(*nodes == json!(["a", "b"]) || *nodes == json!(["b", "a"]), "{nodes}");
}

#[test]
fn pod_left_pending_by_one_configuration_has_no_node_there() {
    let [default, _] = both("left");
    let limited = "profiles: [{schedulerName: other, pluginConfig: [{name: NodeAffinity, args: \
                   {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
                   {nodeSelectorTerms: [{matchExpressions: [{key: x, operator: Exists}]}]}}}}]}]\n";
    let files = [default, configuration("left-limited.yaml", limited)];
    let answer = compare(&files, &["-o", "json"]).json();
    assert_eq!(answer["configurations"][1]["summary"]["left"], 2);
    assert_eq!(answer["differing"].as_array().unwrap().len(), 2);
    assert_eq!(answer["differing"][0]["nodes"][1], Value::Null);
    assert_eq!(values(&compare(&files, &[]).text(), "x/p")[1], "pending");
}

#[test]
fn equal_configurations_place_equally() {
    let [default, _] = both("equal");
    let files = [default.clone(), default];
    let text = compare(&files, &[]).text();
    assert!(text.ends_with("\nEvery pod gets the same node.\n"), "{text}");
    assert_eq!(compare(&files, &["-o", "json"]).json()["differing"], json!([]));
}

#[test]
fn single_configuration_is_compared_with_the_defaults() {
    let [default, packing] = both("one");
    let answer = simulate("default-scheduler", &["--compare", &packing, "-o", "json"]).json();
    let names = [0, 1].map(|place| answer["configurations"][place]["configuration"].clone());
    assert_eq!(names, ["defaults".into(), json!(packing)]);
    assert_eq!(answer["differing"].as_array().unwrap().len(), 1);
    let config = ["--compare", &default, "--compare", &packing, "--config", &default];
    simulate("any", &config).refused(2);
}

#[test]
fn comparison_has_the_distribution_over_nodes() {
    let files = both("nodes");
    let answer = compare(&files, &["-o", "json"]).json();
    let cpu = [0, 1].map(|place| answer["configurations"][place]["perNode"]["cpu"].clone());
    let even = json!({"least": 25.0, "median": 25.0, "most": 25.0});
    assert_eq!(cpu, [even, json!({"least": 0.0, "median": 25.0, "most": 50.0})]);
    let text = compare(&files, &[]).text();
    let expected = ["25.0/25.0/25.0", "0.0/25.0/50.0"];
    assert_eq!(values(&text, "on a node: least/median/most"), expected, "{text}");
}

#[test]
fn comparison_counts_pending_pods_by_reason() {
    let args = ["simulate", "-f", "nodes.yaml", "-f", "pods.json", "--compare"];
    let [default, _] = both("reasons");
    let answer = loadmaster(&[&args[..], &[&default, "-o", "json"]].concat()).json();
    let expected = json!({"Insufficient memory": 1});
    assert_eq!(answer["configurations"][0]["pendingBy"], expected);
    let text = loadmaster(&[&args[..], &[&default]].concat()).text();
    assert_eq!(values(&text, "pending: Insufficient memory"), ["1", "1"], "{text}");
}

#[test]
fn published_trace_reaches_the_published_allocation_by_device() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/openb");
    if !data.is_dir() {
        println!("skipped: {} is not there", data.display());
        return;
    }
    let file = |name: &str| data.join(name).display().to_string();
    let (nodes, pods) = (file("openb_node_list_all_node.csv"), file("openb_pod_list_default.csv"));
    let trace = ["simulate", "--trace", "openb", "--nodes", &nodes, "--pods", &pods];
    let drive = ["--inflate", "130", "--seeds", "1", "-o", "json"];
    let strategy = ["--gpu-share", "fragmentation-gradient"];
    let answer = loadmaster(&[&trace[..], &drive, &strategy].concat()).json();
    let marks = answer["allocation"].as_array().unwrap();
    let mark = marks.iter().find(|mark| mark["arrivedPercent"] == 100.0).unwrap();
    let gpu = mark["gpu"]["mean"].as_f64();
    assert!(gpu.is_some_and(|gpu| (94.0..=97.0).contains(&gpu)), "{gpu:?}");
    let note = answer["note"].as_str().unwrap();
    assert!(note.starts_with("GPU is accounted for by device: "), "{note}");
}

#[test]
fn compared_configurations_do_not_share_volumes() {
    let [default, packing] = both("volumes");
    let compare = ["--compare", &default, "--compare", &packing];
    let args = [&["simulate", "-f", "volumes.yaml", "-o", "json"][..], &compare].concat();
    let answer = loadmaster(&args).json();
    let runs = answer["configurations"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().all(|run| run["summary"]["placed"] == 3), "{runs:?}");
}
