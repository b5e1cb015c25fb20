//! Background work: controllers, kubelets and compaction.

use std::sync::Arc;
use std::time::Duration;

use framework::Time;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::Options;
use super::cluster::Cluster;
use crate::controllers::Controllers;
use crate::kubelet::Kubelets;

/// Shortest time between two rounds, so that requests get the lock and one round serves many
/// changes.
const PACE: Duration = Duration::from_millis(1);

/// Longest time between two rounds.
const IDLE: Duration = Duration::from_secs(60);

/// Time between two checks for a due compaction.
const COMPACTION_CHECK: Duration = Duration::from_secs(1);

/// The work beside the API.
pub(super) struct Upkeep {
    cluster: Arc<Cluster>,
    controllers: Option<Controllers>,
    kubelets: Option<Kubelets>,
}

impl Upkeep {
    pub(super) fn new(cluster: Arc<Cluster>, options: &Options) -> Self {
        let controllers =
            options.controllers.then(|| Controllers::new().with_devices(options.devices));
        let kubelets = options.kubelets.map(Kubelets::with_settings);
        Self { cluster, controllers, kubelets }
    }

    /// Runs until the server stops.
    pub(super) async fn run(mut self) {
        let mut changes = self.cluster.changes();
        let stopping = self.cluster.stopping.clone();
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pace.tick().await;
            changes.mark_unchanged();
            let pause = self.round().await;
            tokio::select! {
                () = stopping.cancelled() => return,
                _ = changes.changed() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Steps controllers and kubelets, and returns the time until the next due work.
    async fn round(&mut self) -> Duration {
        let cluster = &self.cluster;
        if let Some(controllers) = &mut self.controllers {
            cluster.guarded(|store, now| controllers.step(store, now));
            tokio::task::yield_now().await;
        }
        if let Some(kubelets) = &mut self.kubelets {
            cluster.guarded(|store, now| kubelets.step(store, now));
        }
        let deadlines = [
            self.controllers.as_ref().and_then(Controllers::next_deadline),
            self.kubelets.as_ref().and_then(Kubelets::next_deadline),
        ];
        let deadline: Option<Time> = deadlines.into_iter().flatten().min();
        cluster.with_store(|_, now| deadline.map_or(IDLE, |deadline| deadline.since(now).min(IDLE)))
    }
}

/// Compacts the history at the configured interval, until the server stops.
pub(super) async fn compact(cluster: Arc<Cluster>) {
    let mut check = interval(COMPACTION_CHECK);
    loop {
        tokio::select! {
            () = cluster.stopping.cancelled() => return,
            _ = check.tick() => {}
        }
        cluster.with_store(|store, now| {
            if cluster.faults().compacts(now) {
                store.compact();
            }
        });
    }
}
