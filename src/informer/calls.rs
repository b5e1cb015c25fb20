//! List and watch requests, and their responses as inputs of a reflector.

use client::reflector::{Call, Input};
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::sync::mpsc;

use crate::api_client::{ApiClient, Lines, no_response, read_body, retry_after};
use crate::wire::{Decoder, Update, status_error};

/// The channel for the inputs of a call.
pub(super) type Inputs = mpsc::Sender<Vec<Input<Update>>>;

/// Sends a list request. Returns the page or the error.
pub(super) async fn list(client: &ApiClient, decoder: &Decoder, call: &Call) -> Input<Update> {
    let response = async {
        let response = client.get(&call.path).await?;
        let (status, retry_after) = (response.status(), retry_after(response.headers()));
        let body = read_body(response.into_body()).await.map_err(|error| error.to_string())?;
        Ok::<_, String>((status, retry_after, body))
    };
    let failed = |message| Input::Failed(call.id, message);
    match tokio::time::timeout(call.timeout, response).await {
        Err(_) => failed(no_response(call.timeout)),
        Ok(Err(message)) => failed(message),
        Ok(Ok((StatusCode::OK, _, body))) => match decoder.page(&body) {
            Ok(page) => Input::Page(call.id, page),
            Err(message) => failed(message),
        },
        Ok(Ok((status, retry_after, body))) => {
            Input::Error(call.id, status_error(status.as_u16(), retry_after, &body))
        }
    }
}

/// Sends a watch request and passes its events to `inputs` until the watch ends. Returns the last
/// input.
pub(super) async fn watch(
    client: &ApiClient,
    decoder: &Decoder,
    call: &Call,
    inputs: &Inputs,
) -> Input<Update> {
    let failed = |message| Input::Failed(call.id, message);
    let response = match tokio::time::timeout(call.timeout, client.get(&call.path)).await {
        Err(_) => return failed(no_response(call.timeout)),
        Ok(Err(message)) => return failed(message),
        Ok(Ok(response)) => response,
    };
    if response.status() != StatusCode::OK {
        let (status, retry_after) = (response.status().as_u16(), retry_after(response.headers()));
        let body = read_body(response.into_body()).await.unwrap_or_default();
        return Input::Error(call.id, status_error(status, retry_after, &body));
    }
    let mut batch = vec![Input::Opened(call.id)];
    let mut lines = Lines::default();
    let mut body = response.into_body();
    loop {
        if !batch.is_empty() && inputs.send(std::mem::take(&mut batch)).await.is_err() {
            return Input::Closed(call.id);
        }
        match body.frame().await {
            None => return Input::Closed(call.id),
            Some(Err(error)) => return failed(error.to_string()),
            Some(Ok(frame)) => {
                let Ok(chunk) = frame.into_data() else { continue };
                lines.push(&chunk, |line| {
                    batch.push(Input::Event(call.id, decoder.watch_event(line)));
                });
            }
        }
    }
}
