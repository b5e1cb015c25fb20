//! Replies, and what they say about the server.

use std::convert::Infallible;
use std::sync::Mutex;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use futures::{StreamExt, stream};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::*;
use crate::metrics::Metrics;

/// Returns a client of the server at this port of this host, and the status of that server.
async fn client(port: u16) -> (ApiClient, Arc<ServerStatus>) {
    let kubeconfig = format!(
        "{{clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}], users: [], \
         contexts: [{{name: c, context: {{cluster: c}}}}], current-context: c}}"
    );
    let credentials = Credentials::parse(&kubeconfig).await.unwrap();
    let (metrics, status) = (Metrics::new().rest_client(), Arc::<ServerStatus>::default());
    (ApiClient::new(&credentials, "t", metrics, status.clone()).unwrap(), status)
}

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

async fn create(client: &ApiClient) -> Reply {
    client.create("/api/v1/pods", b"{}".to_vec(), Duration::from_secs(5)).await
}

#[tokio::test]
async fn request_is_not_sent_without_a_connection_and_lost_if_the_connection_breaks() {
    let (closed, port) = listener().await;
    drop(closed);
    let (refused, status) = client(port).await;
    assert!(matches!(create(&refused).await, Reply::NotSent(_)));
    assert!(status.requests_fail());
    let (breaking, port) = listener().await;
    tokio::spawn(async move {
        loop {
            let (stream, _) = breaking.accept().await.unwrap();
            stream.readable().await.unwrap();
        }
    });
    let reply = create(&client(port).await.0).await;
    assert!(matches!(reply, Reply::Lost(_)), "{reply:?}");
}

#[tokio::test]
async fn refused_credentials_are_an_outage_and_other_refusals_are_not() {
    for (answer, fails) in [(401, true), (403, false), (500, false), (201, false)] {
        let (listener, port) = listener().await;
        let code = StatusCode::from_u16(answer).unwrap();
        let router = Router::new().fallback(async move || code);
        tokio::spawn(async move { axum::serve(listener, router).await });
        let (client, status) = client(port).await;
        let reply = create(&client).await;
        assert!(matches!(reply, Reply::Answered(own) if own.status == answer));
        assert_eq!(status.requests_fail(), fails, "{answer}");
    }
}

#[tokio::test]
async fn watch_that_the_server_does_not_end_is_given_up() {
    let (listener, port) = listener().await;
    let (asked, query) = oneshot::channel();
    let asked = Arc::new(Mutex::new(Some(asked)));
    let router = Router::new().fallback(async move |request: Request| {
        let asked = asked.lock().unwrap().take();
        asked.unwrap().send(request.uri().query().unwrap().to_owned()).unwrap();
        let event = stream::iter([Ok::<_, Infallible>("{\"type\":\"ADDED\"}\n")]);
        Body::from_stream(event.chain(stream::pending()))
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    let (client, _) = client(port).await;
    let (seen, event) = oneshot::channel();
    let mut seen = Some(seen);
    let take = move |_: &[u8]| seen.take().unwrap().send(()).unwrap();
    let path = "/api/v1/events?fieldSelector=a";
    let watching =
        tokio::spawn(async move { client.watch(path, Duration::from_secs(45), take).await });
    event.await.unwrap();
    assert_eq!(query.await.unwrap(), "fieldSelector=a&timeoutSeconds=45&watch=true");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(49)).await;
    assert!(!watching.is_finished());
    tokio::time::advance(Duration::from_secs(1)).await;
    let failed = watching.await.unwrap().unwrap_err();
    assert_eq!(failed.message, "no response within 50s");
}

#[test]
fn pause_is_read_in_seconds() {
    for (value, expected) in [("7", Some(7)), ("0", Some(0)), ("soon", None), ("-1", None)] {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
        assert_eq!(retry_after(&headers), expected.map(Duration::from_secs), "{value}");
    }
    assert_eq!(retry_after(&HeaderMap::new()), None);
}
