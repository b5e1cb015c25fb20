//! `whatif`: changes of a dump, and their effects.

use serde_json::{Value, json};

use super::{Answer, loadmaster, written};

/// A dump with two nodes, a Deployment, a DaemonSet, a StatefulSet and single pods.
const DUMP: &str = "whatif/dump.yaml";

/// A dump with quotas of two teams.
const TEAMS: &str = "whatif/quotas.yaml";

/// The header of a document with changes.
const HEADER: &str = "apiVersion: whatif.loadmaster.io/v1\nkind: Changes\n";

/// Asks about a change, written to a file of this name.
fn ask(name: &str, change: &str, more: &[&str]) -> Answer {
    let file = written(&format!("whatif-{name}.yaml"), change.as_bytes());
    loadmaster(&[&["whatif", "-f", &file, "--dump", DUMP][..], more].concat())
}

fn answer(name: &str, changes: &str) -> Value {
    ask(name, &format!("{HEADER}{changes}"), &["-o", "json"]).json()
}

/// The names of a list, and one field each.
fn listed(answer: &Value, list: &str, field: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut pods: Vec<_> = answer[list]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| (text(&pod["name"]), text(&pod[field])))
        .collect();
    pods.sort();
    pods
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

#[test]
fn drained_pods_move_and_pods_without_a_controller_are_lost() {
    let answer = answer("drain", "drain: [a]\n");
    assert_eq!(listed(&answer, "moved", "to"), pairs([("db-0", "b"), ("web-1-x", "b")]));
    assert_eq!(
        listed(&answer, "moved", "cause"),
        pairs([("db-0", "drained"), ("web-1-x", "drained")])
    );
    assert_eq!(listed(&answer, "lost", "node"), pairs([("single", "a")]));
    assert_eq!(answer["pending"], json!([]));
    let summary = &answer["summary"];
    assert_eq!(summary["nodes"], json!({"before": 2, "after": 2}));
    assert_eq!(summary["running"], json!({"before": 6, "after": 5}), "the daemons stay");
    assert_eq!(summary["pendingAnyway"], 1, "huge fits nowhere");
    assert_eq!(answer["utilisation"]["after"]["pods"]["requested"], 5);
}

#[test]
fn daemons_go_with_a_removed_node_and_come_with_a_new_one() {
    let text = "removeNodes: [a]\naddNodes: [{like: b, count: 2}]\n";
    let answer = answer("pool", text);
    assert_eq!(answer["summary"]["goneWithNodes"], 1);
    assert_eq!(answer["summary"]["nodes"], json!({"before": 2, "after": 3}));
    let placed = listed(&answer, "placed", "node");
    let nodes: Vec<&str> = placed.iter().map(|(_, node)| node.as_str()).collect();
    assert!(nodes.contains(&"b-new-1") && nodes.contains(&"b-new-2"), "{placed:?}");
    assert!(placed.iter().all(|(name, _)| name.starts_with("agent-")), "{placed:?}");
    let capacity = &answer["utilisation"]["after"]["cpu"]["allocatable"];
    assert_eq!(*capacity, 12);
}

#[test]
fn scaling_down_removes_pods_and_scaling_up_adds_them() {
    let down =
        answer("down", "scale: [{kind: Deployment, namespace: shop, name: web, replicas: 1}]\n");
    assert_eq!(listed(&down, "scaledDown", "node"), pairs([("web-1-y", "b")]), "the newer pod");
    assert_eq!(down["summary"]["running"]["after"], 5);
    let up = answer(
        "up",
        "scale:\n- {kind: Deployment, namespace: shop, name: web, replicas: 3}\n\
         - {kind: StatefulSet, namespace: shop, name: db, replicas: 9}\n",
    );
    let placed = up["placed"].as_array().unwrap();
    assert!(placed.iter().all(|pod| pod["isNew"] == true), "{placed:?}");
    let pending = listed(&up, "pending", "state");
    assert_eq!(placed.len() + pending.len(), 1 + 8, "{up}");
    assert!(!pending.is_empty() && pending.iter().all(|(_, state)| state == "unschedulable"));
    assert!(up["pending"][0]["reason"].as_str().unwrap().contains("Insufficient cpu"));
}

