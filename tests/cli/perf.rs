//! `loadmaster perf`: its own small workloads, against sandboxes that it starts.

use serde_json::Value;

use super::{Answer, loadmaster, written};

const CONFIG: &str = "perf/performance-config.yaml";

fn perf(args: &[&str]) -> Answer {
    loadmaster(&[&["perf", "--config", CONFIG], args].concat())
}

/// Returns the labels and numbers of pods of the only workload.
#[track_caller]
fn measured(report: &Value) -> Vec<(&str, u64)> {
    let [workload] = report["workloads"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!(workload["error"], Value::Null);
    let measurements = workload["measurements"].as_array().unwrap().iter();
    measurements
        .map(|own| (own["label"].as_str().unwrap(), own["pods"].as_u64().unwrap()))
        .collect()
}

#[test]
fn pods_are_created_updated_deleted_and_measured() {
    let report = perf(&["--workload", "Pods/small", "-o", "json"]).json();
    let [first, second, (label, pods)] = *measured(&report) else { panic!("{report}") };
    assert_eq!([first, second], [("large", 2), ("namespace-11", 10)]);
    assert!(label == "steady" && pods > 2, "{report}");
    for own in report["workloads"][0]["measurements"].as_array().unwrap() {
        assert!(own["throughput"]["average"].as_f64().unwrap() > 1.0, "{own}");
        assert!(own["thresholdRatio"].as_f64().unwrap() > 1.0, "{own}");
        assert!(own["peakMib"].as_f64().unwrap() > 1.0, "{own}");
    }
}

#[test]
fn devices_are_published_and_allocated() {
    let report = perf(&["--workload", "Devices", "-o", "json"]).json();
    assert_eq!(measured(&report), [("test", 5)]);
}

#[test]
fn gangs_fill_the_racks() {
    for (workload, pods) in [("Gangs/anywhere", 20), ("Gangs/racks", 24)] {
        let answer = perf(&["--workload", workload, "-o", "json"]);
        assert!(!answer.err.contains("warning"), "no gate is left out: {}", answer.err);
        assert_eq!(measured(&answer.json()), [("gangs", pods)]);
    }
}

#[test]
fn each_workload_is_a_line_of_the_table() {
    let table =
        perf(&["--label", "short", "--workload", "Volumes", "--workload", "Devices"]).text();
    let lines: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    let [header, devices, volumes] = lines.as_slice() else { panic!("{table}") };
    assert_eq!(header[..3], ["WORKLOAD", "MEASURED", "PODS"]);
    assert_eq!(devices[..3], ["Devices/small", "test", "5"]);
    assert_eq!(volumes[..3], ["Volumes/small", "namespace-1", "10"]);
}

#[test]
fn comparison_of_schedulers_measures_plain_and_mixed_pods_and_gangs() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/perf/performance-config.yaml");
    let cases = [
        ("PlainPods/10Nodes", ("namespace-2", 20)),
        ("MixedPods/10Nodes", ("mixed", 60)),
        ("Gangs/10Nodes", ("gangs", 10)),
        ("RackGangs/5Racks", ("gangs", 16)),
    ];
    for (case, expected) in cases {
        let args = ["--config", config, "--workload", case, "-o", "json"];
        let report = loadmaster(&[&["perf"], &args[..]].concat()).json();
        assert_eq!(measured(&report), [expected]);
    }
}

#[test]
fn missed_threshold_is_a_failure() {
    let answer = perf(&["--workload", "out-of-reach"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.out.contains("Pods/out-of-reach"), "{}", answer.out);
    let last = answer.err.lines().last().unwrap();
    assert!(last.starts_with("error: Pods/out-of-reach: "), "{last}");
    assert!(last.ends_with("pods/s miss the threshold of 1000000 pods/s"), "{last}");
}

#[test]
fn other_schedulers_are_commands_of_the_shell() {
    let own = env!("CARGO_BIN_EXE_loadmaster");
    let command =
        format!("'{own}' run --config={{config}} --secure-port=0 --feature-gates={{featureGates}}");
    let args = ["--workload", "Volumes", "--scheduler", &command, "-o", "json"];
    assert_eq!(measured(&perf(&args).json()), [("namespace-1", 10)]);
}

#[test]
fn end_of_the_scheduler_is_a_failure() {
    let answer = perf(&["--workload", "Volumes", "--scheduler", "echo no such plugin >&2; false"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.out.contains("failed"), "{}", answer.out);
    assert!(answer.err.contains("error: Volumes/small: "), "{}", answer.err);
    let last = answer.err.lines().last().unwrap();
    assert!(last.ends_with("no such plugin"), "{}", answer.err);
}

#[test]
fn bad_files_name_the_place() {
    let rows = [
        ("[]", "no workload has these names and labels; there are "),
        ("- name: T\n  colour: red", "unknown field `colour`"),
        (
            "- name: T\n  workloadTemplate: [{ opcode: fly }]\n  workloads: [{ name: w }]",
            "T/w: operation 0 (fly): unknown variant `fly`",
        ),
        (
            "- name: T\n  workloadTemplate: [{ opcode: createNodes, count: 1, nodeTemplatePath: none.yaml }]\n  workloads: [{ name: w }]",
            "none.yaml: cannot read the template",
        ),
    ];
    for (number, (text, expected)) in rows.into_iter().enumerate() {
        let path = written(&format!("performance-config-{number}.yaml"), text.as_bytes());
        let error = loadmaster(&["perf", "--config", &path]).refused(1);
        assert!(error.starts_with("error: ") && error.contains(expected), "{error}");
    }
}
