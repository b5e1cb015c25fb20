//! List and watch requests, and their responses as inputs of a reflector.

use std::panic::resume_unwind;
use std::sync::Arc;

use bytes::Bytes;
use control::reflector::{Call, Input, WatchEvent};
use framework::protobuf;
use futures::FutureExt;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::mpsc;

use crate::api_client::{
    ApiClient, FrameTooLong, Frames, JSON, Lines, error_chain, no_response, read_body, retry_after,
};
use crate::wire::{Decoder, Update, status_error};

/// The channel for the inputs of a call.
pub(super) type Inputs = mpsc::Sender<Vec<Input<Update>>>;

/// Number of bytes above which a response is decoded beside the connection, which would otherwise
/// wait. Fewer bytes are decoded sooner than another thread is woken.
const DECODED_ELSEWHERE: usize = 16 * 1024;

/// Number of bytes of a watch that are decoded together.
const MAX_BURST: usize = 256 * 1024;

/// What all calls of an informer share.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) client: ApiClient,
    pub(super) decoder: Decoder,
    /// The media types to ask for.
    pub(super) accept: Arc<str>,
}

impl Caller {
    /// Sends a list request. Returns the page or the error.
    pub(super) async fn list(&self, call: &Call) -> Input<Update> {
        let response = async {
            let response = self.get(&call.path).await?;
            let (status, retry_after) = (response.status(), retry_after(response.headers()));
            let body = read_body(response.into_body()).await.map_err(|error| error.to_string())?;
            Ok::<_, String>((status, retry_after, body))
        };
        let failed = |message| Input::Failed(call.id, message);
        match tokio::time::timeout(call.timeout, response).await {
            Err(_) => failed(no_response(call.timeout)),
            Ok(Err(message)) => failed(message),
            Ok(Ok((StatusCode::OK, _, body))) => {
                let (decoder, length) = (self.decoder.clone(), body.len());
                match decoded(length, move || decoder.page(&body)).await {
                    Ok(page) => Input::Page(call.id, page),
                    Err(message) => failed(message),
                }
            }
            Ok(Ok((status, retry_after, body))) => {
                Input::Error(call.id, status_error(status.as_u16(), retry_after, &body))
            }
        }
    }

    /// Sends a watch request and passes its events to `inputs` until the watch ends. Returns the
    /// last input.
    pub(super) async fn watch(&self, call: &Call, inputs: &Inputs) -> Input<Update> {
        let failed = |message| Input::Failed(call.id, message);
        let response = match tokio::time::timeout(call.timeout, self.get(&call.path)).await {
            Err(_) => return failed(no_response(call.timeout)),
            Ok(Err(message)) => return failed(message),
            Ok(Ok(response)) => response,
        };
        if response.status() != StatusCode::OK {
            let (status, pause) = (response.status().as_u16(), retry_after(response.headers()));
            let body = read_body(response.into_body()).await.unwrap_or_default();
            return Input::Error(call.id, status_error(status, pause, &body));
        }
        let mut events = Events::of(response.headers());
        let mut chunks = Chunks { body: response.into_body(), end: None };
        let mut batch = vec![Input::Opened(call.id)];
        loop {
            if !batch.is_empty() && inputs.send(std::mem::take(&mut batch)).await.is_err() {
                return Input::Closed(call.id);
            }
            let burst = chunks.next().await;
            if burst.is_empty() {
                return match chunks.end {
                    Some(Err(message)) => failed(message),
                    _ => Input::Closed(call.id),
                };
            }
            let (decoder, id, length) = (self.decoder.clone(), call.id, length(&burst));
            let decoding = move || {
                let mut batch = Vec::new();
                let mut take = |event| batch.push(Input::Event(id, event));
                let mut push = |chunk: &Bytes| events.push(chunk, &decoder, &mut take);
                let split = burst.iter().try_for_each(&mut push);
                (events, batch, split)
            };
            let split;
            (events, batch, split) = decoded(length, decoding).await;
            if let Err(error) = split {
                return failed(error.to_string());
            }
        }
    }

    /// Sends a GET request. A server that answers in none of the encodings is asked for JSON.
    async fn get(&self, path: &str) -> Result<Response<Incoming>, String> {
        let response = self.client.get_as(path, &self.accept).await?;
        if &*self.accept == JSON || is_readable(&response) {
            return Ok(response);
        }
        drop(response);
        self.client.get_as(path, JSON).await
    }
}