#[test]
fn manifests_are_added_and_replace_objects() {
    let class = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n";
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: urgent}\nspec:\n  priorityClassName: high\n  \
         nodeName: null\n  containers:\n  - {name: c, resources: {requests: {cpu: '3'}}}\n";
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: b}\nstatus: {allocatable: {cpu: '16', memory: 16Gi, pods: '20'}}\n";
    let preempting = ask("preempt", &format!("{class}---\n{pod}"), &["-o", "json"]).json();
    assert_eq!(listed(&preempting, "placed", "node"), pairs([("urgent", "b")]));
    let victims = listed(&preempting, "evicted", "preemptor");
    assert!(!victims.is_empty(), "{preempting}");
    assert!(victims.iter().all(|(_, preemptor)| preemptor == "default/urgent"), "{victims:?}");
    let larger = ask("larger", node, &["-o", "json"]).json();
    assert_eq!(listed(&larger, "placed", "node"), pairs([("huge", "b")]));
    assert_eq!(larger["placed"][0]["isNew"], false);
    let warnings = larger["warnings"].as_array().unwrap();
    assert!(warnings.iter().all(|own| !own.to_string().contains("given twice")), "{warnings:?}");
}

#[test]
fn upgrade_moves_pods_node_by_node_and_says_which_wait() {
    let roomy = answer("upgrade", "upgrade: [{nodes: [a]}, {nodeSelector: {pool: right}}]\n");
    let steps = roomy["upgrade"].as_array().unwrap();
    let nodes: Vec<_> = steps.iter().map(|step| &step["node"]).collect();
    assert_eq!(nodes, ["a", "b"]);
    assert_eq!(roomy["summary"]["waitingForUpgrade"], 0, "{roomy}");
    assert_eq!(roomy["pending"], json!([]), "{roomy}");
    assert_eq!(listed(&roomy, "lost", "cause"), pairs([("single", "upgraded")]));
    let causes = listed(&roomy, "moved", "cause");
    assert!(
        !causes.is_empty() && causes.iter().all(|(_, cause)| cause == "upgraded"),
        "{causes:?}"
    );
    // With three more pods one node is too small for all, until the other is back.
    let scale = "scale: [{kind: Deployment, namespace: shop, name: web, replicas: 5}]\n";
    let tight = answer("tight", &format!("{scale}upgrade: [{{nodes: [b, a]}}]\n"));
    let waiting = tight["upgrade"][0]["waiting"].as_array().unwrap();
    assert!(!waiting.is_empty(), "{tight}");
    assert!(tight["summary"]["waitingForUpgrade"].as_u64().unwrap() >= waiting.len() as u64);
    assert_eq!(tight["pending"], json!([]), "they come back: {tight}");
}

#[test]
fn budget_without_status_counts_as_the_disruption_controller_would_write_it() {
    let budget = |spec: &str| {
        format!(
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: web, namespace: shop}}\n\
             spec: {{{spec}, selector: {{matchLabels: {{app: web}}}}}}\n---\n{HEADER}drain: [a]\n"
        )
    };
    let strict = ask("budget", &budget("minAvailable: 100%"), &["-o", "json"]).json();
    let expected = json!([{"namespace": "shop", "name": "web", "allowed": 0, "leaving": 1}]);
    assert_eq!(strict["budgets"], expected, "a drain with evictions waits for it");
    let loose = ask("budget-loose", &budget("maxUnavailable: 1"), &["-o", "json"]).json();
    assert_eq!(loose["budgets"], json!([]));
    let text = ask("budget-text", &budget("minAvailable: 2"), &[]).text();
    assert!(text.contains("PODDISRUPTIONBUDGETS IN THE WAY"), "{text}");
}

