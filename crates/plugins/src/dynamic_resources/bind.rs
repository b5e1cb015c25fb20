//! Writes the allocations and reservations of a pod before it is bound (PreBind).
//!
//! ```text
//!   for each claim:  create (extended resources) ─▶ its turn ─▶ finalizer ─▶ allocation and reservation
//!                          │ conflict: wait for the newer version, then again ▲
//!   then: status of the pod (extended resources) ─▶ claim shown by the watch ─▶ binding conditions
//! ```
//!
//! Pods that share a claim write it one after the other: each write replaces the version that the
//! next one names. kube-scheduler writes at once and repeats what conflicts, up to five times.
//!
//! Every write names the UID of its object. Writes of a status also name its version, so that a
//! request whose answer is lost can be repeated: the API server refuses the second one. The watch
//! then shows whether the first one was carried out. `repeats` says when a write is repeated.
//! Before each repeat there is a pause, which ends early if the watch shows the outcome. An attempt
//! that ends with a write of unknown outcome leaves its claim in doubt; `tracker` has what follows.

mod repeats;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use framework::device::{Allocation, ClaimConsumer, ResourceClaim};
use framework::{
    Answer, EventResource, Handle, ObjectKey, Pod, PreBindInput, PreBindStep, Status, Time, Write,
    api,
};
use serde::Deserialize;
use serde_json::Value;

use self::repeats::Repeats;
pub(super) use self::writes::{API_VERSION, consumer, deallocation, deletion, fence, release};
use super::conditions::{Binding, binding_of};
use super::extended::{self, RequestMapping};
use super::metrics::{Ended, Metrics};
use super::search::can_use;
use super::tracker::{ClaimTracker, is_newer};

/// Maximum number of tries of a write that meets newer versions of its claim, as in kube-scheduler.
const MAX_CONFLICTS: u32 = 5;
/// Longest wait for the watch to show the version that a write conflicts with.
const CONFLICT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time after which a pod looks whether another one still writes its claim, if the watch shows
/// no change of it.
const TURN_CHECK: Duration = Duration::from_millis(100);
/// Longest wait for the watch to show a created claim, as in kube-scheduler.
const SHOWN_TIMEOUT: Duration = Duration::from_mins(2);

const NO_OBJECT: &str = "the answer has no object";

/// The parts of the plugin that PreBind uses.
pub(super) struct Setting<'a> {
    pub(super) tracker: &'a ClaimTracker,
    /// Longest wait for binding conditions; `None` without the gates.
    pub(super) binding_timeout: Option<Duration>,
    pub(super) metrics: &'a Metrics,
}

/// The claims of a pod that is being bound.
#[derive(Debug, Clone)]
pub(super) struct Binder {
    claims: Vec<ClaimWork>,
    /// Which container uses which request of the claim for extended resources.
    mappings: Vec<RequestMapping>,
    stage: Stage,
    /// The requests of the current write.
    repeats: Repeats,
}

/// A claim of a pod that is being bound.
#[derive(Debug, Clone)]
pub(super) struct ClaimWork {
    /// The version that the next write is based on.
    pub(super) claim: Arc<ResourceClaim>,
    /// The allocation that Reserve made, for this pod or for another one of its group; `None` if
    /// the claim was allocated before.
    pub(super) allocation: Option<Arc<Allocation>>,
    /// Whom the claim is reserved for: the pod or its PodGroup.
    pub(super) user: ClaimConsumer,
    /// Whether the claim is for extended resources.
    pub(super) is_extended: bool,
    /// Whether a write that reserves the claim may have been carried out.
    pub(super) in_doubt: bool,
}

