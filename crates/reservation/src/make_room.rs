//! The arguments of MakeRoom.

use std::time::Duration;

use framework::MovePolicy;
use serde::{Deserialize, Serialize};

use super::in_range;

/// Name of the plugin.
pub(super) const NAME: &str = "MakeRoom";

/// The arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MakeRoomArgs {
    /// Seconds from the first attempt of a pod until others are moved for it.
    pub after_seconds: u64,
    /// Maximum number of pods that are moved for one pod.
    pub max_moves_per_plan: usize,
    /// Seconds from the end of a move to the next one.
    pub pace_seconds: u64,
    /// Pods of a higher priority are not moved.
    pub highest_priority: i32,
    /// Seconds in which a pod has to end and its successor has to be placed.
    pub move_timeout_seconds: u64,
}

impl Default for MakeRoomArgs {
    fn default() -> Self {
        Self {
            after_seconds: 300,
            max_moves_per_plan: 5,
            pace_seconds: 10,
            highest_priority: 0,
            move_timeout_seconds: 300,
        }
    }
}

impl MakeRoomArgs {
    pub(super) fn policy(&self) -> Result<MovePolicy, String> {
        let timeout = in_range("moveTimeoutSeconds", self.move_timeout_seconds, 86_400)?;
        Ok(MovePolicy {
            after: Duration::from_secs(self.after_seconds),
            most: in_range("maxMovesPerPlan", self.max_moves_per_plan, 100)?,
            pace: Duration::from_secs(self.pace_seconds),
            highest_priority: self.highest_priority,
            timeout: Duration::from_secs(timeout),
        })
    }
}
