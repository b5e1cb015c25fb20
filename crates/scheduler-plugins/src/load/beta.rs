//! The beta distribution.

/// Shapes from which on the distribution is computed as nearly normal. Their fraction converges
/// slowly.
const LARGE: f64 = 3000.0;

/// Number of terms after which the fraction of smaller shapes has converged by far.
const TERMS: u32 = 1000;

/// The smallest divisor.
const TINY: f64 = 1e-300;

/// A beta distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Beta {
    alpha: f64,
    beta: f64,
}

impl Beta {
    /// Returns the distribution with this mean and this standard deviation, if there is one.
    pub(super) fn with_moments(mean: f64, deviation: f64) -> Option<Self> {
        let variance = deviation * deviation;
        let most = mean * (1.0 - mean);
        if !(0.0..=1.0).contains(&mean) || variance <= 0.0 || variance >= most {
            return None;
        }
        let shapes = (most / variance - 1.0).max(f64::MIN_POSITIVE);
        Some(Self { alpha: mean * shapes, beta: (1.0 - mean) * shapes })
    }

    /// Returns the probability of a number up to `x`: the regularized incomplete beta function.
    pub(super) fn up_to(&self, x: f64) -> f64 {
        let Self { alpha, beta } = *self;
        match x {
            low if low <= 0.0 => 0.0,
            high if high >= 1.0 => 1.0,
            _ if alpha.min(beta) > LARGE => self.nearly_normal(x),
            // The fraction converges below the mean.
            _ if x < (alpha + 1.0) / (alpha + beta + 2.0) => self.below_the_mean(x),
            _ => 1.0 - Self { alpha: beta, beta: alpha }.below_the_mean(1.0 - x),
        }
        .clamp(0.0, 1.0)
    }

    /// The continued fraction of Lentz.
    fn below_the_mean(&self, x: f64) -> f64 {
        let Self { alpha, beta } = *self;
        let away = |number: f64| if number.abs() < TINY { TINY } else { number };
        let mut numerator = 1.0;
        let mut denominator = 1.0 / away(1.0 - (alpha + beta) * x / (alpha + 1.0));
        let mut fraction = denominator;
        for term in 1..=TERMS {
            let m = f64::from(term);
            let even = m * (beta - m) * x / ((alpha + 2.0 * m - 1.0) * (alpha + 2.0 * m));
            denominator = 1.0 / away(1.0 + even * denominator);
            numerator = away(1.0 + even / numerator);
            fraction *= denominator * numerator;
            let odd = -(alpha + m) * (alpha + beta + m) * x
                / ((alpha + 2.0 * m) * (alpha + 2.0 * m + 1.0));
            denominator = 1.0 / away(1.0 + odd * denominator);
            numerator = away(1.0 + odd / numerator);
            let step = denominator * numerator;
            fraction *= step;
            if (step - 1.0).abs() < f64::EPSILON {
                break;
            }
        }
        let front = alpha * x.ln() + beta * (1.0 - x).ln() - ln_beta(alpha, beta);
        front.exp() * fraction / alpha
    }

    /// The approximation 26.5.22 of Abramowitz and Stegun, by the normal distribution of cube
    /// roots.
    fn nearly_normal(&self, x: f64) -> f64 {
        let Self { alpha, beta } = *self;
        let (below, above) = ((beta * x).cbrt(), (alpha * (1.0 - x)).cbrt());
        let distance = below * (1.0 - 1.0 / (9.0 * beta)) - above * (1.0 - 1.0 / (9.0 * alpha));
        let spread = (below * below / beta + above * above / alpha).sqrt();
        normal_up_to(3.0 * distance / spread)
    }
}

/// The logarithm of the complete beta function.
fn ln_beta(alpha: f64, beta: f64) -> f64 {
    ln_gamma(alpha) + ln_gamma(beta) - ln_gamma(alpha + beta)
}