#[test]
fn picture_has_the_nodes_of_both_runs() {
    let path = written("whatif.svg", b"");
    let pool = "addNodes: [{like: a, count: 2, name: large, allocatable: {cpu: '8'}}]\n";
    ask("plot", &format!("{HEADER}{pool}"), &["--plot", &path]).text();
    let svg = std::fs::read_to_string(path).unwrap();
    for text in ["Without the change: 2 nodes", "With the change: 4 nodes", "cordoned"] {
        assert!(svg.contains(text), "{text} is missing in {svg}");
    }
}

#[test]
fn new_taint_moves_pods_that_do_not_tolerate_it() {
    let text = "taint: [{nodeSelector: {pool: left}, taint: 'old=yes:NoExecute'}]\n";
    let evicting = answer("taint", text);
    assert_eq!(
        listed(&evicting, "moved", "cause"),
        pairs([("db-0", "tainted"), ("web-1-x", "tainted")])
    );
    let text = "taint: [{nodes: [a], taint: 'old:NoSchedule'}]\n";
    let quiet = answer("no-schedule", text);
    assert_eq!((&quiet["moved"], &quiet["lost"]), (&json!([]), &json!([])));
}

#[test]
fn labels_and_priorities_change() {
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: picky}\nspec:\n  nodeSelector: {disk: ssd}\n  \
         containers: [{name: c, resources: {requests: {cpu: '3'}}}]\n";
    let text = format!(
        "{HEADER}label: [{{nodes: [b], labels: {{disk: ssd}}}}]\npriority: [{{kind: Pod, name: single, value: 7}}]\n{pod}"
    );
    let labelled = ask("label", &text, &["-o", "json"]).json();
    let [waiting] = labelled["pending"].as_array().unwrap().as_slice() else {
        panic!("{labelled}")
    };
    let reason = waiting["reason"].as_str().unwrap();
    assert!(reason.contains("1 Insufficient cpu") && reason.contains("selector"), "{reason}");
    let text = text.replace("name: single, value: 7", "name: single, value: -7")
        + "---\n"
        + HEADER
        + "priority: [{kind: Deployment, namespace: shop, name: web, value: -9}]\n";
    let lowered = ask("lowered", &text, &["-o", "json"]).json();
    assert_eq!(listed(&lowered, "evicted", "node"), pairs([("web-1-y", "b")]));
    assert_eq!(lowered["evicted"][0]["priority"], -9);
}

#[test]
fn exit_code_says_whether_pods_are_left_without_a_node() {
    let fits = format!("{HEADER}cordon: [a]\n");
    assert_eq!(ask("fits", &fits, &["--fail-if-pending"]).code, Some(0));
    let full = format!(
        "{HEADER}removeNodes: [b]\n---\napiVersion: v1\nkind: Node\nmetadata: {{name: a}}\n\
         status: {{allocatable: {{cpu: '3', memory: 8Gi, pods: '20'}}}}\n"
    );
    let answer = ask("full", &full, &["--fail-if-pending", "-o", "json"]);
    assert_eq!(answer.code, Some(1));
    let found: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(found["pending"][0]["from"], "b");
    assert_eq!(ask("full-table", &full, &[]).code, Some(0));
}

#[test]
fn text_has_a_table_for_each_effect() {
    let text = ask("text", &format!("{HEADER}drain: [a]\n"), &[]).text();
    assert!(text.starts_with("The change moves 2 pods, places 0, leaves 0 pending"), "{text}");
    for title in ["\nMOVED\n", "\nLOST, no controller makes them again\n", "\nUTILISATION"] {
        assert!(text.contains(title), "{text}");
    }
    assert!(!text.contains("\nEVICTED"), "{text}");
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(lines.contains(&"shop web-1-x a b drained".to_owned()), "{text}");
}

