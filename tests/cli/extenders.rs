//! `simulate` and `whatif` with `--call-extenders`: an extender of the test's own over loopback.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::{Answer, loadmaster, placements, written};

/// Answers a call with this verb; without an answer the call waits until its time limit.
type Answers = fn(&str, &Value) -> Option<Value>;

#[derive(Clone)]
struct Calls {
    answers: Answers,
    made: Arc<Mutex<Vec<(String, Value)>>>,
}

/// An extender, with the calls that it has got.
struct Extender {
    url: String,
    calls: Calls,
    _runtime: Runtime,
}

async fn call(State(calls): State<Calls>, Path(verb): Path<String>, args: String) -> String {
    let args: Value = serde_json::from_str(&args).unwrap();
    let answer = (calls.answers)(&verb, &args);
    calls.made.lock().unwrap().push((verb, args));
    match answer {
        Some(answer) => answer.to_string(),
        None => std::future::pending().await,
    }
}

impl Extender {
    fn start(answers: Answers) -> Self {
        let runtime = Runtime::new().unwrap();
        let calls = Calls { answers, made: Arc::default() };
        let router = Router::new().route("/{verb}", post(call)).with_state(calls.clone());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { url, calls, _runtime: runtime }
    }

    /// Returns the arguments of the calls with this verb.
    fn calls(&self, verb: &str) -> Vec<Value> {
        let made = self.calls.made.lock().unwrap();
        made.iter().filter(|(own, _)| own == verb).map(|(_, args)| args.clone()).collect()
    }

    /// Writes a file of this test.
    fn written(&self, name: &str, value: &Value) -> String {
        let (_, port) = self.url.rsplit_once(':').unwrap();
        written(&format!("extender-{port}-{name}.json"), value.to_string().as_bytes())
    }

    /// Runs a command on a cluster, under a configuration with this extender.
    fn run(&self, command: &[&str], objects: &[Value], extender: Value) -> Answer {
        let mut extender = extender;
        extender["urlPrefix"] = json!(self.url);
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "extenders": [extender],
        });
        let cluster = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let [cluster, config] =
            [self.written("cluster", &cluster), self.written("config", &config)];
        let cluster = if command[0] == "whatif" { ["--dump", &cluster] } else { ["-f", &cluster] };
        loadmaster(&[command, &cluster, &["--config", &config, "-o", "json"]].concat())
    }
}

fn node(name: &str, cpu: &str) -> Value {
    let metadata = json!({
        "name": name, "labels": {"pool": name}, "annotations": {"example.com/rack": "r1"},
        "managedFields": [{"manager": "kubelet"}],
    });
    let allocatable = json!({"cpu": cpu, "memory": "8Gi", "pods": "10", "example.com/gpu": "4"});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}})
}

fn pod(name: &str, requests: &Value) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": requests}});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container]},
    })
}

fn of_cpu(name: &str, cpu: &str) -> Value {
    pod(name, &json!({"cpu": cpu}))
}

/// Passes the node `b` only.
fn only_b(_: &str, args: &Value) -> Option<Value> {
    let items = args["Nodes"]["items"].as_array().unwrap();
    let is_b = |node: &&Value| node["metadata"]["name"] == "b";
    let (passed, failed): (Vec<_>, Vec<_>) = items.iter().partition(is_b);
    let failed = failed.iter().map(|node| {
        (node["metadata"]["name"].as_str().unwrap().to_owned(), json!("not enough luck"))
    });
    let failed: serde_json::Map<String, Value> = failed.collect();
    Some(json!({"Nodes": {"items": passed}, "FailedNodes": failed}))
}