#[derive(Debug, Clone)]
enum Stage {
    /// The claim at this index comes next.
    Claim { place: usize, tries: u32 },
    /// The claim at this index is being created under this name.
    Creating { place: usize, name: Arc<str> },
    /// The claim at this index was created; the watch does not show it yet.
    Created { place: usize, name: Arc<str>, refusal: Option<String>, until: Time },
    /// Another pod writes the claim at this index.
    Turn { place: usize, tries: u32 },
    /// The finalizer is being added.
    Finalizer { place: usize, tries: u32 },
    /// Allocation and reservation are being written.
    Reservation { place: usize, tries: u32, write: Box<Write> },
    /// The write met a newer version, which the watch does not show yet.
    Conflict { place: usize, tries: u32, text: String, until: Time },
    /// The status of the pod is being written.
    PodStatus,
    /// The write of the stage `next` failed with `text`, and is repeated at `until`.
    Pause { next: Box<Self>, text: String, until: Time },
    /// The watch does not show the claim for extended resources yet.
    Shown { until: Time },
    /// The devices are not ready.
    Conditions { since: Time },
}

/// The end of a PreBind, or the wait for its next input.
type Step = Result<PreBindStep, String>;

impl Binder {
    pub(super) const fn new(claims: Vec<ClaimWork>, mappings: Vec<RequestMapping>) -> Self {
        let stage = Stage::Claim { place: 0, tries: 0 };
        Self { claims, mappings, stage, repeats: Repeats::none(Time::ZERO) }
    }

    /// Whether a write that reserves the claim at this index has no answer yet.
    pub(super) const fn is_writing(&self, place: usize) -> bool {
        matches!(self.stage, Stage::Reservation { place: written, .. } if written == place)
    }

    /// Returns the claims in their latest versions.
    pub(super) fn claims(&self) -> &[ClaimWork] {
        &self.claims
    }

    /// Advances the binding.
    pub(super) fn step(
        &mut self,
        pod: &Pod,
        node: &str,
        setting: &Setting<'_>,
        handle: &Handle<'_>,
        input: &PreBindInput<'_>,
    ) -> PreBindStep {
        let mut run = Run { binder: self, pod, node, setting, handle };
        let step = match input {
            PreBindInput::Answer(answer) => run.answered(answer),
            PreBindInput::Deadline => run.timed_out(),
            _ => run.advance(),
        };
        step.unwrap_or_else(|text| PreBindStep::Done(Status::error(text)))
    }
}

/// One call of PreBind.
struct Run<'a, 'b> {
    binder: &'a mut Binder,
    pod: &'a Pod,
    node: &'a str,
    setting: &'a Setting<'b>,
    handle: &'a Handle<'b>,
}

impl Run<'_, '_> {
    fn work(&self, place: usize) -> &ClaimWork {
        &self.binder.claims[place]
    }

    fn work_mut(&mut self, place: usize) -> &mut ClaimWork {
        &mut self.binder.claims[place]
    }

    fn go(&mut self, stage: Stage) -> Step {
        self.binder.stage = stage;
        self.advance()
    }

    /// Goes to the stage of a write that has not been sent.
    fn write(&mut self, stage: Stage) -> Step {
        self.binder.repeats = Repeats::none(self.handle.now);
        self.go(stage)
    }

    /// Continues from the current stage.
    fn advance(&mut self) -> Step {
        match self.binder.stage.clone() {
            Stage::Claim { place, tries } => self.begin(place, tries),
            Stage::Creating { place, name, .. } => {
                let claim = &self.work(place).claim;
                Ok(PreBindStep::Write(writes::creation(claim, &name, self.pod)))
            }
            Stage::Created { place, name, until, .. } => self.find_created(place, &name, until),
            Stage::Turn { place, tries } => {
                self.refresh(place);
                self.begin(place, tries)
            }
            Stage::Finalizer { place, .. } => {
                Ok(PreBindStep::Write(writes::finalizer(&self.work(place).claim)))
            }
            Stage::Reservation { write, .. } => Ok(PreBindStep::Write(*write)),
            Stage::Conflict { place, tries, text, until } => {
                self.resolve_conflict(place, tries, text, until)
            }
            Stage::PodStatus => self.write_pod_status(),
            Stage::Pause { next, text, until } => self.pause(*next, text, until),
            Stage::Shown { until } => self.wait_until_shown(until),
            Stage::Conditions { since } => self.check_conditions(since),
        }
    }

