//! Other orders of the members of a group, for a group that does not fit in the order of the queue.
//!
//! Rule other-orders-of-members of docs/differences.toml.

use std::cmp::Reverse;

use framework::{NodeBits, Pod, PodRequests};

use super::backtracking::{Backtracking, MAX_MEMBERS};
use super::decision::{Findings, MemberQuestion, Pass, PodGroupQuestion};
use super::search_budget::Steps;
use crate::context::Context;
use crate::decide::{Decider, Found};
use crate::ranking::Lane;
use crate::world::tentative::{Ending, Tentative};

/// The members of a group by their templates.
#[derive(Debug)]
pub(super) struct Kinds {
    /// The kind of each member.
    pub(super) of_member: Vec<usize>,
    /// The size of each kind, as [`sizes`] has it.
    pub(super) sizes: Vec<u64>,
}

impl Kinds {
    pub(super) fn of(question: PodGroupQuestion<'_>) -> Self {
        let PodGroupQuestion { profile, members, .. } = question;
        let (mut of_member, mut lanes) = (Vec::new(), Vec::<Option<Lane>>::new());
        let mut pods: Vec<&Pod> = Vec::new();
        for member in members {
            let lane = Lane::of(profile, &member.pod);
            let known = lanes.iter().position(|own| lane.is_some() && *own == lane);
            of_member.push(known.unwrap_or_else(|| {
                lanes.push(lane);
                pods.push(&member.pod);
                lanes.len() - 1
            }));
        }
        Self { of_member, sizes: sizes(&pods) }
    }

    pub(super) const fn count(&self) -> usize {
        self.sizes.len()
    }

    /// Returns the first member of a kind.
    fn first_of(&self, kind: usize) -> usize {
        self.of_member.iter().position(|own| *own == kind).unwrap_or_default()
    }
}

/// Returns the sizes of pods: the sum of their shares of the largest request of each resource.
fn sizes(pods: &[&Pod]) -> Vec<u64> {
    let amounts = |requests: &PodRequests| {
        let own = &requests.placed;
        let scalars = own.scalars.iter().map(|(name, amount)| (Some(name.clone()), *amount));
        let basic = [own.milli_cpu, own.memory, own.ephemeral_storage].map(|own| (None, own));
        basic.into_iter().chain(scalars).collect::<Vec<_>>()
    };
    let all: Vec<_> = pods.iter().map(|pod| amounts(&pod.requests)).collect();
    let share = |place: usize, (name, amount): &(Option<_>, i64)| {
        let same = all.iter().flat_map(|own| own.iter().enumerate()).filter(|(other, (own, _))| {
            if name.is_some() { own == name } else { own.is_none() && *other == place }
        });
        let most = same.map(|(_, (_, amount))| *amount).max().unwrap_or(0).max(1);
        let share = i128::from((*amount).max(0)) * 1000 / i128::from(most);
        u64::try_from(share).unwrap_or(0)
    };
    let size = |own: &Vec<_>| own.iter().enumerate().map(|(place, own)| share(place, own)).sum();
    all.iter().map(size).collect()
}

/// The search for an order in which enough members of a group fit on some nodes.
pub(super) struct OtherOrders<'q, 'd, 's> {
    pub(super) question: PodGroupQuestion<'q>,
    pub(super) within: Option<&'q NodeBits>,
    pub(super) kinds: &'s Kinds,
    pub(super) decider: &'d mut Decider,
    pub(super) steps: &'s mut Steps,
}

impl OtherOrders<'_, '_, '_> {
    /// Places the members in the first order in which enough of them fit. Returns `None` if none
    /// was found, and the failure of a plugin or extender.
    pub(super) fn run(
        mut self,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Option<Findings> {
        let of_queue: Vec<usize> = (0..self.question.members.len()).collect();
        if self.kinds.count() > 1 {
            let largest_first = self.largest_first();
            let by_size = (largest_first != of_queue).then(|| self.pass(&largest_first, world, cx));
            if let Some(found) = by_size.flatten() {
                return Some(found);
            }
            let by_nodes = self.most_constrained_first(world, cx)?;
            if by_nodes != of_queue
                && by_nodes != largest_first
                && let Some(found) = self.pass(&by_nodes, world, cx)
            {
                return Some(found);
            }
        }
        if of_queue.len() > MAX_MEMBERS {
            return None;
        }
        let Self { question, within, kinds, decider, steps } = self;
        Backtracking::new(question, within, kinds, decider, steps).run(world, cx)
    }

    fn largest_first(&self) -> Vec<usize> {
        let Kinds { of_member, sizes } = self.kinds;
        let mut order: Vec<usize> = (0..of_member.len()).collect();
        order.sort_by_key(|member| Reverse(sizes[of_member[*member]]));
        order
    }

    /// Returns the members in the order of the number of nodes that can take them, the largest
    /// first among equals; `None` if no step is left.
    fn most_constrained_first(
        &mut self,
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Option<Vec<usize>> {
        let mut nodes = Vec::with_capacity(self.kinds.count());
        for kind in 0..self.kinds.count() {
            if !self.steps.take() {
                return None;
            }
            let member = &self.question.members[self.kinds.first_of(kind)];
            let question = MemberQuestion { of: self.question, member, within: self.within };
            nodes.push(match question.decide(self.decider, world, cx).found {
                Found::Node(chosen) => chosen.feasible,
                _ => 0,
            });
        }
        let Kinds { of_member, sizes } = self.kinds;
        let mut order: Vec<usize> = (0..of_member.len()).collect();
        order.sort_by_key(|member| {
            let kind = of_member[*member];
            (nodes[kind], Reverse(sizes[kind]))
        });
        Some(order)
    }

    /// Places the members in an order; `None` if too few fit.
    fn pass(
        &mut self,
        order: &[usize],
        world: &mut Tentative<'_>,
        cx: &mut Context<'_>,
    ) -> Option<Findings> {
        let Self { question, within, decider, steps, .. } = self;
        world.tentatively(cx, |world, cx| {
            let pass = Pass::new(*question, *within, decider);
            let found = pass.run_in(order.iter().copied(), steps, world, cx);
            match found.status.is_rejection() {
                true => Ending::Undo(None),
                false if found.status.is_success() => Ending::Keep(Some(found)),
                false => Ending::Undo(Some(found)),
            }
        })
    }
}
