//! Extenders: the daemon calls a small HTTP server, whose answers the test gives call by call.

mod guide;
mod preempt;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use super::cluster::{Cluster, chart_rules_with_extenders, run};
use super::daemon::Daemon;

/// A call of the scheduler; while the test holds it without an answer, the extender hangs.
struct Question {
    verb: String,
    args: Value,
    answer: oneshot::Sender<Value>,
}

impl Question {
    fn answer(self, answer: Value) {
        // The scheduler may have closed the connection.
        let _ = self.answer.send(answer);
    }
}

type Questions = mpsc::UnboundedSender<Question>;

/// An extender that passes each call to the test.
struct Extender {
    url: String,
    questions: mpsc::UnboundedReceiver<Question>,
}

async fn put(
    State(questions): State<Questions>,
    Path(verb): Path<String>,
    args: String,
) -> Result<String, StatusCode> {
    let args = serde_json::from_str(&args).map_err(|_| StatusCode::BAD_REQUEST)?;
    let (answer, answered) = oneshot::channel();
    let broken = StatusCode::INTERNAL_SERVER_ERROR;
    questions.send(Question { verb, args, answer }).map_err(|_| broken)?;
    answered.await.map(|answer: Value| answer.to_string()).map_err(|_| broken)
}

impl Extender {
    async fn start() -> Self {
        let (sender, questions) = mpsc::unbounded_channel();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/{verb}", post(put)).with_state(sender);
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { url, questions }
    }

    /// Returns the next call, which must have this verb.
    async fn asked(&mut self, verb: &str) -> Question {
        let question = self.questions.recv().await.unwrap();
        assert_eq!(question.verb, verb, "{}", question.args);
        question
    }

    /// Returns the configuration of a scheduler with this extender and these additional settings.
    async fn scheduler(&self, cluster: &Cluster, settings: Value) -> Daemon {
        cluster.permit(&chart_rules_with_extenders()).await;
        let mut extender = settings;
        extender["urlPrefix"] = json!(self.url);
        Daemon::start_with(cluster, |config| config["extenders"] = json!([extender])).await
    }
}

/// Returns the names of the nodes that were sent as whole objects.
fn names(args: &Value) -> Vec<&str> {
    let items = args["Nodes"]["items"].as_array().unwrap();
    items.iter().map(|node| node["metadata"]["name"].as_str().unwrap()).collect()
}

/// Returns the pod with a request for one `example.com/licence`.
fn with_licence(mut pod: Pod) -> Pod {
    let resources = json!({
        "requests": {"cpu": "1", "example.com/licence": "1"},
        "limits": {"example.com/licence": "1"},
    });
    let spec = pod.spec.as_mut().unwrap();
    spec.containers[0].resources = serde_json::from_value(resources).unwrap();
    pod
}

#[test]
fn extender_filters_scores_and_binds() {
    run(async |cluster| {
        for name in ["a", "b", "c"] {
            cluster.add_node(name, 1).await;
        }
        let [a, b, c] = ["a", "b", "c"].map(|name| cluster.node_name(name));
        let mut extender = Extender::start().await;
        let settings = json!({
            "filterVerb": "filter", "prioritizeVerb": "rate", "weight": 5, "bindVerb": "bind",
        });
        let _daemon = extender.scheduler(cluster, settings).await;
        let mut pod = cluster.pod("web", 1);
        let note = ("example.com/note".to_owned(), "for the extender".to_owned());
        pod.metadata.annotations = Some([note].into());
        let pod = cluster.create_pod(&pod).await;

        let question = extender.asked("filter").await;
        let sent = &question.args["Pod"];
        assert_eq!(sent["metadata"]["annotations"]["example.com/note"], "for the extender");
        assert_eq!(sent["spec"]["containers"][0]["image"], "registry.k8s.io/pause:3.10");
        let mut nodes = names(&question.args);
        nodes.sort_unstable();
        assert_eq!(nodes, [&a, &b, &c]);
        assert_eq!(question.args["Nodes"]["items"][0]["status"]["allocatable"]["cpu"], "1");
        let named = |name: &str| json!({"metadata": {"name": name}});
        let kept = json!({"items": [named(&b), named(&c)]});
        question.answer(json!({"Nodes": kept, "FailedNodes": {&a: "no licence"}}));

        let question = extender.asked("rate").await;
        assert_eq!(names(&question.args).len(), 2);
        question.answer(json!([{"Host": c, "Score": 10}, {"Host": "stranger", "Score": 10}]));

        let question = extender.asked("bind").await;
        let expected = json!({
            "PodName": "web", "PodNamespace": cluster.name, "PodUID": pod.metadata.uid, "Node": c,
        });
        assert_eq!(question.args, expected);
        cluster.bind("web", "c").await;
        question.answer(json!({}));
        assert_eq!(cluster.bound("web").await, c);
        assert_eq!(cluster.events(&pod, "Scheduled").await.len(), 1);
    });
}

