//! Normalization of scores between their lowest and their highest.

use framework::MAX_NODE_SCORE;

/// Maps the scores linearly onto `floor` to 100, with integer division. If all are equal, they
/// become `floor`. Scores that `counts` leaves out become 0.
pub(crate) fn normalize(scores: &mut [i64], floor: i64, counts: impl Fn(i64) -> bool) {
    let counted = || scores.iter().copied().filter(|score| counts(*score));
    let Some(lowest) = counted().min() else { return scores.fill(0) };
    let highest = counted().max().unwrap_or(lowest);
    let range = i128::from(highest) - i128::from(lowest);
    for score in scores {
        *score = match counts(*score) {
            false => 0,
            true if range == 0 => floor,
            true => {
                let above = i128::from(*score) - i128::from(lowest);
                let share = above * i128::from(MAX_NODE_SCORE - floor) / range;
                i64::try_from(share).unwrap_or(MAX_NODE_SCORE) + floor
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_lie_between_the_floor_and_100() {
        for (scores, floor, expected) in [
            (vec![-30, -10, -20], 0, vec![0, 100, 50]),
            (vec![1, 2, 4], 0, vec![0, 33, 100]),
            (vec![7, 7], 0, vec![0, 0]),
            (vec![7, 7, i64::MIN], 1, vec![1, 1, 0]),
            (vec![i64::MIN + 1, i64::MAX, i64::MIN, 0], 1, vec![1, 100, 0, 50]),
            (vec![i64::MIN], 1, vec![0]),
            (vec![], 0, vec![]),
        ] {
            let mut normalized = scores.clone();
            normalize(&mut normalized, floor, |score| score != i64::MIN);
            assert_eq!(normalized, expected, "{scores:?}");
        }
    }
}
