//! Replies, and what they say about the server.

use axum::Router;
use tokio::net::TcpListener;

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

#[test]
fn pause_is_read_in_seconds() {
    for (value, expected) in [("7", Some(7)), ("0", Some(0)), ("soon", None), ("-1", None)] {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
        assert_eq!(retry_after(&headers), expected.map(Duration::from_secs), "{value}");
    }
    assert_eq!(retry_after(&HeaderMap::new()), None);
}