#[test]
fn extender_filters_whole_nodes_in_a_dry_run() {
    let extender = Extender::start(only_b);
    let objects = [node("a", "4"), node("b", "2"), of_cpu("p", "2"), of_cpu("q", "2")];
    let command = ["simulate", "--call-extenders"];
    let answer = extender.run(&command, &objects, json!({"filterVerb": "filter"})).json();
    assert_eq!(placements(&answer), [("p".to_owned(), "b".to_owned())]);
    let left = &answer["simulation"]["left"][0];
    let expected = "0/2 nodes are available: 1 Insufficient cpu, 1 not enough luck.";
    assert!(left["reason"].as_str().unwrap().starts_with(expected), "{left}");
    let calls = extender.calls("filter");
    let sent = &calls[0]["Nodes"]["items"][0];
    assert_eq!(sent["metadata"]["annotations"]["example.com/rack"], "r1");
    assert!(sent["kind"].is_null() && sent["metadata"]["managedFields"].is_null(), "{sent}");
    assert_eq!(calls[0]["Pod"]["metadata"]["name"], "p");
    assert_eq!(calls[0]["Pod"]["spec"]["priority"], 0, "as the API server stores it");
}

#[test]
fn extender_that_is_not_called_is_named() {
    let extender = Extender::start(|_, _| None);
    let objects = [node("a", "4"), of_cpu("p", "2")];
    let answer = extender.run(&["simulate"], &objects, json!({"filterVerb": "filter"}));
    let note = format!("extenders were not asked: {} (--call-extenders asks them)", extender.url);
    assert!(answer.err.contains(&note), "{}", answer.err);
    let answer = answer.json();
    let warnings = answer["simulation"]["warnings"].as_array().unwrap();
    assert!(warnings.contains(&json!(note)), "{warnings:?}");
    assert_eq!(placements(&answer), [("p".to_owned(), "a".to_owned())]);
    assert!(extender.calls("filter").is_empty());
}

#[test]
fn scores_of_an_extender_decide() {
    let extender = Extender::start(|_, args| {
        let score = |name: &Value| json!({"Host": name, "Score": if name == "a" { 10 } else { 0 }});
        Some(args["NodeNames"].as_array().unwrap().iter().map(score).collect())
    });
    let objects = [node("a", "2"), node("b", "64"), of_cpu("p", "1")];
    let settings = json!({"prioritizeVerb": "score", "weight": 10, "nodeCacheCapable": true});
    let placed =
        |command: &[&str]| placements(&extender.run(command, &objects, settings.clone()).json());
    assert_eq!(placed(&["simulate"]), [("p".to_owned(), "b".to_owned())]);
    assert_eq!(placed(&["simulate", "--call-extenders"]), [("p".to_owned(), "a".to_owned())]);
}

#[test]
fn extender_is_called_for_its_resources_only_and_not_to_bind() {
    let extender = Extender::start(only_b);
    let gpu = pod("gpu", &json!({"cpu": "1", "example.com/gpu": "1"}));
    let objects = [node("a", "4"), node("b", "2"), of_cpu("p", "4"), gpu];
    let settings = json!({
        "filterVerb": "filter", "bindVerb": "bind",
        "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": true}],
    });
    let answer = extender.run(&["simulate", "--call-extenders"], &objects, settings).json();
    let mut placed = placements(&answer);
    placed.sort();
    let expected = [("gpu", "b"), ("p", "a")].map(|(pod, node)| (pod.to_owned(), node.to_owned()));
    assert_eq!(placed, expected);
    assert!(extender.calls("bind").is_empty());
    assert!(extender.calls("filter").iter().all(|args| args["Pod"]["metadata"]["name"] == "gpu"));
    let note = format!("binds were not sent to extenders, and count as done: {}", extender.url);
    assert_eq!(answer["simulation"]["warnings"], json!([note]));
}

