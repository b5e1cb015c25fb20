//! The division of an amount among claims.

/// A claim to a part of an amount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Claim {
    /// The guaranteed part.
    pub min: i128,
    /// The part that is asked for, at most what is allowed.
    pub demand: i128,
    /// The share of what is left, compared with that of the other claims.
    pub weight: i128,
    /// Whether others may have what is guaranteed and not asked for.
    pub lends: bool,
}

impl Claim {
    /// The guaranteed part that others cannot have.
    fn base(&self) -> i128 {
        if self.lends { self.min.min(self.demand) } else { self.min }
    }
}

/// Divides `total` among the claims, and returns the share of each.
///
/// Each claim first gets what is guaranteed and asked for, or all that is guaranteed if it does not
/// lend. What is left is divided by weight among claims that ask for more, down to single units,
/// which go to the first claims. If `total` is less than the guarantees, it is divided by them.
///
/// * The shares add up to `total`, or to all that is asked for if that is less.
/// * No claim gets more than it asks for, except a guarantee that is not lent.
/// * A claim that asks for more never gets less, and the others get no more, but for single units.
pub fn divide(total: i128, claims: &[Claim]) -> Vec<i128> {
    let total = total.max(0);
    let bases: Vec<i128> = claims.iter().map(|claim| claim.base().max(0)).collect();
    let guaranteed: i128 = bases.iter().sum();
    if guaranteed > total {
        let parts = bases.iter().zip(claims);
        return fill(
            total,
            &parts.map(|(cap, claim)| Part::new(*cap, claim.min)).collect::<Vec<_>>(),
        );
    }
    let parts = claims.iter().zip(&bases);
    let parts: Vec<Part> =
        parts.map(|(claim, base)| Part::new(claim.demand - base, claim.weight)).collect();
    let mut shares = fill(total - guaranteed, &parts);
    shares.iter_mut().zip(bases).for_each(|(share, base)| *share += base);
    shares
}

/// A part that grows with its weight up to its cap.
#[derive(Debug, Clone, Copy)]
struct Part {
    cap: i128,
    weight: i128,
}

impl Part {
    fn new(cap: i128, weight: i128) -> Self {
        // Products of a cap and a weight fit into 128 bits.
        let weight = weight.clamp(0, i128::from(i64::MAX));
        Self { cap: cap.clamp(0, i128::from(i64::MAX)), weight }
    }
}

/// Fills the parts with `total`, as water fills vessels that are as wide as the weights. Parts
/// without weight are filled last, as if they had equal weights.
fn fill(total: i128, parts: &[Part]) -> Vec<i128> {
    let mut shares = vec![0; parts.len()];
    let left = fill_some(total, parts, |part| part.weight, &mut shares);
    fill_some(left, parts, |part| i128::from(part.weight == 0), &mut shares);
    shares
}

/// Fills the parts with a weight, and returns what is left.
fn fill_some(
    total: i128,
    parts: &[Part],
    weight: impl Fn(&Part) -> i128,
    shares: &mut [i128],
) -> i128 {
    let mut open: Vec<usize> = (0..parts.len())
        .filter(|place| weight(&parts[*place]) > 0 && parts[*place].cap > 0)
        .collect();
    // The part that reaches its cap at the smallest share comes first.
    open.sort_by(|one, other| {
        let (one, other) = (&parts[*one], &parts[*other]);
        (one.cap * weight(other)).cmp(&(other.cap * weight(one)))
    });
    let mut left = total;
    let mut weights: i128 = open.iter().map(|place| weight(&parts[*place])).sum();
    let mut full = 0;
    for place in &open {
        let part = &parts[*place];
        if !is_covered(part.cap, weights, left, weight(part)) {
            break;
        }
        shares[*place] = part.cap;
        left -= part.cap;
        weights -= weight(part);
        full += 1;
    }
    let mut open = open.split_off(full);
    if open.is_empty() {
        return left;
    }
    let level = left;
    for place in &open {
        let share = product_quotient(level, weight(&parts[*place]), weights);
        shares[*place] = share;
        left -= share;
    }
    open.sort_unstable();
    for place in open {
        if left > 0 && shares[place] < parts[place].cap {
            shares[place] += 1;
            left -= 1;
        }
    }
    left
}

