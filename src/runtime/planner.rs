//! The planner of moves that make room for a pod: it looks for them beside the scheduling loop.
//!
//! The loop copies the cluster in slices, as for an explanation. The search runs on a thread for
//! blocking work, in an engine of its own, with a bounded number of decisions. Its answer enters
//! the engine of the scheduler as an input.

use std::convert::Infallible;

use engine::{EffectId, EngineConfig, MovesWanted};
use explain::Follower;
use framework::{Answer, Registry};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::spawn_blocking;

use crate::config::Configuration;
use crate::scheduling_loop::{Copied, EventSender, LoopEvent};

/// Looks for moves.
pub(super) struct Planner {
    config: Configuration,
    registry: Registry,
    events: EventSender,
}

impl Planner {
    pub(super) fn new(config: &Configuration, registry: &Registry, events: EventSender) -> Self {
        Self { config: config.clone(), registry: registry.clone(), events }
    }

    /// Answers one question after the other. Never ends.
    pub(super) async fn run(
        self,
        mut wanted: UnboundedReceiver<(EffectId, MovesWanted)>,
    ) -> Infallible {
        while let Some((effect, wanted)) = wanted.recv().await {
            let answer = self.plan(wanted).await.unwrap_or_else(Answer::Error);
            self.events.send(LoopEvent::Planned(effect, answer));
        }
        // The loop has ended.
        std::future::pending().await
    }

    async fn plan(&self, wanted: MovesWanted) -> Result<Answer, String> {
        let copied = self.events.copy(None).await;
        let Copied { cluster, now, .. } = copied.ok_or("the scheduler stops")?;
        // Its plugins are others than those of the scheduler.
        let profiles = self.config.build_profiles(&self.registry);
        let profiles = profiles.map_err(|error| error.to_string())?;
        let planning = spawn_blocking(move || {
            let mut follower = Follower::new(EngineConfig::new(profiles));
            follower.follow(cluster, now).ok_or("the copy belongs to another engine")?;
            Ok(make_room::find_moves(follower.engine(), &wanted, now))
        });
        planning.await.map_err(|error| error.to_string())?
    }
}
