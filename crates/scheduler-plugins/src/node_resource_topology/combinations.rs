//! Sets of NUMA nodes.

/// Number of sets that are looked at. All sets of up to 14 NUMA nodes are fewer.
const LIMIT: usize = 4096;

/// Returns how many of the amounts, largest first, it takes to reach `needed`; `None` if all are
/// not enough.
pub(super) fn fewest(mut amounts: Vec<i64>, needed: i64) -> Option<usize> {
    amounts.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum: i64 = 0;
    let reached = amounts.iter().position(|amount| {
        sum = sum.saturating_add(*amount);
        sum >= needed
    });
    reached.map(|place| place + 1)
}

/// Calls `visit` with the sets of `len` of the numbers below `count`, in lexicographic order, until
/// it returns false. Returns whether no set was left out.
pub(super) fn visit(count: usize, len: usize, mut visit: impl FnMut(&[usize]) -> bool) -> bool {
    if len > count {
        return true;
    }
    let mut chosen: Vec<usize> = (0..len).collect();
    for _ in 0..LIMIT {
        if !visit(&chosen) {
            return true;
        }
        // The last number that can grow.
        let Some(place) = (0..len).rev().find(|place| chosen[*place] < count - len + place) else {
            return true;
        };
        chosen[place] += 1;
        for later in place + 1..len {
            chosen[later] = chosen[later - 1] + 1;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_come_in_order() {
        let mut all = Vec::new();
        assert!(visit(4, 2, |chosen| {
            all.push(chosen.to_vec());
            true
        }));
        assert_eq!(all, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
        let mut count = 0;
        assert!(
            visit(3, 0, |_| {
                count += 1;
                true
            }) && count == 1
        );
        assert!(visit(2, 3, |_| unreachable!("there is no such set")));
    }

    #[test]
    fn many_sets_are_cut_off() {
        let mut count = 0;
        assert!(!visit(64, 32, |_| {
            count += 1;
            true
        }));
        assert_eq!(count, LIMIT);
        let mut count = 0;
        assert!(visit(14, 7, |_| {
            count += 1;
            true
        }));
        assert_eq!(count, 3432);
    }

    #[test]
    fn fewest_takes_the_largest_first() {
        for (amounts, needed, expected) in [
            (vec![2, 8, 4], 8, Some(1)),
            (vec![2, 8, 4], 9, Some(2)),
            (vec![2, 8, 4], 14, Some(3)),
            (vec![2, 8, 4], 15, None),
            (vec![], 1, None),
        ] {
            assert_eq!(fewest(amounts, needed), expected);
        }
    }
}