    /// Starts with the claim at `place`, or with what follows all claims.
    fn begin(&mut self, place: usize, tries: u32) -> Step {
        let Some(work) = self.binder.claims.get(place) else { return self.after_claims() };
        if tries == 0 {
            if *work.claim.name == *extended::IN_MEMORY {
                let (pod, now) = (self.pod, self.handle.now);
                let name = extended::claim_name(&pod.key, &pod.uid, now);
                return self.write(Stage::Creating { place, name });
            }
            self.refresh(place);
        }
        let work = self.work(place);
        let claim = work.claim.clone();
        let full_name = full_name(&claim);
        let user = &work.user.uid;
        if claim.is_reserved_for(user) && (work.allocation.is_none() || work.is_written()) {
            if self.setting.tracker.lock().releases.concern(&claim, user, self.handle.now) {
                let text = format!("the reservation of claim {full_name} is being removed");
                return self.conflict(place, tries, text);
            }
            return self.written(place, &claim);
        }
        if claim.terminating {
            return Err(format!("claim {full_name} got deleted in the meantime"));
        }
        if work.allocation.is_some() {
            if claim.allocation.is_some() {
                if !work.is_written() {
                    return Err(format!(
                        "claim {full_name} got allocated elsewhere in the meantime"
                    ));
                }
            // Another pod of the group has written the allocation, and it is gone again.
            } else if !self.setting.tracker.lock().has_in_flight(&claim.uid, &self.pod.uid) {
                return Err(format!("claim {full_name} got deallocated elsewhere in the meantime"));
            }
        } else if claim.allocation.is_none() {
            return Err(format!("claim {full_name} got deallocated elsewhere in the meantime"));
        } else if !self.can_use(&claim)? {
            return Err(format!("claim {full_name} got allocated elsewhere in the meantime"));
        }
        self.take_turn(place, tries, &claim)
    }

    /// Writes the claim, unless another pod does.
    fn take_turn(&mut self, place: usize, tries: u32, claim: &ResourceClaim) -> Step {
        let (pod, now) = (&self.pod.uid, self.handle.now);
        if !self.setting.tracker.lock().turns.take(&claim.uid, pod, now) {
            self.binder.stage = Stage::Turn { place, tries };
            return Ok(self.wait(&[key(claim)], now + TURN_CHECK));
        }
        let work = self.work(place);
        let allocation = work.unwritten();
        if allocation.is_some() && !claim.is_protected() {
            return self.write(Stage::Finalizer { place, tries });
        }
        let timestamp = self.setting.binding_timeout.map(|_| self.handle.wall_time());
        let write = writes::reservation(claim, allocation, &work.user, timestamp);
        self.write(Stage::Reservation { place, tries, write: Box::new(write) })
    }

    /// Whether the devices of a claim can be used on the node of the pod. The claim may have been
    /// deallocated since the node was chosen, and allocated for another one.
    fn can_use(&self, claim: &ResourceClaim) -> Result<bool, String> {
        let cluster = self.handle.cluster;
        let Some(node) = cluster.node_named(self.node) else { return Ok(true) };
        can_use(claim, &cluster.node(node)).map_err(|status| status.message())
    }

    /// Takes the latest known version of the claim, if it is still the same claim.
    fn refresh(&mut self, place: usize) -> bool {
        let claim = self.work(place).claim.clone();
        let tracked = self.setting.tracker.lock();
        let latest = tracked.latest(&claim.namespace, &claim.name, self.handle.cluster).cloned();
        drop(tracked);
        match latest {
            Some(latest)
                if latest.uid == claim.uid
                    && is_newer(&latest.resource_version, &claim.resource_version) =>
            {
                self.work_mut(place).claim = latest;
                true
            }
            _ => false,
        }
    }

