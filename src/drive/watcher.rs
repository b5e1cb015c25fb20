//! Keeps one kind in step with the API server.

use std::sync::Arc;

use client::session::{Call, Input, Meta, Options, Output, Session, Target};
use framework::Time;
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::api::{retry_after, whole};
use super::{Api, Clock, Inbox, Message};
use crate::metrics::Metrics;
use crate::wire::{Decoder, Update, WatchedKind, refusal};

/// Batches of inputs that may wait for the session; the server waits while there are more.
const WAITING_BATCHES: usize = 4;

/// Drives the session of one kind.
pub struct Watcher {
    api: Api,
    kind: WatchedKind,
    decoder: Decoder,
    inbox: Inbox,
    clock: Clock,
    session: Session<Update>,
    metrics: Arc<Metrics>,
    /// Whether the loop waits for this watch no longer.
    synced: bool,
}

/// What a call has brought so far.
type Inputs = mpsc::Sender<Vec<Input<Update>>>;

impl Watcher {
    /// A watcher that has not begun.
    pub fn new(
        api: Api,
        kind: WatchedKind,
        decoder: Decoder,
        inbox: Inbox,
        clock: Clock,
        metrics: Arc<Metrics>,
        seed: u64,
    ) -> Self {
        let target = Target {
            path: kind.path.to_string(),
            field_selector: kind.field_selector.map(str::to_owned),
        };
        let session = Session::new(target, Options::default(), seed);
        Self { api, kind, decoder, inbox, clock, session, metrics, synced: false }
    }

    /// Watches for ever.
    pub async fn run(mut self) {
        let (sender, mut inputs) = mpsc::channel(WAITING_BATCHES);
        let mut call = None;
        let mut trouble_told = None;
        self.session.start(self.clock.now());
        loop {
            self.perform(&mut call, &sender).await;
            self.tell_trouble(&mut trouble_told);
            self.skip_unknown_kind();
            tokio::select! {
                // Inputs that wait already must not lose against a deadline that passed meanwhile.
                biased;
                batch = inputs.recv() => {
                    let now = self.clock.now();
                    batch.into_iter().flatten().for_each(|input| self.session.step(input, now));
                }
                () = sleep_until(&self.clock, self.session.next_deadline()) => {
                    self.session.tick(self.clock.now());
                }
            }
        }
    }

    /// Does what the session asks for.
    async fn perform(&mut self, call: &mut Option<AbortOnDropHandle<()>>, inputs: &Inputs) {
        let outputs: Vec<Output<Update>> = self.session.outputs().collect();
        let mut changes = Vec::new();
        let mut synced = false;
        for output in outputs {
            match output {
                Output::Open(opened) => *call = Some(self.open(opened, inputs.clone())),
                Output::Close(_) => *call = None,
                Output::Changed(_, update) => changes.push(update),
                Output::Deleted(meta) => changes.push(self.decoder.deletion(meta).into()),
                Output::Skipped { meta, message } => self.tell_skipped(meta.as_ref(), &message),
                Output::Synced => synced = true,
            }
        }
        if !changes.is_empty() {
            self.inbox.changes(changes).await;
        }
        if synced {
            info!(resource = &*self.kind.name, "Caches populated");
            self.tell_synced();
        }
    }

    fn open(&self, call: Call, inputs: Inputs) -> AbortOnDropHandle<()> {
        debug!(resource = &*self.kind.name, path = call.path, "Watching");
        let (api, decoder) = (self.api.clone(), self.decoder.clone());
        AbortOnDropHandle::new(tokio::spawn(async move {
            let last = match call.stream {
                true => stream(&api, &decoder, &call, &inputs).await,
                false => list(&api, &decoder, &call).await,
            };
            let _ = inputs.send(vec![last]).await;
        }))
    }

    fn tell_skipped(&self, meta: Option<&Meta>, message: &str) {
        let object = meta.map(|meta| meta.id.to_string()).unwrap_or_default();
        warn!(resource = &*self.kind.name, object, reason = message, "Skipped an object");
        self.metrics.undecodable(&self.kind.name);
    }