#[test]
fn changes_that_cannot_be_made_are_errors_with_file_and_field() {
    let rows = [
        ("drain: [c]", "drain[0]: there is no node \"c\""),
        ("drain: [a]\nremoveNodes: [a]", "drain[0]: node \"a\": drain contradicts removeNodes[0]"),
        ("cordon: [a]\nuncordon: [a]", "uncordon[0]: node \"a\": uncordon contradicts cordon[0]"),
        ("drain: [a, a]", "drain[1]: node \"a\" is named twice, also by drain[0]"),
        ("drian: [a]", "unknown field `drian`"),
        ("scale: [{kind: Deployment, name: web}]", "scale[0]: missing field `replicas`"),
        (
            "scale: [{kind: Deployment, name: web, replicas: 1}]",
            "scale[0].name: there is no Deployment default/web",
        ),
        (
            "scale: [{kind: Deployment, namespace: shop, name: web, replicas: -1}]",
            "scale[0].replicas: Deployment shop/web: -1 is no number of replicas",
        ),
        (
            "scale: [{kind: ReplicaSet, namespace: shop, name: web-1, replicas: 1}]",
            "scale[0].name: ReplicaSet shop/web-1 belongs to Deployment web, which sets its replicas; scale that",
        ),
        (
            "scale: [{kind: DaemonSet, namespace: shop, name: agent, replicas: 1}]",
            "scale[0].kind: \"DaemonSet\" is none of",
        ),
        ("taint: [{nodes: [a], taint: x}]", "taint[0].taint: \"x\": has no effect"),
        (
            "taint: [{nodes: [a], taint: 'x:Never'}]",
            "taint[0].taint: \"x:Never\": effect \"Never\"",
        ),
        ("taint: [{taint: 'x:NoSchedule'}]", "taint[0]: names no node"),
        (
            "taint: [{nodeSelector: {a: b}, taint: 'x:NoSchedule'}]",
            "taint[0].nodeSelector: selects no node",
        ),
        ("untaint: [{nodes: [a], taint: x}]", "untaint[0].taint: node \"a\" has no taint \"x\""),
        (
            "label: [{nodes: [a], labels: {x: y}}, {nodes: [a], labels: {x: z}}]",
            "label[1].labels[x]: node \"a\": contradicts label[0]",
        ),
        ("addNodes: [{like: a, count: 0}]", "addNodes[0].count: is 0"),
        (
            "priority: [{kind: Pod, name: none, value: 1}]",
            "priority[0].name: there is no Pod default/none",
        ),
        ("drain: []", "changes nothing"),
    ];
    for (index, (changes, expected)) in rows.into_iter().enumerate() {
        let name = format!("bad-{index}");
        let error = ask(&name, &format!("{HEADER}{changes}\n"), &[]).refused(1);
        assert!(error.contains(&format!("whatif-{name}.yaml: Changes: ")), "{error}");
        assert!(error.contains(expected), "{changes}: {error}");
    }
}

#[test]
fn misspelt_manifest_of_a_change_is_an_error() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeSelektor: {a: b}, containers: [{name: c}]}\n";
    let error = ask("misspelt", pod, &[]).refused(1);
    assert!(error.contains("Pod p: unknown field \"spec.nodeSelektor\""), "{error}");
    assert_eq!(ask("ignored", pod, &["--validate=ignore"]).code, Some(0));
    let error =
        ask("version", "apiVersion: whatif.loadmaster.io/v2\nkind: Changes\n", &[]).refused(1);
    assert!(error.contains("expected Changes of whatif.loadmaster.io/v1"), "{error}");
    assert!(ask("empty", "", &[]).refused(1).contains("the change has no object"));
}

#[test]
fn another_configuration_is_a_change() {
    let spread = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- \
         schedulerName: default-scheduler\n  plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}\n";
    let file = written("whatif-config.yaml", spread.as_bytes());
    let args = ["whatif", "--dump", DUMP, "--config-after", &file, "-o", "json"];
    let answer = loadmaster(&args).json();
    let placed = listed(&answer, "placed", "name");
    assert_eq!(placed, pairs([("huge", "huge")]), "room does not count");
}

