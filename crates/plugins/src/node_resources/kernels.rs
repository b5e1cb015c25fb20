//! Arithmetic over columns, [`WIDTH`] nodes at a time, without branches between the nodes of a
//! block.
//!
//! Scores divide one amount by another on every node. 64-bit integer division is slow and compiles
//! to one division per node. Blocks therefore compute in `f64`, where compilers divide several
//! nodes at once. The result is exact for the amounts that a block accepts, see [`Block::load`].
//! Callers compute other blocks with the integer formula.

use std::ops::Range;

use framework::{NodeBits, NodeIx, ScalarAmount, ScalarColumn};

use super::{Column, DenseColumn, Lane, Usage};

/// Number of nodes in a block.
pub(super) const WIDTH: usize = u64::BITS as usize;

/// One number for every node of a block.
pub(super) type Numbers = [f64; WIDTH];

/// Amounts below 2^46 are small; for memory that is 64 TiB.
const SMALL_BITS: u32 = 46;

/// The nodes of a block.
#[derive(Debug)]
pub(super) struct BlockNodes<'a> {
    nodes: &'a [NodeIx],
    /// Their indexes, if each follows on the one before.
    run: Option<Range<usize>>,
}

impl<'a> BlockNodes<'a> {
    fn of(nodes: &'a [NodeIx]) -> Self {
        Self { nodes, run: NodeIx::run(nodes) }
    }

    fn gather(&self, column: &[i64], block: &mut [i64; WIDTH]) {
        match &self.run {
            Some(run) => block[..run.len()].copy_from_slice(&column[run.clone()]),
            None => {
                for (place, node) in block.iter_mut().zip(self.nodes) {
                    *place = column[node.index()];
                }
            }
        }
    }
}

/// Amounts of one resource on up to [`WIDTH`] nodes. Harmless values fill the rest of the block.
pub(super) struct Block {
    allocatable: [i64; WIDTH],
    requested: [i64; WIDTH],
    request: i64,
}

impl Block {
    pub(super) const fn new() -> Self {
        Self { allocatable: [1; WIDTH], requested: [0; WIDTH], request: 0 }
    }

    /// Loads the amounts of `lane` on `nodes`. Returns whether a block computes exactly with them:
    /// all amounts are small, none is negative, and every node has the resource.
    pub(super) fn load(&mut self, lane: &Lane<'_>, nodes: &BlockNodes<'_>) -> bool {
        self.request = lane.request;
        match lane.column {
            Column::Dense(column) => {
                nodes.gather(column.allocatable, &mut self.allocatable);
                nodes.gather(column.requested, &mut self.requested);
            }
            Column::Scalar(column) => {
                let places = self.allocatable.iter_mut().zip(&mut self.requested);
                for ((allocatable, requested), node) in places.zip(nodes.nodes) {
                    let amount = column.get(*node);
                    (*allocatable, *requested) = (amount.allocatable, amount.requested);
                }
            }
        }
        // Subtracting 1 from 0 sets every bit, so a node without the resource is not small.
        let amounts = bits_used(&self.requested, 0) | bits_used(&self.allocatable, 1);
        (amounts | self.request).cast_unsigned() >> SMALL_BITS == 0
    }

    /// Returns `part` as a whole percentage of allocatable, rounded down. The closure gets
    /// allocatable, and requested including the pod, capped at allocatable.
    ///
    /// `part` is at most `allocatable`, so `100 part + allocatable < 2^53`. The floor of the
    /// rounded quotient of the integers `100 part` and `allocatable` then equals the floor of the
    /// exact quotient: the distance of the exact quotient to the next integer is at least `1 /
    /// allocatable`, which exceeds the rounding error.
    #[inline]
    pub(super) fn percent(&self, part: impl Fn(f64, f64) -> f64) -> Numbers {
        let mut percent = [0.0; WIDTH];
        let amounts = self.allocatable.iter().zip(&self.requested);
        for (percent, (allocatable, requested)) in percent.iter_mut().zip(amounts) {
            let allocatable = number(*allocatable);
            let requested = at_most(number(requested.wrapping_add(self.request)), allocatable);
            *percent = floor(part(allocatable, requested) * 100.0 / allocatable);
        }
        percent
    }

