//! Scores nodes by the alternatives of prioritized lists that they get.

use std::sync::Arc;

use framework::device::{Allocation, RequestKind, ResourceClaim};

/// Maximum number of alternatives of a request.
const ALTERNATIVES_MAX: usize = 8;

/// Returns the score of new allocations, one for each claim.
pub(super) fn sum(claims: &[Arc<ResourceClaim>], allocations: &[Allocation]) -> i64 {
    claims.iter().zip(allocations).map(|(claim, allocation)| score(claim, allocation)).sum()
}

/// Returns the score of the claims that are allocated.
pub(super) fn of_allocated(claims: &[Arc<ResourceClaim>]) -> i64 {
    let allocated = |claim: &Arc<ResourceClaim>| Some(score(claim, claim.allocation.as_ref()?));
    claims.iter().filter_map(allocated).sum()
}

/// Returns the score of an allocation: the earlier the alternative of a request, the higher.
fn score(claim: &ResourceClaim, allocation: &Allocation) -> i64 {
    let requests = claim.spec.requests.iter();
    let scores = requests.map(|request| {
        let RequestKind::FirstAvailable(alternatives) = &request.kind else { return 0 };
        let is_chosen = |name: &Arc<str>| {
            allocation.results.iter().any(|result| {
                let parts = result.request.split_once('/');
                parts.is_some_and(|(own, chosen)| own == &*request.name && chosen == &**name)
            })
        };
        let chosen = alternatives.iter().position(|alternative| is_chosen(&alternative.name));
        let worth = chosen.map_or(0, |place| ALTERNATIVES_MAX.saturating_sub(place));
        i64::try_from(worth).unwrap_or(0)
    });
    scores.sum()
}

/// Whether some claim has alternatives.
pub(super) fn has_alternatives(claims: &[Arc<ResourceClaim>]) -> bool {
    claims.iter().any(|claim| {
        let requests = &claim.spec.requests;
        requests.iter().any(|request| matches!(request.kind, RequestKind::FirstAvailable(_)))
    })
}