/// The logarithm of the gamma function of a positive number, by Lanczos.
fn ln_gamma(x: f64) -> f64 {
    const FACTORS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    const SHIFT: f64 = 7.5;
    if x < 0.5 {
        // By reflection.
        return (std::f64::consts::PI / (std::f64::consts::PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let series = FACTORS
        .iter()
        .enumerate()
        .fold(0.999_999_999_999_809_9, |sum, (at, factor)| sum + factor / (x + at as f64 + 1.0));
    let base = x + SHIFT;
    0.5 * std::f64::consts::TAU.ln() + (x + 0.5) * base.ln() - base + series.ln()
}

/// Returns the probability of a number up to `x` of the normal distribution.
fn normal_up_to(x: f64) -> f64 {
    // The complementary error function by a fraction of Chebyshev, exact to 1.2e-7.
    const FACTORS: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let distance = x.abs() / std::f64::consts::SQRT_2;
    let step = 1.0 / (1.0 + 0.5 * distance);
    let exponent = FACTORS.iter().rev().fold(0.0, |sum, factor| sum * step + factor);
    let tail = 0.5 * step * (exponent - distance * distance).exp();
    if x < 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The probability as an integral: the density around the mean, in small steps.
    pub(in crate::load) fn integrated(alpha: f64, beta: f64, x: f64) -> f64 {
        const STEPS: u32 = 50_000;
        let scale = ln_beta(alpha, beta);
        // With the substitution x = sin², the density has no poles at the ends for shapes of a half
        // and more.
        let end = x.sqrt().asin();
        let density = |angle: f64| {
            let (sin, cos) = angle.sin_cos();
            let power = (2.0 * alpha - 1.0) * sin.ln() + (2.0 * beta - 1.0) * cos.ln();
            2.0 * (power - scale).exp()
        };
        let width = end / f64::from(STEPS);
        (0..STEPS).map(|step| density((f64::from(step) + 0.5) * width) * width).sum()
    }

    #[test]
    fn logarithms_of_gamma_are_those_of_factorials() {
        let mut factorial = 1.0_f64;
        for n in 1..30 {
            assert!((ln_gamma(f64::from(n)) - factorial.ln()).abs() < 1e-10, "{n}");
            factorial *= f64::from(n);
        }
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-12);
        assert!((ln_gamma(0.25) - 3.625_609_908_221_908_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn probabilities_of_known_distributions() {
        for (alpha, beta, x, expected) in [
            (1.0, 1.0, 0.3, 0.3),
            (2.0, 2.0, 0.5, 0.5),
            (2.0, 1.0, 0.5, 0.25),
            (1.0, 3.0, 0.5, 0.875),
            (0.5, 0.5, 0.5, 0.5),
            (5.0, 2.0, 0.7, 0.420_175),
            (2.0, 2.0, 0.0, 0.0),
            (2.0, 2.0, 1.0, 1.0),
        ] {
            let own = Beta { alpha, beta }.up_to(x);
            assert!((own - expected).abs() < 1e-10, "{alpha} {beta} {x}: {own}");
        }
    }

    #[test]
    fn moments_have_a_distribution_only_up_to_the_highest_variance() {
        let own = Beta::with_moments(0.5, (1.0_f64 / 12.0).sqrt()).unwrap();
        assert!((own.alpha - 1.0).abs() < 1e-9 && (own.beta - 1.0).abs() < 1e-9, "{own:?}");
        for (mean, deviation) in [(0.5, 0.5), (0.5, 0.0), (0.0, 0.1), (1.0, 0.1), (1.5, 0.1)] {
            assert_eq!(Beta::with_moments(mean, deviation), None, "{mean} {deviation}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The probability is that of the integral, also for large shapes.
        #[test]
        fn probability_is_the_integral_of_the_density(
            mean in 0.02..0.98_f64, spread in 0.001..0.6_f64, distance in -3.0..3.0_f64,
        ) {
            let deviation = spread * (mean * (1.0 - mean)).sqrt();
            let own = Beta::with_moments(mean, deviation).unwrap();
            prop_assume!(own.alpha > 0.5 && own.beta > 0.5);
            let x = (mean + distance * deviation).clamp(0.0, 1.0);
            let expected = integrated(own.alpha, own.beta, x);
            prop_assert!((own.up_to(x) - expected).abs() < 1e-5, "{:?} {}: {}", own, own.up_to(x), expected);
        }
    }
}
