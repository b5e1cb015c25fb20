//! `/metrics/resources`: requests and limits of all pods.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::stream;

use super::App;
use crate::metrics::{self, PodResources};

/// Streams the metrics of a snapshot of the cache. There are none until the watches have
/// synced, and none on a standby.
pub(super) async fn show(State(app): State<App>) -> Response {
    let snapshot = match &app.events {
        Some(events) if app.health.is_synced() => events.snapshot().await,
        _ => None,
    };
    let pods = snapshot.filter(|snapshot| snapshot.leads).map(|snapshot| {
        tokio::task::spawn_blocking(move || PodResources::new(snapshot.pods().cloned()))
    });
    let body = match pods {
        // Sorting cannot panic, and the task is not cancelled.
        Some(pods) => pods.await.map_or_else(|_| Body::empty(), in_chunks),
        None => Body::empty(),
    };
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], body).into_response()
}

fn in_chunks(resources: PodResources) -> Body {
    Body::from_stream(stream::unfold(resources, async |mut resources| {
        let chunk = resources.next()?;
        // Other requests and watches share the thread.
        tokio::task::yield_now().await;
        Some((Ok::<_, Infallible>(Bytes::from(chunk)), resources))
    }))
}