/// Whether `cap` ≤ `left` · `weight` / `weights`.
fn is_covered(cap: i128, weights: i128, left: i128, weight: i128) -> bool {
    let needed = cap.checked_mul(weights);
    let offered = left.checked_mul(weight);
    match (needed, offered) {
        (Some(needed), Some(offered)) => needed <= offered,
        _ => cap <= product_quotient(left, weight, weights),
    }
}

/// Returns `amount` · `weight` / `weights`, rounded down. `weight` is at most `weights`.
fn product_quotient(amount: i128, weight: i128, weights: i128) -> i128 {
    if let Some(product) = amount.checked_mul(weight) {
        return product / weights;
    }
    // Only sums over more than 2^63 units get here; a unit more or less does not matter there.
    let (whole, rest) = (amount / weights, amount % weights);
    whole.saturating_mul(weight) + rest.checked_mul(weight).map_or(rest, |part| part / weights)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claim(min: i128, demand: i128, weight: i128) -> Claim {
        Claim { min, demand, weight, lends: true }
    }

    #[test]
    fn guarantees_come_first_and_the_rest_goes_by_weight() {
        let claims = [claim(4, 20, 1), claim(4, 20, 3), claim(8, 0, 1)];
        // 16 units: 8 are guaranteed and asked for, and the third claim lends 8.
        assert_eq!(divide(16, &claims), [6, 10, 0]);
        let closed = Claim { lends: false, ..claims[2] };
        assert_eq!(divide(16, &[claims[0], claims[1], closed]), [4, 4, 8]);
    }

    #[test]
    fn what_is_not_asked_for_flows_to_others() {
        assert_eq!(divide(10, &[claim(0, 2, 5), claim(0, 50, 1), claim(0, 50, 1)]), [2, 4, 4]);
        assert_eq!(divide(10, &[claim(0, 2, 5), claim(0, 3, 1)]), [2, 3]);
    }

    #[test]
    fn claims_without_weight_get_what_others_leave() {
        assert_eq!(divide(10, &[claim(0, 4, 1), claim(0, 9, 0), claim(0, 9, 0)]), [4, 3, 3]);
    }

    #[test]
    fn too_little_is_divided_by_guarantees() {
        assert_eq!(divide(6, &[claim(4, 9, 1), claim(8, 9, 1)]), [2, 4]);
    }

    fn claims() -> impl Strategy<Value = Vec<Claim>> {
        let amount = prop_oneof![0..20_i128, 0..1000_i128, Just(0)];
        let one = (amount.clone(), amount.clone(), amount, any::<bool>());
        let one = one.prop_map(|(min, demand, weight, lends)| Claim { min, demand, weight, lends });
        prop::collection::vec(one, 1..12)
    }

    proptest! {
        #[test]
        fn shares_add_up_and_exceed_no_demand(total in 0..5000_i128, claims in claims()) {
            let shares = divide(total, &claims);
            let wanted: i128 = claims
                .iter()
                .map(|own| if own.lends { own.demand } else { own.demand.max(own.min) })
                .sum();
            prop_assert_eq!(shares.iter().sum::<i128>(), total.min(wanted));
            let guarantees: i128 = claims.iter().map(|own| own.min).sum();
            for (share, own) in shares.iter().zip(&claims) {
                prop_assert!(*share >= 0);
                let most = if own.lends { own.demand } else { own.demand.max(own.min) };
                prop_assert!(*share <= most);
                prop_assert!(guarantees > total || *share >= own.min.min(own.demand));
            }
        }

        #[test]
        fn more_demand_never_lowers_the_own_share_nor_raises_others(
            total in 0..5000_i128,
            claims in claims(),
            which in any::<prop::sample::Index>(),
            more in 1..500_i128,
        ) {
            let which = which.index(claims.len());
            let before = divide(total, &claims);
            let mut raised = claims.clone();
            raised[which].demand += more;
            let after = divide(total, &raised);
            prop_assert!(after[which] >= before[which], "{:?} {:?}", before, after);
            // Single units are handed out in order, so that another claim may gain one.
            for place in (0..claims.len()).filter(|place| *place != which) {
                prop_assert!(after[place] <= before[place] + 1, "{:?} {:?}", before, after);
            }
        }
    }
}
