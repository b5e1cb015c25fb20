//! A namespace whose admission webhook fails holds up no other namespace. Only the sandbox injects the fault.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};
use sandbox::faults::Settings;

use super::cluster::{node_of, run};
use super::daemon::Daemon;
use super::wait::eventually;

/// More pods than API calls that may wait before the scheduler holds back.
const BAD: usize = 1200;
const GOOD: usize = 100;
/// Nodes for all pods, 110 each.
const NODES: usize = 12;

const FAILURE: &str = "running Bind plugin \"DefaultBinder\": Internal error occurred: failed calling webhook \
                       \"w.example.com\": failed to call webhook: Post \"https://127.0.0.1:9/x?timeout=1s\": dial \
                       tcp 127.0.0.1:9: connect: connection refused";

fn failed(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("SchedulerError")
            && condition.message.as_deref() == Some(FAILURE)
    })
}

async fn count(pods: &Api<Pod>, is_meant: fn(&Pod) -> bool) -> Option<usize> {
    let pods = pods.list(&ListParams::default()).await.ok()?.items;
    Some(pods.iter().filter(|pod| is_meant(pod)).count())
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
        let good = cluster.pods_in_new_namespace("good").await;
        let path = format!("only-path=/namespaces/{}/pods/", cluster.name);
        let faults = ["webhooks-down=1", "only-methods=POST", &path];
        server
            .set_faults(faults.iter().fold(Settings::default(), |all, one| all.with(one).unwrap()));
        let daemon = Daemon::start(cluster).await;
        cluster.create_pods("bad", BAD).await;
        eventually("every bad pod says why it is not bound", async || {
            (count(&cluster.pods, failed).await? == BAD).then_some(())
        })
        .await;
        let pod = cluster.pods.get("bad-0").await.unwrap();
        let event = cluster.events(&pod, "FailedScheduling").await.remove(0);
        assert_eq!(event.note.as_deref(), Some(FAILURE));
        let held = daemon.endpoints.metric("loadmaster_scheduling_held{reason=\"backlog\"}").await;
        assert_ne!(held, Some(1.0), "failing binds are no backlog");

        for number in 0..GOOD {
            let pod = cluster.pod(&format!("good-{number}"), 1);
            good.create(&PostParams::default(), &pod).await.unwrap();
        }
        let bound = |pod: &Pod| node_of(pod).is_some();
        eventually("the pods of the other namespace are bound", async || {
            (count(&good, bound).await? == GOOD).then_some(())
        })
        .await;
        assert_eq!(count(&cluster.pods, bound).await, Some(0), "the webhook is down");

        server.set_faults(Settings::default());
        cluster.bound_pods(BAD).await;
        cluster.assert_bound_once().await;
    });
}
