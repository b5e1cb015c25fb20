//! No work in vain: pods of one template share the answer of an attempt.

use std::collections::BTreeMap;
use std::time::Duration;

#[path = "../../benches/wake_ups/workload.rs"]
mod workload;

use workload::{Answers, Rejector, Replay};

const NODES: usize = 8;
/// Waiting pods of each rejector, and blockers of each group.
const EACH: usize = 10 * NODES;

/// The number of bound pods by rejector once so many blockers were deleted, in turn one that takes
/// room and one that takes claims and affinity. A pod is bound at once when it fits.
fn bound_after(deletions: usize) -> BTreeMap<Rejector, usize> {
    let (room, claims) = (deletions.div_ceil(2), deletions / 2);
    // The last blocker of a node that takes affinity is one of the last eight. All pods fit that
    // node.
    let affine = if claims > EACH - NODES { EACH } else { 0 };
    let bound = [
        (Rejector::PodTopologySpread, room),
        (Rejector::VolumeRestrictions, claims),
        (Rejector::NodePorts, room),
        (Rejector::NodeResourcesFit, (2 * room).min(EACH)),
        (Rejector::NodeVolumeLimits, room),
        (Rejector::InterPodAffinity, affine),
    ];
    bound.into_iter().filter(|(_, count)| *count > 0).collect()
}

#[test]
fn every_pod_is_bound_at_once_when_it_fits() {
    for answers in Answers::ALL {
        let mut replay = Replay::new(NODES, answers);
        replay.run();
        for (place, bound) in replay.bound.iter().enumerate() {
            assert_eq!(
                *bound,
                bound_after(place + 1),
                "{answers:?}, after {} deletions",
                place + 1
            );
        }
    }
}

#[test]
fn pods_of_one_template_are_tried_once_per_change() {
    let mut replay = Replay::new(NODES, Answers::Shared);
    replay.run();
    // At most once for each of the pods of NodeVolumeLimits, whose claims differ, and of the four
    // other groups of equal pods. A deletion concerns the pods of one host port.
    let deletions = 2 * EACH;
    assert!(replay.failed <= 3 * deletions, "{} failed attempts", replay.failed);
    assert!(replay.most_of_one_pod <= 10, "one pod failed {} times", replay.most_of_one_pod);
}

/// Blockers are deleted at the pace of looks, one in 10 ms.
#[test]
fn blockers_deleted_one_by_one_cost_a_waiting_pod_an_attempt_for_each_backoff() {
    for answers in Answers::ALL {
        let mut replay = Replay::new(NODES, answers);
        replay.interval = Duration::from_millis(10);
        replay.run();
        let Replay { failed, most_of_one_pod, looks, .. } = replay;
        assert!(looks > 0, "{answers:?}");
        let waiting = EACH * Rejector::ALL.len();
        assert!(failed <= waiting, "{answers:?}: {failed} failed attempts of {waiting} pods");
        assert!(most_of_one_pod <= 3, "{answers:?}: one pod failed {most_of_one_pod} times");
    }
}