    /// Tells of trouble once, and when it is over.
    fn tell_trouble(&self, told: &mut Option<String>) {
        let trouble = self.session.trouble().map(ToString::to_string);
        if *told == trouble {
            return;
        }
        match &trouble {
            Some(err) => warn!(resource = &*self.kind.name, err, "Failed to watch"),
            None => info!(resource = &*self.kind.name, "Watching again"),
        }
        *told = trouble;
    }

    /// Lets the loop go on without a kind that the server does not know, as an older one. Should it come
    /// to know it, the watch picks it up.
    fn skip_unknown_kind(&mut self) {
        let unknown = self.session.trouble().is_some_and(|trouble| trouble.code == Some(404));
        if unknown && !self.synced && self.kind.is_optional() {
            warn!(resource = &*self.kind.name, "Going on without a kind the server does not know");
            self.tell_synced();
        }
    }

    fn tell_synced(&mut self) {
        if !std::mem::replace(&mut self.synced, true) {
            self.inbox.send(Message::Synced);
        }
    }
}

/// Waits until the deadline; for ever where there is none.
async fn sleep_until(clock: &Clock, deadline: Option<Time>) {
    match deadline {
        Some(deadline) => tokio::time::sleep(clock.until(deadline)).await,
        None => std::future::pending().await,
    }
}

/// Asks for a list, all of it.
async fn list(api: &Api, decoder: &Decoder, call: &Call) -> Input<Update> {
    let answer = async {
        let response = api.get(&call.path).await?;
        let (status, pause) = (response.status(), retry_after(response.headers()));
        let body = whole(response.into_body()).await.map_err(|error| error.to_string())?;
        Ok::<_, String>((status, pause, body))
    };
    let failed = |message| Input::Failed(call.id, message);
    match tokio::time::timeout(call.timeout, answer).await {
        Err(_) => failed(format!("no answer within {:?}", call.timeout)),
        Ok(Err(message)) => failed(message),
        Ok(Ok((StatusCode::OK, _, body))) => match decoder.page(&body) {
            Ok(page) => Input::Page(call.id, page),
            Err(message) => failed(message),
        },
        Ok(Ok((status, pause, body))) => {
            Input::Refused(call.id, refusal(status.as_u16(), pause, &body))
        }
    }
}

/// Reads a watch, and passes on what it says until it ends; gives its end.
async fn stream(api: &Api, decoder: &Decoder, call: &Call, inputs: &Inputs) -> Input<Update> {
    let failed = |message| Input::Failed(call.id, message);
    let response = match tokio::time::timeout(call.timeout, api.get(&call.path)).await {
        Err(_) => return failed(format!("no answer within {:?}", call.timeout)),
        Ok(Err(message)) => return failed(message),
        Ok(Ok(response)) => response,
    };
    if response.status() != StatusCode::OK {
        let (status, pause) = (response.status().as_u16(), retry_after(response.headers()));
        let body = whole(response.into_body()).await.unwrap_or_default();
        return Input::Refused(call.id, refusal(status, pause, &body));
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
                lines.take(&chunk, |line| batch.push(Input::Frame(call.id, decoder.frame(line))));
            }
        }
    }
}

/// Puts lines together from the pieces in which they come.
#[derive(Debug, Default)]
struct Lines {
    /// A line whose end has not come.
    begun: Vec<u8>,
}

impl Lines {
    fn take(&mut self, chunk: &[u8], mut whole: impl FnMut(&[u8])) {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            match self.begun.is_empty() {
                true if end == 0 => {}
                true => whole(&rest[..end]),
                false => {
                    self.begun.extend_from_slice(&rest[..end]);
                    whole(&self.begun);
                    self.begun.clear();
                }
            }
            rest = &rest[end + 1..];
        }
        self.begun.extend_from_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_from_pieces() {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for chunk in ["a", "b\nc", "d\n", "\ne\nf"] {
            lines.take(chunk.as_bytes(), |line| {
                seen.push(String::from_utf8_lossy(line).into_owned());
            });
        }
        assert_eq!(seen, ["ab", "cd", "e"], "an empty line says nothing");
    }
}
