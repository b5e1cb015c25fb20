//! The range of scores, and the default normalisation.

/// Highest score of a node after normalisation.
pub const MAX_NODE_SCORE: i64 = 100;

/// Lowest score of a node after normalisation.
pub const MIN_NODE_SCORE: i64 = 0;

/// Scales scores so that the highest becomes 100, or 0 with `reverse` (`DefaultNormalizeScore`).
///
/// If no score is above 0, the scores stay as they are, or all become 100 with `reverse`. Negative
/// scores are not supported.
pub fn default_normalize_score(scores: &mut [i64], reverse: bool) {
    let highest = scores.iter().copied().max().unwrap_or(0).max(0);
    if highest == 0 {
        if reverse {
            scores.fill(MAX_NODE_SCORE);
        }
        return;
    }
    for score in scores {
        let scaled = score.saturating_mul(MAX_NODE_SCORE) / highest;
        *score = if reverse { MAX_NODE_SCORE - scaled } else { scaled };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highest_score_becomes_100_or_0_in_reverse() {
        for (scores, reverse, expected) in [
            (vec![7, 3, 0], false, vec![100, 42, 0]),
            (vec![0, 1, 2], true, vec![100, 50, 0]),
            (vec![0, 0], false, vec![0, 0]),
            (vec![0, 0], true, vec![100, 100]),
            (vec![3, 2], true, vec![0, 34]),
            (vec![], true, vec![]),
        ] {
            let mut normalized = scores.clone();
            default_normalize_score(&mut normalized, reverse);
            assert_eq!(normalized, expected, "{scores:?} {reverse}");
        }
    }
}