    /// Handles the answer to a write.
    fn answered(&mut self, answer: &Answer) -> Step {
        let stage = self.binder.stage.clone();
        if let Stage::Finalizer { place, .. } | Stage::Reservation { place, .. } = &stage {
            let claim = &self.work(*place).claim.uid;
            self.setting.tracker.lock().turns.end(claim, &self.pod.uid);
        }
        if let (Stage::Reservation { place, .. }, Answer::Unknown(_)) = (&stage, answer) {
            self.work_mut(*place).in_doubt = true;
        }
        if let Some(until) = self.binder.repeats.after(answer, self.handle.now) {
            let text = self.failed(&stage, answer);
            return self.go(Stage::Pause { next: Box::new(stage), text, until });
        }
        match stage {
            Stage::Creating { place, ref name } => {
                let name = name.clone();
                self.creation_answered(answer, &stage, place, name)
            }
            Stage::Finalizer { place, tries } => {
                self.finalizer_answered(answer, &stage, place, tries)
            }
            Stage::Reservation { place, tries, .. } => {
                self.reservation_answered(answer, &stage, place, tries)
            }
            Stage::PodStatus => match answer {
                Answer::Ok(_) => self.go(Stage::Shown { until: self.handle.now + SHOWN_TIMEOUT }),
                failure => Err(self.failed(&stage, failure)),
            },
            _ => self.advance(),
        }
    }

    /// Returns the text of a write that failed.
    fn failed(&self, stage: &Stage, answer: &Answer) -> String {
        let what = match *stage {
            Stage::Creating { .. } => {
                format!("create claim for extended resources {}/", self.pod.key.namespace)
            }
            Stage::Finalizer { place, .. } => {
                format!("add finalizer to claim {}", full_name(&self.work(place).claim))
            }
            Stage::Reservation { place, .. } => {
                let work = self.work(place);
                let is_new = work.unwritten().is_some();
                let what = if is_new { "allocation and reservation" } else { "reservation" };
                format!("add {what} to claim {}", full_name(&work.claim))
            }
            _ => format!("update pod {} ExtendedResourceClaimStatus", self.pod.key),
        };
        format!("{what}: {}", answer.failure().unwrap_or(NO_OBJECT))
    }

    /// Waits before a write is repeated, unless the outcome is known by then.
    fn pause(&mut self, next: Stage, text: String, until: Time) -> Step {
        let claim = match next {
            Stage::Creating { place, ref name } => match self.shown_as_created(name) {
                Some(claim) => return self.created(place, claim),
                None => (self.pod.key.namespace.clone(), name.clone()),
            },
            Stage::Finalizer { place, tries } | Stage::Reservation { place, tries, .. } => {
                if self.refresh(place) {
                    return self.begin_again(place, tries, text);
                }
                key(&self.work(place).claim)
            }
            _ => match self.extended() {
                Some(work) => key(&work.claim),
                None => return Err(text),
            },
        };
        match until > self.handle.now {
            true => Ok(self.wait(&[claim], until)),
            false => self.go(next),
        }
    }

    fn creation_answered(
        &mut self,
        answer: &Answer,
        stage: &Stage,
        place: usize,
        name: Arc<str>,
    ) -> Step {
        match answer {
            Answer::Ok(object) => {
                self.setting.metrics.claim_created(true);
                match object.as_ref().and_then(read_claim) {
                    Some(claim) => self.created(place, Arc::new(claim)),
                    None => self.look_for_created(place, name, None),
                }
            }
            Answer::Conflict(_) if self.binder.repeats.has_any() => {
                let refusal = Some(self.failed(stage, answer));
                self.look_for_created(place, name, refusal)
            }
            failure => {
                self.setting.metrics.claim_created(false);
                Err(self.failed(stage, failure))
            }
        }
    }

