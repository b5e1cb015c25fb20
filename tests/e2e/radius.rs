//! A namespace whose admission webhook fails holds up no other namespace. Only the sandbox injects
//! the fault.

use sandbox::faults::Settings;
use sandbox::http::Server;
use sandbox::resources::PODS;
use serde_json::Value;

use super::cluster::{Cluster, run};
use super::daemon::Daemon;
use super::wait::eventually;

/// More pods than API calls that may wait before the scheduler holds back.
const BAD: usize = 1100;
const GOOD: usize = 100;
/// Nodes for all pods, 110 each.
const NODES: usize = 11;

const FAILURE: &str = "running Bind plugin \"DefaultBinder\": Internal error occurred: failed calling webhook \
                       \"w.example.com\": failed to call webhook: Post \"https://127.0.0.1:9/x?timeout=1s\": dial \
                       tcp 127.0.0.1:9: connect: connection refused";

/// The pods of a namespace, in the store of the API server: they are many, and counted often.
struct Pods<'a> {
    server: &'a Server,
    namespace: String,
}

impl Pods<'_> {
    /// Creates pods `<prefix>-0` and so on, all at once.
    fn create(&self, cluster: &Cluster, prefix: &str, count: usize) {
        self.server.with_store(|store, now| {
            for number in 0..count {
                let pod = cluster.pod(&format!("{prefix}-{number}"), 1);
                let mut pod = serde_json::to_value(pod).unwrap();
                pod["metadata"]["namespace"] = self.namespace.as_str().into();
                store.create(PODS, pod, now).unwrap();
            }
        });
    }

    fn count(&self, is_meant: fn(&Value) -> bool) -> usize {
        let is_own = |pod: &Value| pod["metadata"]["namespace"] == *self.namespace;
        self.server.with_store(|store, _| {
            store.objects(PODS).filter(|pod| is_own(pod) && is_meant(pod)).count()
        })
    }

    async fn all(&self, what: &str, count: usize, is_meant: fn(&Value) -> bool) {
        eventually(what, async || (self.count(is_meant) == count).then_some(())).await;
    }
}

fn is_bound(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string()
}

fn has_failed(pod: &Value) -> bool {
    pod["status"]["conditions"].as_array().into_iter().flatten().any(|condition| {
        condition["type"] == "PodScheduled"
            && condition["status"] == "False"
            && condition["reason"] == "SchedulerError"
            && condition["message"] == FAILURE
    })
}

#[test]
fn namespace_whose_webhook_is_down_holds_up_no_other() {
    run(async |cluster| {
        let Some(server) = cluster.sandbox() else {
            return eprintln!("skipped: only the sandbox injects faults");
        };
        for node in 0..NODES {
            cluster.add_node(&format!("n{node}"), 200).await;
        }
        // The namespace of the test is the bad one.
        cluster.pods_in_new_namespace("good").await;
        let bad = Pods { server, namespace: cluster.name.clone() };
        let good = Pods { server, namespace: format!("{}-good", cluster.name) };
        let path = format!("only-path=/namespaces/{}/pods/", cluster.name);
        let faults = ["webhooks-down=1", "only-methods=POST", &path];
        server
            .set_faults(faults.iter().fold(Settings::default(), |all, one| all.with(one).unwrap()));
        let daemon = Daemon::start(cluster).await;
        bad.create(cluster, "bad", BAD);
        bad.all("every bad pod says why it is not bound", BAD, has_failed).await;
        let pod = cluster.pods.get("bad-0").await.unwrap();
        let events = cluster.events(&pod, "FailedScheduling").await;
        let notes: Vec<_> = events.iter().map(|event| event.note.as_deref()).collect();
        assert_eq!(notes, [Some(FAILURE)], "one event counts all attempts");
        let metric = async |series: &str| daemon.endpoints.metric(series).await;
        let held = metric("loadmaster_scheduling_held{reason=\"backlog\"}").await;
        assert_ne!(held, Some(1.0), "failing binds are no backlog");
        let errors =
            format!("loadmaster_binding_errors_total{{pod_namespace=\"{}\"}}", cluster.name);
        assert!(metric(&errors).await >= Some(1100.0), "one for each bad pod");
        let lines = daemon.log.lines("binding failed").len();
        assert!((1..BAD / 2).contains(&lines), "{lines} lines for {BAD} pods");

        good.create(cluster, "good", GOOD);
        good.all("the pods of the other namespace are bound", GOOD, is_bound).await;
        assert_eq!(bad.count(is_bound), 0, "the webhook is down");

        server.set_faults(Settings::default());
        bad.all("the bad pods are bound when the webhook is up", BAD, is_bound).await;
        cluster.assert_bound_once().await;
    });
}
