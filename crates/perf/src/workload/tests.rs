//! Tests of the files: small ones of our own, and those of Kubernetes where they are.

use super::*;

/// A file with one test case.
const CASE: &str = "
- name: Case
  labels: [all]
  featureGates: { A: true, B: true }
  defaultPodTemplatePath: pod.yaml
  workloadTemplate:
  - opcode: createNodes
    countParam: $nodes
  - opcode: createPodSets
    count: 2
    namespacePrefix: set
    createPodsOp: { opcode: createPods, countParam: $pods }
  - opcode: createPods
    count: 1
    steadyStateParam: $steady
    durationParam: $duration
    podTemplatePath: ../other.yaml
    collectMetrics: true
  workloads:
  - name: small
    labels: [short]
    featureGates: { B: false }
    threshold: 12
    params: { nodes: 3, pods: 4, steady: true, duration: 1m30s }
  - name: large
    threshold: { topic: 7.5 }
    params: { nodes: 30, pods: 40, steady: false, duration: 0s }
";

fn file(text: &str) -> File {
    File { path: "folder/performance-config.yaml".into(), cases: yaml::decode(text).unwrap() }
}

fn all(text: &str) -> anyhow::Result<Vec<Workload>> {
    file(text).workloads(&Selection::default())
}

#[test]
fn parameters_are_replaced_and_sets_unrolled() {
    let workloads = all(CASE).unwrap();
    let small = &workloads[0];
    assert_eq!(small.name, "Case/small");
    assert_eq!(small.labels, ["all", "short"].map(str::to_owned).into());
    assert_eq!(small.feature_gates, [("A".to_owned(), true), ("B".to_owned(), false)].into());
    assert_eq!((small.threshold, workloads[1].threshold), (Some(12.0), Some(7.5)));
    assert_eq!(small.default_pod_template.as_deref(), Some(Path::new("folder/pod.yaml")));
    let [Operation::CreateNodes(nodes), sets @ .., Operation::CreatePods(last)] =
        small.operations.as_slice()
    else {
        panic!("{:?}", small.operations);
    };
    assert_eq!(nodes.count, 3);
    let sets: Vec<_> = sets
        .iter()
        .map(|set| match set {
            Operation::CreatePods(pods) => (pods.namespace.as_deref(), pods.count),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sets, [(Some("set-0"), 4), (Some("set-1"), 4)]);
    assert!(last.steady_state);
    assert_eq!(last.duration.as_secs(), 90);
    assert_eq!(last.pod_template_path.as_deref(), Some(Path::new("folder/../other.yaml")));
}

#[test]
fn templates_get_the_numbers_of_their_operation() {
    let text = "
- name: Gangs
  workloadTemplate:
  - opcode: createPodGroups
    countParam: $gangs
    namespace: ns
    templatePath: group.yaml
    templateParams: { podsPerGroup: $size, other: 7 }
  - opcode: waitForPodGroups
    countParam: $gangs
    namespace: ns
  - opcode: createPods
    countParam: $gangs
    countMultiplierParam: $size
    podTemplatePath: pod.yaml
    templateParams: { podsPerGroup: $size }
  workloads:
  - name: small
    params: { gangs: 3, size: 4 }
";
    let workloads = all(text).unwrap();
    let [
        Operation::CreatePodGroups(groups),
        Operation::WaitForPodGroups(wait),
        Operation::CreatePods(pods),
    ] = workloads[0].operations.as_slice()
    else {
        panic!("{:?}", workloads[0].operations);
    };
    let number = |name: &str, number| (name.to_owned(), number);
    assert_eq!((groups.count, wait.count, pods.count), (3, 3, 12));
    assert_eq!(groups.template_params, [number("podsPerGroup", 4), number("other", 7)].into());
    assert_eq!(pods.template_params, [number("podsPerGroup", 4)].into());
    let error = all(&text.replace("{ gangs: 3, size: 4 }", "{ gangs: 3 }")).unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.contains("templateParams.podsPerGroup: the workload has no parameter size"),
        "{error}"
    );
}

#[test]
fn workloads_are_selected_by_name_and_label() {
    let names = |names: &[&str], labels: &[&str]| {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let selection = Selection { names: owned(names), labels: owned(labels) };
        let workloads = file(CASE).workloads(&selection)?;
        anyhow::Ok(workloads.into_iter().map(|workload| workload.name).collect::<Vec<_>>())
    };
    let rows: [(&[&str], &[&str], &[&str]); 6] = [
        (&["Case"], &[], &["Case/small", "Case/large"]),
        (&["small"], &[], &["Case/small"]),
        (&["Case/large", "none"], &[], &["Case/large"]),
        (&[], &["short"], &["Case/small"]),
        (&[], &["all", "-short"], &["Case/large"]),
        (&["large"], &["all"], &["Case/large"]),
    ];
    for (wanted, labels, expected) in rows {
        assert_eq!(names(wanted, labels).unwrap(), expected, "{wanted:?} {labels:?}");
    }
    for (wanted, there) in [("x", "Case"), ("Case/x", "Case/small, Case/large")] {
        assert_eq!(
            names(&[wanted], &[]).unwrap_err().to_string(),
            format!(
                "folder/performance-config.yaml: no workload has these names and labels; there are {there}"
            )
        );
    }
}