#[test]
fn extender_chooses_victims_among_whole_pods() {
    let extender = Extender::start(|_, args| {
        let victims = args["NodeNameToVictims"]["b"].clone();
        let uids = victims["Pods"].as_array().unwrap().iter();
        let uids: Vec<Value> = uids.map(|pod| json!({"UID": pod["metadata"]["uid"]})).collect();
        Some(json!({"NodeNameToMetaVictims": {"b": {"Pods": uids, "NumPDBViolations": 0}}}))
    });
    let running = |name: &str, node: &str| {
        let mut running = of_cpu(name, "2");
        running["spec"]["nodeName"] = json!(node);
        running["metadata"]["annotations"] = json!({"example.com/owner": name});
        running
    };
    let mut urgent = of_cpu("urgent", "2");
    urgent["spec"]["priorityClassName"] = json!("high");
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000,
    });
    let objects =
        [node("a", "2"), node("b", "2"), running("x", "a"), running("y", "b"), class, urgent];
    let command = ["simulate", "--call-extenders"];
    let answer = extender.run(&command, &objects, json!({"preemptVerb": "preempt"})).json();
    assert_eq!(placements(&answer), [("urgent".to_owned(), "b".to_owned())]);
    let call = &extender.calls("preempt")[0];
    assert_eq!(call["Pod"]["spec"]["priority"], 1000);
    let victim = &call["NodeNameToVictims"]["a"]["Pods"][0];
    assert_eq!(victim["metadata"]["annotations"]["example.com/owner"], "x");
    assert_eq!(victim["spec"]["nodeName"], "a");
}

#[test]
fn extender_without_an_answer_is_called_once_in_a_run() {
    let extender = Extender::start(|_, _| None);
    let objects = [node("a", "4"), of_cpu("p", "1"), of_cpu("q", "1")];
    let run = |ignorable: bool| {
        let settings =
            json!({"filterVerb": "filter", "httpTimeout": "300ms", "ignorable": ignorable});
        extender.run(&["simulate", "--call-extenders"], &objects, settings).json()
    };
    let answer = run(false);
    assert!(placements(&answer).is_empty());
    let left = answer["simulation"]["left"].as_array().unwrap();
    assert_eq!(left.len(), 2);
    for pod in left {
        assert_eq!(pod["state"], "failed");
        assert!(pod["reason"].as_str().unwrap().contains("deadline exceeded"), "{pod}");
    }
    assert_eq!(extender.calls("filter").len(), 1);
    let warning = answer["simulation"]["warnings"][0].as_str().unwrap();
    let start = format!("extender {}: 1 of 1 calls failed, the first with: Post ", extender.url);
    assert!(
        warning.starts_with(&start) && warning.ends_with("it was not called again"),
        "{warning}"
    );

    assert_eq!(placements(&run(true)).len(), 2, "it is ignorable");
    assert_eq!(extender.calls("filter").len(), 2, "one more");
}

#[test]
fn what_if_sends_changed_nodes() {
    let extender = Extender::start(|_, args| {
        let items = args["Nodes"]["items"].as_array().unwrap();
        let is_large = |node: &&Value| node["metadata"]["labels"]["size"] == "large";
        let passed: Vec<_> = items.iter().filter(is_large).collect();
        Some(json!({"Nodes": {"items": passed}}))
    });
    let add = json!({"like": "a", "count": 1, "name": "new", "labels": {"size": "large"}, "allocatable": {"cpu": "64"}});
    let changes = json!({
        "apiVersion": "whatif.loadmaster.io/v1", "kind": "Changes", "addNodes": [add], "cordon": ["a"],
    });
    let changes = extender.written("changes", &changes);
    let objects = [node("a", "4"), of_cpu("p", "1")];
    let command = ["whatif", "--call-extenders", "-f", &changes];
    let answer = extender.run(&command, &objects, json!({"filterVerb": "filter"})).json();
    assert_eq!(answer["placed"][0]["node"], "new-1", "{answer}");
    let calls = extender.calls("filter");
    let sent = &calls.last().unwrap()["Nodes"]["items"][0];
    assert_eq!(sent["metadata"]["name"], "new-1");
    assert_eq!(sent["metadata"]["annotations"]["example.com/rack"], "r1", "as the copied node");
    assert_eq!(sent["status"]["allocatable"]["cpu"], "64000m");
}

#[test]
fn running_scheduler_and_traces_call_no_extender_of_a_file() {
    let refused = loadmaster(&[
        "simulate",
        "--trace",
        "openb",
        "--replay",
        "--nodes",
        "n",
        "--pods",
        "p",
        "--call-extenders",
    ]);
    assert!(refused.refused(1).contains("--call-extenders needs objects"));
}
