//! The status of ElasticQuotas: what their pods use, which the controller of scheduler-plugins
//! writes elsewhere.
//!
//! A status has the resources that the quota names, with what pods with a node use of them. It is
//! computed a second after a change, and written if it differs from the last one, at a bounded
//! rate. A status that something else has written in its place is not contradicted until the
//! computed one changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use framework::quota::QuotaView;
use framework::{Answer, QuotaAmounts, QuotaKey, Time, Uid, Write, WriteAction};
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::effect::{EffectId, EffectKind};
use crate::world::World;

/// Time from a change of a quota until its status is computed.
const DELAY: Duration = Duration::from_secs(1);
/// Maximum number of writes each [`DELAY`].
const BATCH: usize = 100;
/// The first pause after a write that failed, which doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause, after which a write without an effect is repeated.
const LONGEST_PAUSE: Duration = Duration::from_mins(2);

/// The last status of each quota.
#[derive(Debug, Default)]
pub(crate) struct QuotaStatuses {
    known: BTreeMap<QuotaKey, Known>,
    /// The quotas whose status is to be computed.
    due: BTreeSet<QuotaKey>,
    /// When statuses are computed next.
    next: Option<Time>,
    /// Whether they are to be computed now.
    is_ready: bool,
    /// The writes that are not answered.
    writes: BTreeMap<EffectId, QuotaKey>,
}

#[derive(Debug)]
struct Known {
    /// UID of the quota.
    uid: Uid,
    /// The status that was written or shown last.
    last: QuotaAmounts,
    /// Whether the watch has shown it.
    is_shown: bool,
    /// When it is written again, unless it is shown.
    again: Time,
    /// Number of writes that have failed one after the other.
    failures: u32,
}

impl QuotaStatuses {
    /// Handles the answer to an effect.
    pub(crate) fn answer(&mut self, effect: EffectId, answer: &Answer, now: Time) {
        let Some(key) = self.writes.remove(&effect) else { return };
        let Some(known) = self.known.get_mut(&key) else { return };
        match answer {
            Answer::Ok(_) | Answer::Gone(_) => known.failures = 0,
            _ => {
                let pause = FIRST_PAUSE.saturating_mul(1 << known.failures.min(8));
                known.failures += 1;
                known.again = now + pause.min(LONGEST_PAUSE);
            }
        }
        self.due.insert(key);
        self.compute_at(now + DELAY);
    }

    /// Returns when statuses are computed next.
    pub(crate) const fn next_deadline(&self) -> Option<Time> {
        self.next
    }

    /// Handles the passage of time.
    pub(crate) fn tick(&mut self, now: Time) {
        if self.next.is_some_and(|next| next <= now) {
            self.next = None;
            self.is_ready = true;
        }
    }

    /// Notes the quotas that have changed, and writes the statuses that are due.
    pub(crate) fn write_due(&mut self, world: &mut World, cx: &mut Context<'_>) {
        let changed = world.take_changed_quotas(cx);
        if !changed.is_empty() {
            self.due.extend(changed);
            self.compute_at(cx.now + DELAY);
        }
        if !std::mem::take(&mut self.is_ready) {
            return;
        }
        let mut written = 0;
        let mut later = BTreeSet::new();
        while let Some(key) = self.due.pop_first() {
            if written >= BATCH {
                later.insert(key);
                self.compute_at(cx.now + DELAY);
                break;
            }
            if let Some(again) = self.write_if_changed(&key, world, cx, &mut written) {
                later.insert(key);
                self.compute_at(again);
            }
        }
        self.due.append(&mut later);
    }

    /// Returns when the quota is to be looked at again, if not after its next change.
    fn write_if_changed(
        &mut self,
        key: &QuotaKey,
        world: &World,
        cx: &mut Context<'_>,
        written: &mut usize,
    ) -> Option<Time> {
        let Some(quota) = world.cluster().quotas().get(key) else {
            self.known.remove(key);
            return None;
        };
        let object = quota.object();
        let shown = object.used.clone().unwrap_or_default();
        let used = used_by(quota);
        let known = self.known.entry(key.clone()).or_insert_with(|| Known {
            uid: object.uid.clone(),
            last: shown.clone(),
            is_shown: object.used.is_some(),
            again: cx.now,
            failures: 0,
        });
        if known.uid != object.uid {
            *known = Known {
                uid: object.uid.clone(),
                last: shown.clone(),
                is_shown: object.used.is_some(),
                again: cx.now,
                failures: 0,
            };
        }
        if used == shown && object.used.is_some() {
            (known.last, known.is_shown, known.failures) = (used, true, 0);
            return None;
        }
        let is_last = known.last == used;
        if is_last && known.is_shown {
            return None;
        }
        if cx.now < known.again && (is_last || known.failures > 0) {
            return Some(known.again);
        }
        let write = write_of(key, &object.uid, &used, &shown);
        (known.last, known.is_shown, known.again) = (used, false, cx.now + LONGEST_PAUSE);
        let again = known.again;
        let effect = cx.effects.emit(EffectKind::Write(write));
        self.writes.insert(effect, key.clone());
        *written += 1;
        Some(again)
    }

    fn compute_at(&mut self, at: Time) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// Returns what pods with a node use of the resources that a quota names.
fn used_by(quota: QuotaView<'_>) -> QuotaAmounts {
    let narrow = |amount: i128| i64::try_from(amount).unwrap_or(i64::MAX);
    let spec = &quota.object().spec;
    let named = [&spec.min, &spec.max].into_iter().flatten().flat_map(|amounts| amounts.keys());
    named.map(|name| (name.clone(), narrow(quota.used_of(name)))).collect()
}

fn write_of(key: &QuotaKey, uid: &Uid, used: &QuotaAmounts, shown: &QuotaAmounts) -> Write {
    let gone = shown.keys().filter(|name| !used.contains_key(*name));
    let gone = gone.map(|name| (name.to_string(), Value::Null));
    let amounts = used.iter().map(|(name, amount)| {
        let quantity = framework::quantity_of(name, *amount);
        (name.to_string(), Value::String(quantity))
    });
    let used: Map<String, Value> = amounts.chain(gone).collect();
    let patch = json!({"metadata": {"uid": uid.to_string()}, "status": {"used": used}});
    Write {
        api_version: "scheduling.x-k8s.io/v1alpha1".into(),
        resource: "elasticquotas".into(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        subresource: Some("status".into()),
        flow: "".into(),
        action: WriteAction::MergePatch(patch),
    }
}
