//! Piecewise linear functions from utilization to score, as plugin arguments define them.

use serde::{Deserialize, Serialize};

use crate::args::Faults;

/// A point of a function from utilization to score.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ShapePoint {
    /// Utilization in percent.
    pub(crate) utilization: i32,
    /// Score from 0 to 10.
    pub(crate) score: i32,
}

/// Validates the shape at this path of the arguments and adds its errors.
pub(crate) fn check_shape(path: &str, shape: &[ShapePoint], faults: &mut Faults) {
    if shape.is_empty() {
        return faults.add(format!("{path}: Required value: at least one point must be specified"));
    }
    let unsorted = shape.windows(2).position(|pair| pair[0].utilization >= pair[1].utilization);
    if let Some(index) = unsorted.map(|before| before + 1) {
        let path = format!("{path}[{index}].utilization");
        faults.invalid(
            &path,
            shape[index].utilization,
            "values must be sorted in increasing order",
        );
    }
    for (index, point) in shape.iter().enumerate() {
        if !(0..=100).contains(&point.utilization) {
            let path = format!("{path}[{index}].utilization");
            faults.invalid(&path, point.utilization, "not in valid range [0, 100]");
        }
        if !(0..=10).contains(&point.score) {
            let path = format!("{path}[{index}].score");
            faults.invalid(&path, point.score, "not in valid range [0, 10]");
        }
    }
}

/// Scores from 0 to 100 by utilization in percent.
#[derive(Debug)]
pub(crate) struct Ratings(Box<[i64; 101]>);

impl Ratings {
    /// Computes the scores of a validated shape.
    pub(crate) fn of(shape: &[ShapePoint]) -> Self {
        let point =
            |point: &ShapePoint| (i64::from(point.utilization), 10 * i64::from(point.score));
        let line: Vec<_> = shape.iter().map(point).collect();
        let mut utilization = 0..;
        Self(Box::new([(); 101].map(|()| interpolate(&line, utilization.next().unwrap_or(100)))))
    }

    /// Returns the score of a utilization from 0 to 100.
    pub(crate) fn get(&self, utilization: i64) -> i64 {
        usize::try_from(utilization).ok().and_then(|place| self.0.get(place)).copied().unwrap_or(0)
    }
}

/// Interpolates between `points` at `x`. The value is constant before the first point and after the
/// last.
fn interpolate(points: &[(i64, i64)], x: i64) -> i64 {
    match points.iter().position(|(end, _)| x <= *end) {
        Some(0) => points[0].1,
        Some(next) => {
            let ((x0, y0), (x1, y1)) = (points[next - 1], points[next]);
            y0 + (y1 - y0) * (x - x0) / (x1 - x0)
        }
        None => points.last().map_or(0, |(_, y)| *y),
    }
}

/// Returns the quotient, with halves rounded away from zero.
pub(crate) fn rounded(sum: i64, weights: i64) -> i64 {
    (sum as f64 / weights as f64).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_sorted_and_within_their_ranges() {
        let faults = |points: &[(i32, i32)]| {
            let point = |&(utilization, score)| ShapePoint { utilization, score };
            let shape: Vec<_> = points.iter().map(point).collect();
            let mut faults = Faults::default();
            check_shape("shape", &shape, &mut faults);
            faults.none_or(()).err().unwrap_or_default()
        };
        let unsorted =
            "shape[1].utilization: Invalid value: 5: values must be sorted in increasing order";
        for (points, expected) in [
            (&[(0, 0), (100, 10)][..], ""),
            (&[], "shape: Required value: at least one point must be specified"),
            (&[(5, 1), (5, 2)], unsorted),
            (&[(-1, 1)], "shape[0].utilization: Invalid value: -1: not in valid range [0, 100]"),
            (&[(101, 1)], "shape[0].utilization: Invalid value: 101: not in valid range [0, 100]"),
            (&[(1, -1)], "shape[0].score: Invalid value: -1: not in valid range [0, 10]"),
            (&[(1, 11)], "shape[0].score: Invalid value: 11: not in valid range [0, 10]"),
        ] {
            assert_eq!(faults(points), expected, "{points:?}");
        }
    }

    #[test]
    fn shape_interpolates_with_truncation_and_is_constant_outside() {
        let line = [(10, 1), (90, 9)];
        for (x, y) in [(-5, 1), (0, 1), (10, 1), (15, 1), (20, 2), (89, 8), (90, 9), (99, 9)] {
            assert_eq!(interpolate(&line, x), y, "{x}");
        }
        let falling = [(0, 100), (100, 0)];
        assert_eq!([0, 1, 50, 100].map(|x| interpolate(&falling, x)), [100, 99, 50, 0]);
    }
}
