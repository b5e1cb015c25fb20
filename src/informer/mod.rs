//! Informers: each watches one kind and sends its changes to the scheduling loop.
//!
//! An informer drives a [`Reflector`]: it opens the list and watch calls, decodes the responses and
//! forwards the reported changes.

mod calls;

use std::convert::Infallible;
use std::sync::Arc;

use control::reflector::{
    Call, Input, ListWatch, ObjectMeta, Options, Output, Reflector, WatchError,
};
use control::scheduler::Relist;
use framework::Time;
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use self::calls::{Caller, Inputs};
use crate::api_client::{ApiClient, JSON, ServerStatus};
use crate::clock::Clock;
use crate::metrics::{Metrics, WatchMetrics};
use crate::scheduling_loop::{EventSender, LoopEvent, RelistRequests};
use crate::supervision::catch_panic;
use crate::wire::{Decoder, Update, WatchedKind};

/// Number of batches of inputs that may wait for the reflector. The connection is not read while
/// more are waiting.
const MAX_WAITING_BATCHES: usize = 4;

/// Number of objects of a first list after which the log reports the progress.
const LOGGED_OBJECTS: usize = 100_000;

/// The parts that all informers share. The loop has events `M` of its own.
pub struct InformerFactory<M = Infallible> {
    /// Client for lists and watches.
    pub client: ApiClient,
    /// The media types to ask for, for kinds that are also read in protobuf.
    pub accept: Arc<str>,
    /// Channel to the scheduling loop.
    pub events: EventSender<M>,
    /// Clock of the daemon.
    pub clock: Clock,
    /// Metrics, which count undecodable objects.
    pub metrics: Arc<Metrics>,
    /// Receives the failures of watches.
    pub status: Arc<ServerStatus>,
    /// Requests of the scheduling loop to list again.
    pub relists: watch::Receiver<RelistRequests>,
}

impl<M> Clone for InformerFactory<M> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            accept: self.accept.clone(),
            events: self.events.clone(),
            clock: self.clock,
            metrics: self.metrics.clone(),
            status: self.status.clone(),
            relists: self.relists.clone(),
        }
    }
}

impl<M> InformerFactory<M> {
    /// Creates the informer of a kind. The seed determines the jitter of its delays and timeouts.
    pub fn informer(&self, kind: WatchedKind, decoder: Decoder, seed: u64) -> Informer<M> {
        let list_watch = ListWatch {
            path: kind.path.to_string(),
            field_selector: kind.field_selector.clone().map(Into::into),
        };
        // A process that starts relies on the first list of pods to show every bind before it.
        let starts_with_latest = relist_of(&kind) == Relist::Pods;
        let options = Options { starts_with_latest, ..Options::default() };
        let reflector = Reflector::new(list_watch, options, seed);
        let metrics = self.metrics.watch(&kind);
        let accept = if decoder.reads_protobuf() { self.accept.clone() } else { JSON.into() };
        let client = self.client.clone();
        Informer {
            shared: self.clone(),
            kind,
            caller: Caller { client, decoder, accept },
            reflector,
            metrics,
            counted_failures: 0,
            logged_error: None,
            has_synced: false,
            relists: 0,
            is_relisting: false,
            logged_objects: 0,
            is_unread: false,
            worked_without: false,
        }
    }
}

/// An informer of one kind.
pub struct Informer<M = Infallible> {
    shared: InformerFactory<M>,
    kind: WatchedKind,
    caller: Caller,
    reflector: Reflector<Update>,
    metrics: WatchMetrics,
    /// Number of failures that were counted.
    counted_failures: u64,
    /// The last watch error in the log, until the watch recovers.
    logged_error: Option<String>,
    /// Whether the scheduling loop was notified that this informer has synced.
    has_synced: bool,
    /// Number of requests to list again that were handled.
    relists: u64,
    /// Whether a requested list has not ended.
    is_relisting: bool,
    /// Number of objects of the first list that the log has reported.
    logged_objects: usize,
    /// Whether the kind was last reported as one that is not read.
    is_unread: bool,
    /// Whether the scheduler worked without the kind when its last error was reported.
    worked_without: bool,
}