    /// Returns requested as a fraction of allocatable, at most 1, without and with the pod.
    #[inline]
    pub(super) fn fractions(&self) -> (Numbers, Numbers) {
        (self.fraction(0), self.fraction(self.request))
    }

    #[inline]
    fn fraction(&self, request: i64) -> Numbers {
        let mut fraction = [0.0; WIDTH];
        let amounts = self.allocatable.iter().zip(&self.requested);
        for (fraction, (allocatable, requested)) in fraction.iter_mut().zip(amounts) {
            let requested = number(requested.wrapping_add(request));
            *fraction = at_most(requested / number(*allocatable), 1.0);
        }
        fraction
    }
}

/// Returns the bitwise OR of all amounts minus `less`.
fn bits_used(amounts: &[i64; WIDTH], less: i64) -> i64 {
    amounts.iter().fold(0, |bits, amount| bits | amount.wrapping_sub(less))
}

/// 2^52: from here on an `f64` has no fractional digits.
const INTEGERS: f64 = (1_u64 << 52) as f64;

/// Converts `amount`, from 0 to below 2^52. Unlike a cast, it compiles to vector code on every
/// processor.
#[inline]
fn number(amount: i64) -> f64 {
    f64::from_bits(amount.cast_unsigned() | INTEGERS.to_bits()) - INTEGERS
}

/// Converts an integer from 0 to below 2^52; the inverse of [`number`].
#[inline]
pub(super) fn integer(number: f64) -> i64 {
    ((number + INTEGERS).to_bits() ^ INTEGERS.to_bits()).cast_signed()
}

/// Returns the floor of `number`, from 0 to below 2^51.
#[inline]
pub(super) fn floor(number: f64) -> f64 {
    let rounded = (number + INTEGERS) - INTEGERS;
    if rounded > number { rounded - 1.0 } else { rounded }
}

#[inline]
fn at_most(number: f64, limit: f64) -> f64 {
    if number > limit { limit } else { number }
}