    fn look_for_created(&mut self, place: usize, name: Arc<str>, refusal: Option<String>) -> Step {
        let until = self.handle.now + CONFLICT_TIMEOUT;
        self.go(Stage::Created { place, name, refusal, until })
    }

    /// Waits until the watch shows the claim that was created under `name`.
    fn find_created(&mut self, place: usize, name: &Arc<str>, until: Time) -> Step {
        match self.shown_as_created(name) {
            Some(claim) => self.created(place, claim),
            None => Ok(self.wait(&[(self.pod.key.namespace.clone(), name.clone())], until)),
        }
    }

    fn shown_as_created(&self, name: &str) -> Option<Arc<ResourceClaim>> {
        let claim = self.handle.cluster.resource_claim(&self.pod.key.namespace, name)?;
        claim.is_made_for(self.pod).then(|| claim.clone())
    }

    /// Replaces the claim in memory by the created one.
    fn created(&mut self, place: usize, claim: Arc<ResourceClaim>) -> Step {
        let work = self.work_mut(place);
        let in_memory = std::mem::replace(&mut work.claim, claim.clone());
        let allocated = ResourceClaim { allocation: work.allocation.clone(), ..(*claim).clone() };
        let pod = &self.pod.uid;
        self.setting.tracker.lock().rename(&in_memory.uid, Arc::new(allocated), pod);
        self.go(Stage::Claim { place, tries: 1 })
    }

    fn finalizer_answered(
        &mut self,
        answer: &Answer,
        stage: &Stage,
        place: usize,
        tries: u32,
    ) -> Step {
        match answer {
            Answer::Ok(Some(object)) if let Some(claim) = read_claim(object) => {
                self.work_mut(place).claim = Arc::new(claim);
                self.go(Stage::Claim { place, tries: tries.max(1) })
            }
            Answer::Ok(_) | Answer::Conflict(_) => {
                self.conflict(place, tries, self.failed(stage, answer))
            }
            failure => Err(self.failed(stage, failure)),
        }
    }

    fn reservation_answered(
        &mut self,
        answer: &Answer,
        stage: &Stage,
        place: usize,
        tries: u32,
    ) -> Step {
        match answer {
            Answer::Ok(Some(object)) if let Some(claim) = read_claim(object) => {
                self.written(place, &Arc::new(claim))
            }
            Answer::Ok(_) => {
                self.work_mut(place).in_doubt = true;
                self.conflict(place, tries, self.failed(stage, answer))
            }
            Answer::Conflict(_) => self.conflict(place, tries, self.failed(stage, answer)),
            failure => {
                let text = self.failed(stage, failure);
                // This request has its answer. Whether an earlier one leaves a doubt is noted with
                // the claim.
                self.binder.stage = Stage::Claim { place, tries };
                Err(text)
            }
        }
    }

    /// Notes that a claim is reserved for the pod, and goes on with the next claim.
    fn written(&mut self, place: usize, claim: &Arc<ResourceClaim>) -> Step {
        let work = self.work_mut(place);
        work.claim = claim.clone();
        work.in_doubt = false;
        if !work.is_extended {
            self.setting.tracker.lock().assume(claim.clone(), self.handle);
        }
        self.go(Stage::Claim { place: place + 1, tries: 0 })
    }

    fn conflict(&mut self, place: usize, tries: u32, text: String) -> Step {
        let until = self.handle.now + CONFLICT_TIMEOUT;
        self.go(Stage::Conflict { place, tries, text, until })
    }

