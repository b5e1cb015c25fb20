//! Bringing scores into 0 to 100.

const MAX: i64 = 100;

/// Scales scores so that the highest becomes 100, or 0 if `reverse` is set: then less is better.
///
/// Without any score above 0 they stay as they are, or all become 100. Scores below 0 are not meant
/// to occur.
pub(crate) fn default_normalize(scores: &mut [i64], reverse: bool) {
    let highest = scores.iter().copied().max().unwrap_or(0).max(0);
    if highest == 0 {
        if reverse {
            scores.fill(MAX);
        }
        return;
    }
    for score in scores {
        let scaled = score.saturating_mul(MAX) / highest;
        *score = if reverse { MAX - scaled } else { scaled };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_score_sets_the_scale() {
        for (scores, reverse, expected) in [
            (vec![7, 3, 0], false, vec![100, 42, 0]),
            (vec![0, 1, 2], true, vec![100, 50, 0]),
            (vec![0, 0], false, vec![0, 0]),
            (vec![0, 0], true, vec![100, 100]),
            (vec![3, 2], true, vec![0, 34]),
            (vec![], true, vec![]),
        ] {
            let mut normalized = scores.clone();
            default_normalize(&mut normalized, reverse);
            assert_eq!(normalized, expected, "{scores:?} {reverse}");
        }
    }
}