/// Whether the server has answered in an encoding that [`Events`] and [`Decoder`] read, or with an
/// error of another kind.
fn is_readable(response: &Response<Incoming>) -> bool {
    match response.status() {
        StatusCode::NOT_ACCEPTABLE | StatusCode::UNSUPPORTED_MEDIA_TYPE => false,
        StatusCode::OK => media_type(response.headers())
            .is_none_or(|own| [JSON, protobuf::MEDIA_TYPE].contains(&own)),
        _ => true,
    }
}

/// Returns the media type of a response, without parameters.
fn media_type(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(text.split(';').next().unwrap_or_default().trim())
}

/// Decodes a response of this length, on another thread if it is long.
async fn decoded<T: Send + 'static>(
    length: usize,
    decode: impl FnOnce() -> T + Send + 'static,
) -> T {
    if length < DECODED_ELSEWHERE {
        return decode();
    }
    match tokio::task::spawn_blocking(decode).await.map_err(tokio::task::JoinError::try_into_panic)
    {
        Ok(decoded) => decoded,
        Err(Ok(panic)) => resume_unwind(panic),
        // The process ends.
        Err(Err(_)) => std::future::pending().await,
    }
}

/// The events of a watch, in the encoding of the response.
enum Events {
    Json(Lines),
    Protobuf(Frames),
}

impl Events {
    fn of(headers: &HeaderMap) -> Self {
        match media_type(headers) {
            Some(protobuf::MEDIA_TYPE) => Self::Protobuf(Frames::default()),
            _ => Self::Json(Lines::default()),
        }
    }

    /// Adds a chunk and passes each complete event to `take`.
    fn push(
        &mut self,
        chunk: &[u8],
        decoder: &Decoder,
        take: &mut impl FnMut(WatchEvent<Update>),
    ) -> Result<(), FrameTooLong> {
        match self {
            Self::Json(lines) => {
                lines.push(chunk, |line| take(decoder.watch_event(line)));
                Ok(())
            }
            Self::Protobuf(frames) => frames.push(chunk, |frame| take(decoder.watch_frame(frame))),
        }
    }
}

/// The body of a watch.
struct Chunks {
    body: Incoming,
    /// Set at the end: why the connection failed, or nothing.
    end: Option<Result<(), String>>,
}

impl Chunks {
    /// Waits for a chunk, and returns it with those that have arrived behind it; none at the end.
    async fn next(&mut self) -> Vec<Bytes> {
        let mut burst = Vec::new();
        while self.end.is_none() && length(&burst) < MAX_BURST {
            let frame = self.body.frame();
            let next = match burst.is_empty() {
                true => Some(frame.await),
                false => frame.now_or_never(),
            };
            match next {
                None => break,
                Some(None) => self.end = Some(Ok(())),
                Some(Some(Err(error))) => self.end = Some(Err(error_chain(&error))),
                Some(Some(Ok(frame))) => burst.extend(frame.into_data().ok()),
            }
        }
        burst
    }
}