/// Logs and counts a version of an object that cannot be decoded.
pub(crate) fn report_undecodable(
    metrics: &Metrics,
    resource: &str,
    meta: Option<&ObjectMeta>,
    reason: &str,
) {
    let object = meta.map(|meta| meta.key.to_string()).unwrap_or_default();
    let version = meta.map_or("", |meta| &*meta.resource_version);
    warn!(
        resource,
        object,
        resourceVersion = version,
        reason,
        "Skipped a version of an object; the last readable version stays"
    );
    metrics.undecodable(resource);
}

impl<M> Informer<M> {
    /// Lists and watches without end.
    pub async fn run(mut self) -> Infallible {
        let (sender, mut inputs) = mpsc::channel(MAX_WAITING_BATCHES);
        let mut call = None;
        let clock = self.shared.clock;
        self.reflector.start(clock.now());
        loop {
            self.handle_outputs(&mut call, &sender).await;
            self.update_metrics();
            self.log_progress();
            self.log_watch_error();
            self.skip_optional_kind();
            let relists = &mut self.shared.relists;
            tokio::select! {
                // Inputs that have arrived go before a deadline that has passed.
                biased;
                batch = inputs.recv() => {
                    let now = clock.now();
                    for input in batch.into_iter().flatten() {
                        self.count_input(&input);
                        self.reflector.step(input, now);
                    }
                }
                () = sleep_until(&clock, self.reflector.next_deadline()) => {
                    self.reflector.tick(clock.now());
                }
                () = changed(relists) => self.relist_if_requested(clock.now()),
            }
        }
    }

    /// Carries out the outputs of the reflector.
    async fn handle_outputs(&mut self, call: &mut Option<AbortOnDropHandle<()>>, inputs: &Inputs) {
        let outputs: Vec<Output<Update>> = self.reflector.take_outputs().collect();
        let mut updates = Vec::new();
        let (mut has_synced, mut has_relisted) = (false, false);
        for output in outputs {
            match output {
                Output::Open(opened) => *call = Some(self.open(opened, inputs.clone())),
                Output::Close(_) => *call = None,
                Output::Updated(_, update) => updates.push(update),
                Output::Deleted(meta) => updates.push(self.caller.decoder.deletion(meta).into()),
                Output::Undecodable { meta, message } => {
                    let metrics = &self.shared.metrics;
                    report_undecodable(metrics, &self.kind.name, meta.as_ref(), &message);
                }
                Output::Synced => has_synced = true,
                Output::Relisted => has_relisted = true,
            }
        }
        if !updates.is_empty() {
            self.shared.events.send_queued(updates, self.metrics.queue()).await;
        }
        if has_synced {
            info!(resource = &*self.kind.name, "Caches populated");
            self.notify_synced();
        }
        if has_relisted {
            self.notify_relisted();
        }
    }

