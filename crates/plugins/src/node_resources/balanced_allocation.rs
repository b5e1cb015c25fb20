//! NodeResourcesBalancedAllocation: prefers nodes whose resources are used more evenly with the pod
//! than without it.
//!
//! The balance of a node is 100 minus the standard deviation of its used fractions, in whole
//! percent: 50 to 100. A node scores 75 if the pod does not change its balance, and up to 25 more
//! or less if it does. The floating-point operations and their order are kube-scheduler's,
//! so that the balances are identical.

use framework::{
    Attempt, AttemptMut, Dependence, NodeIx, NodeView, PerNode, Plugin, PluginArgs, PreScore,
    Score, ScoreScope, Status,
};

use super::args::BalancedAllocationArgs;
use super::kernels::{self, Block, BlockNodes, Numbers, WIDTH, floor, integer};
use super::{Basis, Lane, RatedResources, Share, Usage, shares_on};

/// Name of the plugin.
pub const NAME: &str = "NodeResourcesBalancedAllocation";

/// Makes the plugin.
///
/// # Errors
/// The arguments do not decode or are not valid.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let gates = args.gates();
    let args = BalancedAllocationArgs::decode(args)?;
    let rated = RatedResources::new(&args.resources, Basis::Requested, gates);
    Ok(Plugin::new(NAME, BalancedAllocation { rated }).pre_score().score().no_events().build())
}

struct BalancedAllocation {
    rated: RatedResources,
}

impl PreScore for BalancedAllocation {
    /// Returns Skip for pods that request none of the rated resources.
    fn pre_score(&self, attempt: AttemptMut<'_>, _nodes: &[NodeIx]) -> Status {
        if self.rated.are_unrequested(&attempt.pod.requests.placed) {
            Status::skip()
        } else {
            Status::success()
        }
    }
}

impl Score for BalancedAllocation {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        let requests = &attempt.pod.requests.placed;
        if self.rated.are_unrequested(requests) {
            return Ok(0);
        }
        Ok(score(self.rated.shares(attempt.state, node, requests)))
    }

    fn dependence(&self, attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        let scope = self.rated.scope(&attempt.pod.requests.placed, attempt.handle.cluster);
        Some(Dependence::on(scope).of_requests())
    }

    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let PerNode { nodes, values: scores, .. } = scores;
        let Attempt { state, pod, handle, .. } = *attempt;
        let requests = &pod.requests.placed;
        if self.rated.are_unrequested(requests) {
            scores.fill(0);
            return Ok(());
        }
        let devices = self.rated.device_columns(state, handle.cluster, requests, nodes);
        let lanes = self.rated.lanes(handle.cluster, requests, &devices);
        let mut kernel = Kernel::for_lanes(&lanes);
        kernels::for_each_block(
            nodes,
            scores,
            |nodes, scores| kernel.score_block(&lanes, nodes, scores),
            |node| score(shares_on(&lanes, node)),
        );
        Ok(())
    }
}

/// Returns the score of one node from the amounts of its rated resources.
fn score(shares: impl Iterator<Item = Share>) -> i64 {
    let (without, with): (Vec<_>, Vec<_>) = shares
        .map(|share| (fraction(share.usage), fraction(share.usage.with(share.request))))
        .unzip();
    50 + (50 + balance(&with) - balance(&without)) / 2
}

fn fraction(usage: Usage) -> f64 {
    let fraction = usage.requested as f64 / usage.allocatable as f64;
    if fraction > 1.0 { 1.0 } else { fraction }
}

fn balance(fractions: &[f64]) -> i64 {
    let deviation = match fractions {
        [] | [_] => 0.0,
        [one, other] => ((one - other) / 2.0).abs(),
        _ => {
            let count = fractions.len() as f64;
            let mean = fractions.iter().fold(0.0, |sum, fraction| sum + fraction) / count;
            let squares = |sum, fraction: &f64| sum + (fraction - mean) * (fraction - mean);
            (fractions.iter().fold(0.0, squares) / count).sqrt()
        }
    };
    ((1.0 - deviation) * 100.0) as i64
}

/// Scores blocks of nodes. Its buffer holds the fractions of every resource.
struct Kernel {
    block: Block,
    without: Vec<Numbers>,
    with: Vec<Numbers>,
}

impl Kernel {
    fn for_lanes(lanes: &[Lane<'_>]) -> Self {
        let room = vec![[0.0; WIDTH]; lanes.len()];
        Self { block: Block::new(), without: room.clone(), with: room }
    }

    /// Computes [`score`] for a block. Returns whether the block allows it; see [`Block::load`].
    fn score_block(
        &mut self,
        lanes: &[Lane<'_>],
        nodes: &BlockNodes<'_>,
        scores: &mut [i64],
    ) -> bool {
        for ((lane, without), with) in lanes.iter().zip(&mut self.without).zip(&mut self.with) {
            if !self.block.load(lane, nodes) {
                return false;
            }
            (*without, *with) = self.block.fractions();
        }
        let balances = balances(&self.with).into_iter().zip(balances(&self.without));
        for (score, (with, without)) in scores.iter_mut().zip(balances) {
            *score = 50 + (50 + integer(with) - integer(without)) / 2;
        }
        true
    }
}

/// Computes [`balance`] for every node of a block.
fn balances(fractions: &[Numbers]) -> Numbers {
    let mut balances = match fractions {
        [] | [_] => [0.0; WIDTH],
        [one, other] => {
            let mut deviations = [0.0; WIDTH];
            for (deviation, (one, other)) in deviations.iter_mut().zip(one.iter().zip(other)) {
                *deviation = ((one - other) / 2.0_f64).abs();
            }
            deviations
        }
        _ => deviations(fractions),
    };
    for balance in &mut balances {
        *balance = floor((1.0 - *balance) * 100.0);
    }
    balances
}

/// Returns the standard deviations of three or more fractions.
fn deviations(fractions: &[Numbers]) -> Numbers {
    let count = fractions.len() as f64;
    let mut means = [0.0; WIDTH];
    for fractions in fractions {
        for (sum, fraction) in means.iter_mut().zip(fractions) {
            *sum += fraction;
        }
    }
    for mean in &mut means {
        *mean /= count;
    }
    let mut deviations = [0.0; WIDTH];
    for fractions in fractions {
        for ((sum, fraction), mean) in deviations.iter_mut().zip(fractions).zip(&means) {
            *sum += (fraction - mean) * (fraction - mean);
        }
    }
    for deviation in &mut deviations {
        *deviation = (*deviation / count).sqrt();
    }
    deviations
}
