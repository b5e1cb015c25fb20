//! PodGroupPodsCount: prefers the placements that take most pods of a PodGroup.

use framework::{
    Handle, PlacedGroup, PlacementScore, Plugin, PluginArgs, PodGroupKey, ProspectiveGroup, Status,
    default_normalize_score,
};

/// Plugin name.
pub const NAME: &str = "PodGroupPodsCount";

/// The PodGroupPodsCount plugin.
#[derive(Debug)]
pub struct PodGroupPodsCount;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    Ok(Plugin::new(NAME, PodGroupPodsCount).placement_score().no_events().build())
}

/// Returns the number of members with a node.
fn scheduled(group: &PodGroupKey, handle: &Handle<'_>) -> u32 {
    handle.cluster.pod_group_state(group).map_or(0, |state| state.scheduled_count())
}

impl PlacementScore for PodGroupPodsCount {
    fn placement_score(&self, placed: PlacedGroup<'_>, handle: &Handle<'_>) -> Result<i64, Status> {
        Ok(scheduled(placed.group, handle).into())
    }

    fn placement_score_limits(
        &self,
        group: ProspectiveGroup<'_>,
        handle: &Handle<'_>,
    ) -> Option<Vec<i64>> {
        let scheduled = scheduled(group.group, handle);
        let limit = |most: u32| i64::from(scheduled) + i64::from(most);
        Some(group.prospects.iter().map(|prospect| limit(prospect.most)).collect())
    }

    fn normalize_placement_scores(&self, scores: &mut [i64]) -> Result<(), Status> {
        if scores.iter().all(|score| *score == 0) {
            return Err(Status::error(
                "no pods from pod group are assigned to any of the candidate placements",
            ));
        }
        default_normalize_score(scores, false);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use framework::{Cluster, GroupPlacement, Prospect};
    use testkit::{handle, node, pod};

    use super::*;

    #[test]
    fn score_is_the_share_of_the_largest_number_of_pods() {
        let mut cluster = Cluster::default();
        cluster.count_pod_groups();
        cluster.set_node(&node("n").build());
        let member = |name| Arc::new(pod(name).scheduling_group("g").build());
        cluster.place_pod(member("a"), "n");
        let group = &PodGroupKey::new("default", "g");
        let placement = Arc::new(GroupPlacement { name: "r".into(), nodes: Vec::new() });
        let members = [member("b"), member("c")];
        let prospects = [Prospect { placement: placement.clone(), most: 2 }];
        let prospective = ProspectiveGroup { group, members: &members, prospects: &prospects };
        let limits = PodGroupPodsCount.placement_score_limits(prospective, &handle(&cluster));
        assert_eq!(limits, Some(vec![3]));
        cluster.place_pod(members[0].clone(), "n");
        let placed = PlacedGroup { group, placement: &placement, members: &members };
        assert_eq!(PodGroupPodsCount.placement_score(placed, &handle(&cluster)), Ok(2));

        let mut scores = [2, 3, 0];
        PodGroupPodsCount.normalize_placement_scores(&mut scores).unwrap();
        assert_eq!(scores, [66, 100, 0]);
        let failed = PodGroupPodsCount.normalize_placement_scores(&mut [0]).unwrap_err();
        let expected = "no pods from pod group are assigned to any of the candidate placements";
        assert_eq!(failed.message(), expected);
    }
}