#[test]
fn errors_name_the_place() {
    let rows = [
        (
            "{ opcode: fly }",
            "operation 0 (fly): unknown variant `fly`, expected one of `createNodes`",
        ),
        ("{ count: 1 }", "operation 0 (without an opcode): missing field `opcode`"),
        (
            "{ opcode: createNodes, countParam: $none }",
            "operation 0 (createNodes): countParam: the workload has no parameter none; add it to \
             its params",
        ),
        (
            "{ opcode: createNodes, countParam: many }",
            "operation 0 (createNodes): countParam: expected the name of a parameter, as $name",
        ),
        ("{ opcode: createNodes }", "operation 0 (createNodes): missing field `count`"),
        (
            "{ opcode: createNodes, count: 1, colour: red }",
            "operation 0 (createNodes): unknown field `colour`, expected one of `count`",
        ),
        (
            "{ opcode: createPods, count: 1, collectMetrics: true, skipWaitToCompletion: true }",
            "operation 0 (createPods): collectMetrics and skipWaitToCompletion cannot both be true",
        ),
        (
            "{ opcode: createPods, count: 1, steadyState: true }",
            "operation 0 (createPods): a steady state needs a duration and a count above 0",
        ),
        (
            "{ opcode: sleep, duration: 10 days ago }",
            "operation 0 (sleep): \"10 days ago\" is not a duration of at most a day",
        ),
        (
            "{ opcode: churn, mode: recreate, templatePaths: [a] }",
            "operation 0 (churn): number has to be above 0 in the mode recreate",
        ),
        ("{ opcode: barrier }", "params.unused: no operation uses this parameter"),
    ];
    for (operation, expected) in rows {
        let text = format!(
            "[{{ name: T, workloadTemplate: [{operation}], workloads: [{{ name: w, params: {{ unused: 1 }} }}] }}]"
        );
        let error = format!("{:#}", all(&text).unwrap_err());
        let expected = format!("folder/performance-config.yaml: T/w: {expected}");
        assert!(error.starts_with(&expected), "{error}\n{expected}");
    }
}

#[test]
fn file_without_cases_is_an_error_with_its_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("performance-config.yaml");
    fs::write(&path, "- name: T\n  colour: red\n").unwrap();
    let error = format!("{:#}", File::read(&path).unwrap_err());
    assert!(error.contains("[0].colour: unknown field `colour`"), "{error}");
    let error = File::read(&folder.path().join("none")).unwrap_err().to_string();
    assert!(error.ends_with("none: cannot read the file"), "{error}");
}

/// The files of Kubernetes, which are not part of the project.
fn folder_of_kubernetes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/scheduler_perf")
}

#[test]
fn files_of_kubernetes_are_understood() {
    let folder = folder_of_kubernetes();
    let files: Vec<_> = glob::glob(&format!("{}/**/performance-config.yaml", folder.display()))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    if files.is_empty() {
        eprintln!("skipped: the files of scheduler_perf are not in {}", folder.display());
        return;
    }
    for path in files {
        let workloads = File::read(&path).unwrap().workloads(&Selection::default()).unwrap();
        for workload in workloads {
            let templates = Templates::read(workload.templates());
            templates.unwrap_or_else(|error| panic!("{}: {error:#}", workload.name));
        }
    }
}

#[test]
fn documented_commands_select_workloads() {
    let folder = folder_of_kubernetes();
    if !folder.exists() {
        eprintln!("skipped: the files of scheduler_perf are not in {}", folder.display());
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = 0;
    for document in ["README.md", "docs/perf.md"] {
        let text = fs::read_to_string(root.join(document)).unwrap();
        for command in text.lines().filter(|line| line.contains("perf --config scheduler_perf/")) {
            let after = |flag: &str| command.split_once(flag)?.1.split_whitespace().next();
            let Some(name) = after("--workload ") else { continue };
            let file = after("--config scheduler_perf/").unwrap();
            let selection = Selection { names: vec![name.to_owned()], ..Selection::default() };
            let workloads = File::read(&folder.join(file)).unwrap().workloads(&selection);
            workloads.unwrap_or_else(|error| panic!("{document}: {error:#}"));
            found += 1;
        }
    }
    assert!(found >= 3, "{found} commands");
}