fn length(chunks: &[Bytes]) -> usize {
    chunks.iter().map(Bytes::len).sum()
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use framework::{EventResource, ExtraFields};
    use http::header::ACCEPT;
    use serde_json::json;

    use super::*;
    use crate::api_client::{Credentials, ServerStatus};
    use crate::metrics::Metrics;
    use control::reflector::{ListWatch, Options, Output, Reflector};
    use framework::Time;

    const BOTH: &str = "application/vnd.kubernetes.protobuf, */*";

    /// Returns a caller of a server with this answer to a request with this `Accept` header.
    async fn caller(
        answer: impl Fn(&str) -> (StatusCode, &'static str, Vec<u8>) + Clone + Send + Sync + 'static,
    ) -> Caller {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let handler = async move |headers: HeaderMap| {
            let (status, content_type, body) = answer(headers[ACCEPT].to_str().unwrap());
            (status, [(CONTENT_TYPE, content_type)], body)
        };
        let router = Router::new().route("/api/v1/nodes", get(handler));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let kubeconfig = format!(
            "{{clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], users: [], \
             contexts: [{{name: c, context: {{cluster: c}}}}], current-context: c}}"
        );
        let credentials = Credentials::parse(&kubeconfig).await.unwrap();
        let (metrics, status) = (Metrics::new().rest_client(), Arc::<ServerStatus>::default());
        Caller {
            client: ApiClient::new(&credentials, "t", metrics, status).unwrap(),
            decoder: Decoder::new(EventResource::Node, ExtraFields::default()),
            accept: BOTH.into(),
        }
    }

    /// Returns the first call of a reflector.
    fn call(watch_list: bool) -> Call {
        let list_watch = ListWatch { path: "/api/v1/nodes".to_owned(), field_selector: None };
        let options = Options { watch_list, ..Options::default() };
        let mut reflector = Reflector::<Update>::new(list_watch, options, 1);
        reflector.start(Time::ZERO);
        match reflector.take_outputs().next() {
            Some(Output::Open(call)) => call,
            other => panic!("a call is expected, not {other:?}"),
        }
    }

    fn list() -> Vec<u8> {
        let node = json!({"metadata": {"name": "n", "uid": "u", "resourceVersion": "7"}});
        json!({"metadata": {"resourceVersion": "9"}, "items": [node]}).to_string().into_bytes()
    }

    /// A Node `n`, of version 7, in a WatchEvent with its length.
    const FRAME: &[u8] = b"\0\0\0,\x0a\x05ADDED\x12#\x0a!\
        k8s\0\x0a\x0a\x0a\x02v1\x12\x04Node\x12\x0d\x0a\x0b\x0a\x01n\x1a\0*\x01u2\x017\x1a\0";

    #[tokio::test]
    async fn server_without_protobuf_is_asked_for_json() {
        const JSON_ONLY: &[StatusCode] =
            &[StatusCode::NOT_ACCEPTABLE, StatusCode::UNSUPPORTED_MEDIA_TYPE, StatusCode::OK];
        for status in JSON_ONLY {
            let answer = move |accept: &str| match accept {
                JSON => (StatusCode::OK, "application/json", list()),
                _ => (*status, "application/yaml", b"items: []".to_vec()),
            };
            match caller(answer).await.list(&call(false)).await {
                Input::Page(_, page) => assert_eq!(page.items.len(), 1, "{status}"),
                other => panic!("{status}: a page is expected, not {other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn answer_in_json_is_read_as_json() {
        let caller = caller(|_| (StatusCode::OK, "application/json", list())).await;
        assert!(matches!(caller.list(&call(false)).await, Input::Page(..)));
    }

    #[tokio::test]
    async fn error_is_not_requested_twice() {
        let answer = |accept: &str| {
            assert_eq!(accept, BOTH);
            (StatusCode::NOT_FOUND, "text/plain", b"404 page not found".to_vec())
        };
        match caller(answer).await.list(&call(false)).await {
            Input::Error(_, error) => assert_eq!(error.message, "404 page not found"),
            other => panic!("an error is expected, not {other:?}"),
        }
    }

    #[tokio::test]
    async fn long_watch_in_protobuf_is_decoded_in_order() {
        let count = 4 * DECODED_ELSEWHERE / FRAME.len();
        let answer = move |_: &str| {
            let stream = "application/vnd.kubernetes.protobuf;stream=watch";
            (StatusCode::OK, stream, FRAME.repeat(count))
        };
        let (inputs, mut received) = mpsc::channel(1);
        let caller = caller(answer).await;
        let watching = tokio::spawn(async move { caller.watch(&call(true), &inputs).await });
        let mut batches = Vec::new();
        while let Some(batch) = received.recv().await {
            batches.extend(batch);
        }
        assert!(matches!(watching.await.unwrap(), Input::Closed(_)));
        assert!(matches!(batches.remove(0), Input::Opened(_)));
        assert_eq!(batches.len(), count);
        for input in batches {
            let Input::Event(_, WatchEvent::Updated(meta, _)) = input else { panic!("{input:?}") };
            assert_eq!((meta.key.to_string().as_str(), &*meta.resource_version), ("n", "7"));
        }
    }

    #[tokio::test]
    async fn broken_frames_end_the_watch() {
        let answer = |_: &str| {
            let stream = "application/vnd.kubernetes.protobuf;stream=watch";
            (StatusCode::OK, stream, [FRAME, b"{\"type\":"].concat())
        };
        let (inputs, mut received) = mpsc::channel(8);
        match caller(answer).await.watch(&call(true), &inputs).await {
            Input::Failed(_, message) => {
                assert!(message.contains("a frame of the watch"), "{message}")
            }
            other => panic!("a failure is expected, not {other:?}"),
        }
        assert!(matches!(received.recv().await.unwrap()[..], [Input::Opened(_)]));
    }
}