    fn open(&self, call: Call, inputs: Inputs) -> AbortOnDropHandle<()> {
        debug!(resource = &*self.kind.name, path = call.path, "Listing and watching");
        let caller = self.caller.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            let calling = async {
                match call.is_watch {
                    true => caller.watch(&call, &inputs).await,
                    false => caller.list(&call).await,
                }
            };
            // A call that panics has failed: the reflector repeats it, and the check `api-server`
            // fails.
            let last = catch_panic(calling).await;
            let last = last.unwrap_or_else(|panic| Input::Failed(call.id, panic.to_string()));
            // The informer, which has the receiver, aborts this task when it ends.
            let _ = inputs.send(vec![last]).await;
        }))
    }

    fn count_input(&self, input: &Input<Update>) {
        if matches!(input, Input::Page(..) | Input::Opened(_) | Input::Event(..)) {
            self.metrics.received();
        }
    }

    fn update_metrics(&mut self) {
        self.metrics.set_objects(self.reflector.object_count());
        if let Some(version) = self.reflector.resource_version() {
            self.metrics.set_store_version(version);
        }
        for _ in self.counted_failures..self.reflector.failures() {
            self.metrics.failed();
        }
        self.counted_failures = self.reflector.failures();
    }

    /// Logs how far a long first list has come.
    fn log_progress(&mut self) {
        let objects = self.reflector.object_count();
        if !self.has_synced && objects >= self.logged_objects + LOGGED_OBJECTS {
            info!(resource = &*self.kind.name, objects, "Listing");
            self.logged_objects = objects;
        }
    }

    /// Logs a new watch error once, and the recovery from it.
    fn log_watch_error(&mut self) {
        let error = self.reflector.watch_error().map(ToString::to_string);
        // A kind that was not read may fail otherwise before it is read: its storage, just created,
        // may not answer yet.
        let works_without = self.works_without() || (self.is_unread && error.is_some());
        if self.logged_error == error && self.worked_without == works_without {
            return;
        }
        if self.logged_error != error {
            match &error {
                Some(err) => warn!(resource = &*self.kind.name, err, "Failed to watch"),
                None => info!(resource = &*self.kind.name, "Watch recovered"),
            }
        }
        let failure = error.as_deref().filter(|_| !works_without);
        self.shared.status.watched(&self.kind.name, failure);
        let is_missed = match self.reflector.watch_error().and_then(|error| error.status) {
            Some(404) => self.kind.is_missed_if_absent(),
            _ => self.kind.is_custom(),
        };
        self.report_unread(error.as_deref().filter(|_| works_without && is_missed));
        self.logged_error = error;
        self.worked_without = works_without;
    }

    /// Reports whether a plugin does not get its kind, although pods are scheduled.
    fn report_unread(&mut self, reason: Option<&str>) {
        if reason.is_some() || self.is_unread {
            self.is_unread = reason.is_some();
            self.shared.status.reads(&self.kind.name, reason);
            self.shared.metrics.set_read(&self.kind.name, reason.is_none());
        }
    }

    /// Whether the scheduler works without the kind, which the server does not know, does not
    /// permit to be watched, or has failed to bring for some time.
    fn works_without(&self) -> bool {
        let Some(WatchError { status, since, .. }) = self.reflector.watch_error() else {
            return false;
        };
        match status {
            Some(404) => self.kind.is_optional(),
            Some(403) => self.kind.is_optional_if_forbidden(),
            // These fail for every kind.
            Some(401) | None => false,
            Some(_) => {
                let lasted = self.shared.clock.now().since(*since);
                self.kind.describes_nodes && lasted >= self.shared.status.tolerance()
            }
        }
    }

    /// Reports an optional kind as synced if the scheduler works without it, as with older servers.
    /// The reflector keeps retrying in case that changes.
    fn skip_optional_kind(&mut self) {
        if !self.works_without() {
            return;
        }
        if !self.has_synced {
            let resource = &*self.kind.name;
            match self.reflector.watch_error().and_then(|error| error.status) {
                Some(403) => warn!(
                    resource,
                    "Continuing without a kind that this account may not list and watch; to have \
                     it read, grant both to the account"
                ),
                Some(404) => warn!(resource, "Continuing without a kind the server does not know"),
                _ => warn!(resource, "Continuing without a kind that the server fails to list"),
            }
            self.notify_synced();
        }
        self.notify_relisted();
    }

    /// Lists again if the scheduling loop has asked for its relist.
    fn relist_if_requested(&mut self, now: Time) {
        let relist = relist_of(&self.kind);
        let requests = self.shared.relists.borrow_and_update().of(relist);
        if std::mem::replace(&mut self.relists, requests) != requests {
            self.is_relisting = true;
            self.reflector.relist(now);
        }
    }

    fn notify_relisted(&mut self) {
        if std::mem::take(&mut self.is_relisting) {
            self.shared.events.send(LoopEvent::Relisted(relist_of(&self.kind)));
        }
    }

    fn notify_synced(&mut self) {
        if !std::mem::replace(&mut self.has_synced, true) {
            self.shared.events.send(LoopEvent::Synced);
        }
    }
}

/// Returns the relist that covers a kind.
fn relist_of(kind: &WatchedKind) -> Relist {
    if &*kind.name == "pods" { Relist::Pods } else { Relist::Others }
}

/// Waits for a new request to list again.
async fn changed(relists: &mut watch::Receiver<RelistRequests>) {
    if relists.changed().await.is_err() {
        // The scheduling loop has ended.
        std::future::pending().await
    }
}

/// Sleeps until the deadline, or without end if there is none.
async fn sleep_until(clock: &Clock, deadline: Option<Time>) {
    match deadline {
        Some(deadline) => tokio::time::sleep(clock.until(deadline)).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