#[test]
fn rejections_and_errors_of_an_extender_are_reported_and_retried() {
    run(async |cluster| {
        cluster.add_node("a", 1).await;
        let a = cluster.node_name("a");
        let mut extender = Extender::start().await;
        let settings = json!({
            "filterVerb": "filter", "nodeCacheCapable": true, "httpTimeout": "500ms",
        });
        let daemon = extender.scheduler(cluster, settings).await;
        cluster.create_pod(&cluster.pod("web", 1)).await;

        let hanging = extender.asked("filter").await;
        assert_eq!(hanging.args["NodeNames"], json!([a]));
        let condition = cluster.rejected("web").await;
        assert_eq!(condition.reason.as_deref(), Some("SchedulerError"));
        let url = extender.url.clone();
        let late = format!(
            "Post \"{url}/filter\": context deadline exceeded (Client.Timeout exceeded while \
             awaiting headers)"
        );
        assert_eq!(condition.message, Some(late));
        // A late answer changes nothing.
        hanging.answer(json!({"NodeNames": [a]}));
        cluster.has_condition("web", "has not answered since").await;
        extender.asked("filter").await.answer(json!("I am here"));
        daemon.log.line("Extender answers again").await;

        extender.asked("filter").await.answer(json!({"NodeNames": ["stranger"]}));
        let unknown = format!(
            "extender \"{url}\" claims a filtered node \"stranger\" which is not found in the \
             input node list"
        );
        cluster.has_condition("web", &unknown).await;
        extender.asked("filter").await.answer(json!("what?"));
        cluster.has_condition("web", "cannot decode ExtenderFilterResult").await;
        drop(extender.asked("filter").await);
        cluster.has_condition("web", "failed filter with extender at URL").await;

        let failed = json!({"NodeNames": [], "FailedAndUnresolvableNodes": {&a: "no licence"}});
        extender.asked("filter").await.answer(failed);
        cluster.has_condition("web", "1 no licence").await;
        assert_eq!(cluster.rejected("web").await.reason.as_deref(), Some("Unschedulable"));
        // Any event may help a pod that an extender rejected.
        cluster.add_node("b", 1).await;
        extender.asked("filter").await.answer(json!({"NodeNames": [a]}));
        assert_eq!(cluster.bound("web").await, a);
        assert!(daemon.log.lines("panick").is_empty());
    });
}