    /// Repeats a write with the version that it met, once that is known.
    fn resolve_conflict(&mut self, place: usize, tries: u32, text: String, until: Time) -> Step {
        let claim = self.work(place).claim.clone();
        if self.refresh(place) {
            return self.begin_again(place, tries, text);
        }
        let stored = self.handle.cluster.resource_claim(&claim.namespace, &claim.name);
        let is_new = claim.is_for_extended_resources && stored.is_none();
        if !is_new && stored.is_none_or(|stored| stored.uid != claim.uid) {
            return Err(format!(
                "get updated claim {} after conflict: resourceclaims.resource.k8s.io {:?} not found",
                full_name(&claim),
                &*claim.name
            ));
        }
        Ok(self.wait(&[key(&claim)], until))
    }

    /// Begins again with the newer version of a claim.
    fn begin_again(&mut self, place: usize, tries: u32, text: String) -> Step {
        // The version that the write named is gone, so the write can no longer be carried out.
        self.work_mut(place).in_doubt = false;
        match tries + 1 < MAX_CONFLICTS {
            true => self.go(Stage::Claim { place, tries: tries + 1 }),
            false => Err(text),
        }
    }

    /// All claims are written.
    fn after_claims(&mut self) -> Step {
        match self.extended() {
            Some(_) => self.write(Stage::PodStatus),
            None => self.start_conditions(),
        }
    }

    fn extended(&self) -> Option<&ClaimWork> {
        self.binder.claims.iter().find(|work| work.is_extended)
    }

    fn write_pod_status(&self) -> Step {
        let Some(work) = self.extended() else { return Ok(done()) };
        if self.binder.mappings.is_empty() {
            return Err(format!(
                "nil or empty request mappings, no update of pod {} ExtendedResourceClaimStatus",
                self.pod.key
            ));
        }
        let write = writes::pod_status(self.pod, &work.claim.name, &self.binder.mappings);
        Ok(PreBindStep::Write(write))
    }

    /// Waits until the watch shows the claim for extended resources. Until then its devices are in
    /// flight.
    fn wait_until_shown(&mut self, until: Time) -> Step {
        let Some(work) = self.extended() else { return self.start_conditions() };
        let claim = work.claim.clone();
        let stored = self.handle.cluster.resource_claim(&claim.namespace, &claim.name);
        if stored.is_some_and(|stored| stored.uid == claim.uid) {
            self.setting.tracker.lock().assume(claim, self.handle);
            return self.start_conditions();
        }
        Ok(self.wait(&[key(&claim)], until))
    }

    fn start_conditions(&mut self) -> Step {
        let has_conditions = |work: &ClaimWork| {
            let allocation = work.claim.allocation.as_ref();
            allocation.is_some_and(|own| {
                own.results.iter().any(|result| !result.binding_conditions.is_empty())
            })
        };
        let waits = self.setting.binding_timeout.is_some();
        if !waits || !self.binder.claims.iter().any(has_conditions) {
            return Ok(done());
        }
        let since = self.handle.now;
        self.binder.stage = Stage::Conditions { since };
        super::conditions::report_wait(self.pod, self.node, self.handle);
        self.check_conditions(since)
    }

    fn check_conditions(&mut self, since: Time) -> Step {
        let Some(timeout) = self.setting.binding_timeout else { return Ok(done()) };
        let mut until = since + timeout;
        let mut objects = Vec::new();
        for work in &self.binder.claims {
            let claim = &work.claim;
            let latest = self
                .latest(claim)
                .ok_or_else(|| format!("resourceclaims {:?} not found", full_name(claim)))?;
            match binding_of(&latest, self.handle.wall_time(), timeout) {
                Binding::Ready => {}
                Binding::Failed(text) => {
                    self.conditions_ended(since, Ended::Failure);
                    return Err(text);
                }
                Binding::TimedOut(text) => {
                    self.conditions_ended(since, Ended::Timeout);
                    return Err(text);
                }
                Binding::Pending { expires } => {
                    let left = expires.map(|expires| expires.since(self.handle.wall_time()));
                    until = left.map_or(until, |left| until.min(self.handle.now + left));
                    objects.push(key(claim));
                }
            }
        }
        if objects.is_empty() {
            self.conditions_ended(since, Ended::Success);
            return Ok(done());
        }
        Ok(self.wait(&objects, until))
    }