#[test]
fn team_with_a_larger_quota_runs_more_pods() {
    let change = format!("{HEADER}quotas: [{{namespace: team-a, name: quota, by: +10%}}]\n");
    let change = written("whatif-quotas.yaml", change.as_bytes());
    let config = "whatif/teams-config.yaml";
    let args = ["whatif", "-f", &change, "--dump", TEAMS, "--config", config, "-o"];
    let ask = |form: &str| loadmaster(&[&args[..], &[form]].concat());
    let answer = ask("json").json();
    assert_eq!(answer["summary"]["placed"], 1, "{answer}");
    let row = |guaranteed: u32, pending: u32| {
        json!({"quota": "team-a/quota", "resource": "cpu", "guaranteed": guaranteed,
            "used": guaranteed, "pending": pending})
    };
    assert_eq!(answer["quotas"], json!([{"before": row(10, 2), "after": row(11, 1)}]));
    let text = ask("table").text();
    assert!(text.contains("team-a/quota  cpu       10 > 11     10 > 11  2 > 1"), "{text}");
}

#[test]
fn moves_make_room_for_a_pending_pod() {
    let room = |pod: &str, more: &[&str]| {
        let own = ["whatif", "--dump", "whatif/room.yaml", "--make-room-for", pod, "-o", "json"];
        loadmaster(&[&own[..], more].concat()).json()
    };
    let answer = room("ml/train", &[]);
    assert_eq!(answer["outcome"], "plan", "{answer}");
    assert_eq!((&answer["node"], &answer["isCertain"]), (&json!("a"), &json!(true)));
    assert_eq!(listed(&answer, "moves", "from"), pairs([("web-1", "a"), ("web-2", "a")]));
    let mut to: Vec<_> = listed(&answer, "moves", "to").into_iter().map(|(_, to)| to).collect();
    to.sort();
    assert_eq!(to, ["b", "c"]);
    assert_eq!(
        answer["kept"],
        json!({"has no controller": 1, "has local data: emptyDir or hostPath": 1})
    );
    let answer = room("ml/train", &["--most-moves", "1"]);
    assert_eq!((&answer["outcome"], &answer["isCertain"]), (&json!("noPlan"), &json!(true)));
}

#[test]
fn nodes_that_can_be_emptied_are_named_with_their_moves_and_what_keeps_the_others() {
    let ask = ["whatif", "--dump", "whatif/room.yaml", "--empty-nodes", "-o", "json"];
    let answer = loadmaster(&ask).json();
    let [node] = &answer["nodes"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!((&node["name"], &answer["isComplete"]), (&json!("a"), &json!(true)));
    assert_eq!(listed(node, "moves", "from"), pairs([("web-1", "a"), ("web-2", "a")]));
    let reasons = pairs([("b", "is moved there"), ("c", "has local data: emptyDir or hostPath")]);
    assert_eq!(listed(&answer, "staying", "reason"), reasons);
}

#[test]
fn pod_for_which_to_make_room_has_to_wait_in_the_dump() {
    let ask = |pod: &str| {
        loadmaster(&["whatif", "--dump", "whatif/room.yaml", "--make-room-for", pod]).refused(1)
    };
    let expected = "the dump has no such pod without a node";
    assert!(ask("shop/web-1").contains(expected), "{}", ask("shop/web-1"));
    assert!(ask("train").contains("default/train"), "{}", ask("train"));
}

#[test]
fn room_is_made_for_a_whole_pod_group_and_for_the_largest_shapes() {
    let gates = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true";
    let room = |name: &str| {
        let dump = ["whatif", "--dump", "whatif/gang.yaml", gates, "-o", "json"];
        loadmaster(&[&dump[..], &["--make-room-for", name]].concat()).json()
    };
    let answer = room("ml/train");
    assert_eq!(
        (&answer["outcome"], &answer["isGroup"]),
        (&json!("plan"), &json!(true)),
        "{answer}"
    );
    assert_eq!(listed(&answer, "moves", "from"), pairs([("web-1", "c")]), "the cheaper rack");
    assert_eq!(listed(&answer, "members", "node").len(), 2);
    assert_eq!(room("ml/train-0"), answer, "a pod stands for its group");
    let shapes = ["whatif", "--dump", "whatif/room.yaml", "--make-room-for-largest", "2"];
    let text = loadmaster(&shapes).text();
    let row = "1  ml/train  cpu=8     fits after moves  a         2  2.02";
    assert!(text.contains("1 shape of 1 fit") && text.contains(row), "{text}");
}