#[test]
fn hanging_extender_holds_up_no_other_pod() {
    run(async |cluster| {
        cluster.add_node("a", 100).await;
        let mut extender = Extender::start().await;
        let settings = json!({
            "filterVerb": "filter", "nodeCacheCapable": true, "httpTimeout": "1s",
            "managedResources": [{"name": "example.com/licence", "ignoredByScheduler": true}],
        });
        let daemon = extender.scheduler(cluster, settings).await;
        let licensed: Vec<String> = (0..20).map(|number| format!("licensed-{number}")).collect();
        for name in &licensed {
            cluster.create_pod(&with_licence(cluster.pod(name, 1))).await;
        }
        for number in 0..20 {
            let name = format!("plain-{number}");
            cluster.create_pod(&cluster.pod(&name, 1)).await;
            cluster.bound(&name).await;
        }
        let mut held = Vec::new();
        while let Ok(question) = extender.questions.try_recv() {
            held.push(question);
        }
        assert!(held.len() < 10, "{} calls, one for each pod", held.len());
        daemon.log.line("Extender does not answer and is not called until it does").await;
        cluster.has_condition("licensed-19", "has not answered since").await;
        let condition = cluster.rejected("licensed-19").await;
        assert_eq!(condition.reason.as_deref(), Some("SchedulerError"));

        let a = cluster.node_name("a");
        let mut questions = extender.questions;
        tokio::spawn(async move {
            while let Some(question) = questions.recv().await {
                question.answer(json!({"NodeNames": [a]}));
            }
        });
        for name in &licensed {
            cluster.bound(name).await;
        }
        cluster.assert_bound_once().await;
    });
}

#[test]
fn ignorable_extender_does_not_block_pods() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let mut extender = Extender::start().await;
        let settings = json!({
            "filterVerb": "filter", "bindVerb": "bind", "nodeCacheCapable": true,
            "ignorable": true, "httpTimeout": "200ms",
        });
        let daemon = extender.scheduler(cluster, settings).await;
        cluster.create_pod(&cluster.pod("lying", 1)).await;
        extender.asked("filter").await.answer(json!({"NodeNames": ["stranger"]}));
        extender.asked("bind").await.answer(json!({"Error": "no licence"}));
        assert_eq!(cluster.bound("lying").await, cluster.node_name("a"));
        daemon.log.line("which is not found in the input node list").await;

        cluster.create_pod(&cluster.pod("hanging", 1)).await;
        let _held = [extender.asked("filter").await, extender.asked("bind").await];
        assert_eq!(cluster.bound("hanging").await, cluster.node_name("a"));
        daemon.log.line("Extender does not answer and is not called until it does").await;
        cluster.assert_bound_once().await;
    });
}

#[test]
fn late_answer_to_a_bind_counts_once() {
    run(async |cluster| {
        cluster.add_node("a", 1).await;
        let mut extender = Extender::start().await;
        let settings = json!({"bindVerb": "bind", "httpTimeout": "300ms"});
        let _daemon = extender.scheduler(cluster, settings).await;
        let pod = cluster.create_pod(&cluster.pod("web", 1)).await;
        let late = extender.asked("bind").await;
        // The outcome of the first call is unknown, so the same call is sent again, for the same
        // node.
        let again = extender.asked("bind").await;
        assert_eq!(again.args, late.args);
        cluster.bind("web", "a").await;
        late.answer(json!({}));
        again.answer(json!({"Error": "pod web is already assigned to node a"}));
        assert_eq!(cluster.events(&pod, "Scheduled").await.len(), 1);
        cluster.assert_bound_once().await;
    });
}

#[test]
fn extender_is_called_only_for_its_managed_resources() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let mut extender = Extender::start().await;
        let settings = json!({
            "filterVerb": "filter", "nodeCacheCapable": true,
            "managedResources": [{"name": "example.com/licence", "ignoredByScheduler": true}],
        });
        let _daemon = extender.scheduler(cluster, settings).await;
        cluster.create_pod(&cluster.pod("plain", 1)).await;
        cluster.bound("plain").await;
        cluster.create_pod(&with_licence(cluster.pod("licensed", 1))).await;
        let question = extender.asked("filter").await;
        assert_eq!(question.args["Pod"]["metadata"]["name"], "licensed");
        question.answer(json!({"NodeNames": [cluster.node_name("a")]}));
        cluster.bound("licensed").await;
        assert!(extender.questions.try_recv().is_err());
    });
}