    fn conditions_ended(&self, since: Time, ended: Ended) {
        let claims = self.binder.claims.iter().map(|work| &*work.claim);
        let times = [since, self.handle.now];
        self.setting.metrics.conditions_ended(claims, times, ended);
    }

    fn latest(&self, claim: &ResourceClaim) -> Option<Arc<ResourceClaim>> {
        let tracked = self.setting.tracker.lock();
        let latest = tracked.latest(&claim.namespace, &claim.name, self.handle.cluster);
        latest.filter(|latest| latest.uid == claim.uid).cloned()
    }

    /// Handles the end of a wait.
    fn timed_out(&mut self) -> Step {
        match self.binder.stage.clone() {
            Stage::Created { refusal, name, .. } => Err(refusal.unwrap_or_else(|| {
                format!("claim {}/{name} was created but is not shown", self.pod.key.namespace)
            })),
            Stage::Conflict { text, .. } => Err(text),
            Stage::Shown { .. } => {
                // The claim is written. Its devices count until the watch has had time to show it.
                if let Some(claim) = self.extended().map(|work| work.claim.clone()) {
                    let mut tracked = self.setting.tracker.lock();
                    tracked.doubt(&claim, self.pod, self.handle);
                }
                self.start_conditions()
            }
            Stage::Conditions { since } => {
                let timeout = self.setting.binding_timeout.unwrap_or_default();
                let step = self.check_conditions(since)?;
                if self.handle.now >= since + timeout && matches!(step, PreBindStep::Wait { .. }) {
                    self.conditions_ended(since, Ended::Timeout);
                    return Err("device binding timeout: context deadline exceeded".to_owned());
                }
                Ok(step)
            }
            _ => self.advance(),
        }
    }

    fn wait(&self, claims: &[(Arc<str>, Arc<str>)], until: Time) -> PreBindStep {
        let object = |(namespace, name): &(Arc<str>, Arc<str>)| {
            ObjectKey::namespaced(EventResource::ResourceClaim, namespace.clone(), name.clone())
        };
        PreBindStep::Wait {
            timeout: until.since(self.handle.now),
            objects: claims.iter().map(object).collect(),
        }
    }
}

impl ClaimWork {
    /// Returns the work for a claim that needs no allocation.
    pub(super) fn allocated_before(claim: &Arc<ResourceClaim>, user: ClaimConsumer) -> Self {
        Self { claim: claim.clone(), allocation: None, user, is_extended: false, in_doubt: false }
    }

    /// Returns the allocation that Reserve made, if the claim has none.
    fn unwritten(&self) -> Option<&Allocation> {
        self.allocation.as_deref().filter(|_| self.claim.allocation.is_none())
    }

    /// Whether the claim has the allocation that Reserve made.
    pub(super) fn is_written(&self) -> bool {
        match (&self.claim.allocation, &self.allocation) {
            (Some(written), Some(own)) => written.results == own.results,
            _ => false,
        }
    }
}

fn done() -> PreBindStep {
    PreBindStep::Done(Status::success())
}

/// Returns namespace and name of a claim.
fn key(claim: &ResourceClaim) -> (Arc<str>, Arc<str>) {
    (claim.namespace.clone(), claim.name.clone())
}

/// Returns namespace and name of a claim, for messages.
pub(super) fn full_name(claim: &ResourceClaim) -> String {
    format!("{}/{}", claim.namespace, claim.name)
}

/// Reads the claim in the answer to a write.
fn read_claim(object: &Value) -> Option<ResourceClaim> {
    let claim = api::ResourceClaim::deserialize(object).ok()?;
    (!claim.metadata.uid.is_empty()).then(|| ResourceClaim::from_api(&claim))
}
