use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use framework::{COSCHEDULING_POD_GROUPS, EventResource, ExtraFields};
use http::StatusCode;
use serde_json::json;

use super::*;
use crate::api_client::Credentials;
use crate::scheduling_loop::{EventReceiver, channel};

const PATH: &str = "/apis/example.com/v1/racks";

fn racks() -> WatchedKind {
    WatchedKind {
        resource: EventResource::Custom("racks.v1.example.com".into()),
        name: "racks.example.com".into(),
        path: PATH.into(),
        field_selector: None,
        describes_nodes: false,
    }
}

/// Starts a server that answers with these statuses, the last one again and again. Returns its
/// address, and the number of its answers.
async fn server(statuses: &'static [StatusCode]) -> (String, Arc<AtomicUsize>) {
    let answers = Arc::new(AtomicUsize::new(0));
    let count = answers.clone();
    let answer = move || async move {
        let place = count.fetch_add(1, Ordering::Relaxed);
        statuses[place.min(statuses.len() - 1)]
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(
        async move { axum::serve(listener, Router::new().route(PATH, get(answer))).await },
    );
    (address, answers)
}

/// An informer of a server that answers with these statuses.
struct Running {
    status: Arc<ServerStatus>,
    answers: Arc<AtomicUsize>,
    events: EventReceiver,
    _relist: watch::Sender<RelistRequests>,
    _informer: AbortOnDropHandle<Infallible>,
}

/// Runs an informer of the kind. Requests may not fail for any time.
async fn run(kind: WatchedKind, statuses: &'static [StatusCode]) -> Running {
    let (server, answers) = server(statuses).await;
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    let credentials = Credentials::parse(&kubeconfig.to_string()).await.unwrap();
    let metrics = Arc::new(Metrics::new());
    let client = ApiClient::new(&credentials, "scheduler", metrics.rest_client(), Arc::default());
    let status = Arc::new(ServerStatus::with_tolerance(Duration::ZERO));
    let (sender, events) = channel();
    let (relist, relists) = watch::channel(RelistRequests::default());
    let factory = InformerFactory::<Infallible> {
        client: client.unwrap(),
        accept: JSON.into(),
        events: sender,
        clock: Clock::start(),
        metrics,
        status: status.clone(),
        relists,
    };
    let decoder = Decoder::new(kind.resource.clone(), ExtraFields::default());
    let informer = tokio::spawn(factory.informer(kind, decoder, 1).run());
    let informer = AbortOnDropHandle::new(informer);
    Running { status, answers, events, _relist: relist, _informer: informer }
}

impl Running {
    /// Waits until the informer has handled so many answers.
    async fn answered(&self, count: usize) {
        while self.answers.load(Ordering::Relaxed) <= count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn kind_whose_storage_does_not_answer_yet_is_still_unread() {
    let statuses = &[StatusCode::NOT_FOUND, StatusCode::TOO_MANY_REQUESTS];
    let running = run(racks(), statuses).await;
    running.answered(2).await;
    let unread: Vec<Arc<str>> = running.status.unread().into_keys().collect();
    assert_eq!(unread, [Arc::from("racks.example.com")]);
    assert_eq!(running.status.check(), Ok(()), "pods are scheduled without the kind");
}

#[tokio::test]
async fn clusters_without_coscheduling_miss_no_pod_groups() {
    let kind = WatchedKind {
        resource: EventResource::Custom(COSCHEDULING_POD_GROUPS.into()),
        name: "podgroups.scheduling.x-k8s.io".into(),
        ..racks()
    };
    let running = run(kind.clone(), &[StatusCode::NOT_FOUND]).await;
    running.answered(1).await;
    assert!(running.status.unread().is_empty());
    let running = run(kind, &[StatusCode::FORBIDDEN]).await;
    running.answered(1).await;
    assert_eq!(running.status.unread().len(), 1);
}

#[tokio::test]
async fn pods_are_scheduled_although_the_server_fails_to_list_what_describes_nodes() {
    let running = run(WatchedKind { describes_nodes: true, ..racks() }, FAILING).await;
    running.answered(1).await;
    let first = running.events.iter().next();
    assert!(matches!(first, Some(LoopEvent::Synced)), "{first:?}");
    let unread: Vec<Arc<str>> = running.status.unread().into_keys().collect();
    assert_eq!(unread, [Arc::from("racks.example.com")]);
    assert_eq!(running.status.check(), Ok(()));

    let running = run(racks(), FAILING).await;
    running.answered(1).await;
    assert!(running.status.check().is_err(), "others are waited for");
}

const FAILING: &[StatusCode] = &[StatusCode::INTERNAL_SERVER_ERROR];