/// Writes scores block by block. Uses `block` if it returns true, otherwise `plain`.
pub(super) fn for_each_block(
    nodes: &[NodeIx],
    scores: &mut [i64],
    mut block: impl FnMut(&BlockNodes<'_>, &mut [i64]) -> bool,
    plain: impl Fn(NodeIx) -> i64,
) {
    for (nodes, scores) in nodes.chunks(WIDTH).zip(scores.chunks_mut(WIDTH)) {
        if !block(&BlockNodes::of(nodes), scores) {
            for (node, score) in nodes.iter().zip(scores) {
                *score = plain(*node);
            }
        }
    }
}

/// Number of nodes of a block up to which it is faster to look at each of them than at all of the
/// block.
const FEW: u32 = 4;

/// Retains the nodes that have the wanted amount free in every column.
pub(super) fn retain_with_room(nodes: &mut NodeBits, columns: &[(DenseColumn<'_>, i64)]) {
    nodes.for_each_block(|first, bits| {
        *bits &= !match bits.count_ones() {
            ..=FEW => few_short_of_room(columns, first, *bits),
            _ => short_of_room(columns, first),
        };
    });
}

/// Returns the nodes in `bits`, counted from index `first` on, that have too little free in some
/// column.
fn few_short_of_room(columns: &[(DenseColumn<'_>, i64)], first: usize, bits: u64) -> u64 {
    let (mut left, mut short) = (bits, 0);
    while left != 0 {
        let node = first + left.trailing_zeros() as usize;
        let lacks = |(column, wanted): &(DenseColumn<'_>, i64)| *wanted > column.usage(node).free();
        // The lowest bit that is left.
        let bit = left & left.wrapping_neg();
        short |= if columns.iter().any(lacks) { bit } else { 0 };
        left ^= bit;
    }
    short
}

/// Returns the nodes from index `first` on that have too little free in some column.
///
/// The sign of the free amount minus the wanted amount gives the answer, unless a subtraction
/// overflows 64 bits.
#[inline]
fn short_of_room(columns: &[(DenseColumn<'_>, i64)], first: usize) -> u64 {
    let mut lack = [0_i64; WIDTH];
    let mut all_bits = 0;
    for (column, wanted) in columns {
        all_bits |= wanted;
        for (lack, usage) in lack.iter_mut().zip(column.block(first)) {
            all_bits |= usage.allocatable | usage.requested;
            *lack |= usage.allocatable.wrapping_sub(usage.requested).wrapping_sub(*wanted);
        }
    }
    if all_bits.cast_unsigned() >> 62 == 0 {
        return mask(lack.map(|lack| lack < 0));
    }
    let mut short = [false; WIDTH];
    for (column, wanted) in columns {
        for (short, usage) in short.iter_mut().zip(column.block(first)) {
            *short |= *wanted > usage.free();
        }
    }
    mask(short)
}

fn mask(nodes: [bool; WIDTH]) -> u64 {
    nodes.iter().enumerate().fold(0, |mask, (place, node)| mask | u64::from(*node) << place)
}

impl DenseColumn<'_> {
    /// Returns the amounts on the node with this index.
    #[inline]
    pub(super) fn usage(&self, node: usize) -> Usage {
        Usage { allocatable: self.allocatable[node], requested: self.requested[node] }
    }

    /// Returns the amounts on up to [`WIDTH`] nodes from index `first` on.
    #[inline]
    fn block(&self, first: usize) -> impl Iterator<Item = Usage> {
        let end = (first + WIDTH).min(self.allocatable.len());
        let amounts = self.allocatable[first..end].iter().zip(&self.requested[first..end]);
        amounts.map(|(&allocatable, &requested)| Usage { allocatable, requested })
    }
}

/// Retains the nodes that have `wanted`, greater than 0, free of a scalar resource.
pub(super) fn retain_with_scalar(nodes: &mut NodeBits, column: &ScalarColumn, wanted: i64) {
    let has_room =
        |amount: &ScalarAmount| wanted <= amount.allocatable.saturating_sub(amount.requested);
    match column.as_array() {
        None => {
            let room = column.iter().filter(|(_, amount)| has_room(amount)).map(|(node, _)| node);
            nodes.intersect(&room.collect());
        }
        Some(column) => nodes.for_each_block(|first, bits| {
            let amounts = column.get(first..).unwrap_or_default().iter().take(WIDTH);
            *bits &= amounts
                .enumerate()
                .fold(0, |mask, (place, amount)| mask | u64::from(has_room(amount)) << place);
        }),
    }
}

/// Retains the nodes that have `wanted`, greater than 0, free of a scalar resource, or that do not
/// have the resource.
pub(super) fn retain_with_scalar_or_none(nodes: &mut NodeBits, column: &ScalarColumn, wanted: i64) {
    nodes.retain(|node| {
        let amount = column.get(node);
        amount.allocatable == 0 || wanted <= amount.allocatable.saturating_sub(amount.requested)
    });
}

#[cfg(test)]
mod tests {
    use framework::{Cluster, Node};
    use proptest::prelude::*;

    use super::*;
    use crate::node_resources::tests::any_amount;
    use crate::node_resources::{Basis, Resource};

    fn small() -> impl Strategy<Value = i64> {
        any_amount().prop_map(|amount| amount % (1 << SMALL_BITS))
    }

    fn block(allocatable: i64, requested: i64, request: i64) -> Block {
        Block { allocatable: [allocatable; WIDTH], requested: [requested; WIDTH], request }
    }

    fn dense(amounts: &[(i64, i64)]) -> (Vec<i64>, Vec<i64>) {
        amounts.iter().copied().unzip()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

        #[test]
        fn percentages_of_small_amounts_equal_integer_division(
            allocatable in small().prop_map(|amount| amount.max(1)),
            requested in small(),
            request in small(),
        ) {
            let block = block(allocatable, requested, request);
            let taken = allocatable.min(requested + request);
            let percent = block.percent(|_, requested| requested)[0];
            prop_assert_eq!(integer(percent), taken * 100 / allocatable);
            let percent = block.percent(|allocatable, requested| allocatable - requested)[0];
            prop_assert_eq!(integer(percent), (allocatable - taken) * 100 / allocatable);
        }

        #[test]
        fn percentages_next_to_integers_do_not_round_up(
            whole in small().prop_map(|amount| amount.max(100)),
            percent in 1_i64..=100,
        ) {
            let just_below = (whole * percent - 1) / 100;
            let block = block(whole, just_below, 0);
            prop_assert_eq!(integer(block.percent(|_, r| r)[0]), just_below * 100 / whole);
        }

        #[test]
        fn fractions_of_small_amounts_equal_a_cast(
            allocatable in small().prop_map(|amount| amount.max(1)),
            requested in small(),
            request in small(),
        ) {
            let (without, with) = block(allocatable, requested, request).fractions();
            let expected = |requested: i64| (requested as f64 / allocatable as f64).min(1.0);
            prop_assert_eq!(without[63].to_bits(), expected(requested).to_bits());
            prop_assert_eq!(with[63].to_bits(), expected(requested + request).to_bits());
        }

        #[test]
        fn conversions_to_numbers_round_trip(amount in 0_i64..1 << 52, eighths in 0_i64..8) {
            prop_assert_eq!(number(amount), amount as f64);
            prop_assert_eq!(integer(number(amount)), amount);
            let small = amount >> 4;
            prop_assert_eq!(floor(small as f64 + eighths as f64 / 8.0), small as f64);
        }
    }

    proptest! {
        #[test]
        fn blocks_accept_only_small_amounts(
            amounts in prop::collection::vec((any_amount(), any_amount()), 1..70),
            request in any_amount(),
        ) {
            let (allocatable, requested) = dense(&amounts);
            let column = DenseColumn { allocatable: &allocatable, requested: &requested };
            let lane = Lane { column: Column::Dense(column), request, weight: 1 };
            let nodes: Vec<_> = (0..amounts.len().min(WIDTH)).map(NodeIx::new).collect();
            let is_small = |amount: i64| amount < 1 << SMALL_BITS;
            let exact = is_small(request)
                && amounts.iter().take(WIDTH).all(|(allocatable, requested)| {
                    *allocatable > 0 && is_small(*allocatable - 1) && is_small(*requested)
                });
            prop_assert_eq!(Block::new().load(&lane, &BlockNodes::of(&nodes)), exact);
        }

        #[test]
        fn free_amounts_equal_a_subtraction(
            amounts in prop::collection::vec([(); 4].map(|()| any_amount()), 0..200),
            wanted in (any_amount(), any_amount()),
            choices: [u64; 4],
            is_sparse: bool,
        ) {
            let choice = match is_sparse {
                true => choices.iter().fold(u64::MAX, |all, choice| all & choice),
                false => choices[0],
            };
            let (first, second): (Vec<_>, Vec<_>) =
                amounts.iter().map(|[a, b, c, d]| ((*a, *b), (*c, *d))).unzip();
            let (first, second) = (dense(&first), dense(&second));
            let columns = [
                (DenseColumn { allocatable: &first.0, requested: &first.1 }, wanted.0),
                (DenseColumn { allocatable: &second.0, requested: &second.1 }, wanted.1),
            ];
            let all = (0..amounts.len()).filter(|place| choice >> (place % 64) & 1 == 1);
            let mut nodes: NodeBits = all.clone().map(NodeIx::new).collect();
            retain_with_room(&mut nodes, &columns);
            let fits = |place: &usize| {
                let [a, b, c, d] = amounts[*place];
                i128::from(a) - i128::from(b) >= i128::from(wanted.0)
                    && i128::from(c) - i128::from(d) >= i128::from(wanted.1)
            };
            let expected: Vec<_> = all.filter(fits).map(NodeIx::new).collect();
            prop_assert_eq!(nodes.iter().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn scalar_room_is_equal_for_sparse_and_dense_columns(
            amounts in prop::collection::vec(prop::option::weighted(0.6, 0_i64..4), 1..200),
            wanted in 1_i64..4,
        ) {
            let mut cluster = Cluster::default();
            for (place, amount) in amounts.iter().enumerate() {
                let mut node = Node { name: format!("n{place}").into(), ..Node::default() };
                node.allocatable.scalars =
                    amount.iter().map(|amount| ("example.com/gpu".into(), *amount)).collect();
                cluster.set_node(&node);
            }
            let mut nodes = cluster.nodes().clone();
            let gpu = Resource::named("example.com/gpu");
            match gpu.column(&cluster, Basis::Requested) {
                Some(Column::Scalar(column)) => retain_with_scalar(&mut nodes, column, wanted),
                _ => nodes.clear(),
            }
            let fits = |node: &NodeIx| amounts[node.index()].is_some_and(|has| has >= wanted);
            let expected: Vec<_> = cluster.nodes().iter().filter(fits).collect();
            prop_assert_eq!(nodes.iter().collect::<Vec<_>>(), expected);
        }
    }
}
