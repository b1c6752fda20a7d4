//! Means of few samples with their 95 % intervals.

/// The mean of some samples, and half the width of Student's 95 % interval; one sample has none.
#[must_use]
pub fn mean(samples: &[f64]) -> (f64, Option<f64>) {
    let number = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / number;
    if samples.len() < 2 {
        return (mean, None);
    }
    let squares: f64 = samples.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / (number - 1.0) / number).sqrt();
    (mean, Some(t_quantile(samples.len() - 1) * error))
}

/// Student's t that |t| exceeds with a probability of 5 %.
fn t_quantile(degrees: usize) -> f64 {
    // With one degree of freedom it is 12.7, and it falls from there.
    let (mut low, mut high) = (0.0, 13.0);
    while high - low > 1e-9 {
        let middle = (low + high) / 2.0;
        match within(middle, degrees) < 0.95 {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// The probability that |t| is at most `t` (Abramowitz and Stegun, equations 26.7.3 and 26.7.4).
fn within(t: f64, degrees: usize) -> f64 {
    let freedom = degrees as f64;
    let hypotenuse = (freedom + t * t).sqrt();
    let (sine, cosine) = (t / hypotenuse, freedom.sqrt() / hypotenuse);
    let odd = degrees % 2 == 1;
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = if degrees == 1 { 0.0 } else { term };
    // Each term has two factors more than the one before.
    for factor in (2 + usize::from(odd)..degrees).step_by(2) {
        term *= (factor - 1) as f64 / factor as f64 * cosine * cosine;
        sum += term;
    }
    match odd {
        true => std::f64::consts::FRAC_2_PI * (libm::atan(t / freedom.sqrt()) + sine * sum),
        false => sine * sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (degrees, expected) in [
            (1, 12.706_205),
            (2, 4.302_653),
            (3, 3.182_446),
            (4, 2.776_445),
            (9, 2.262_157),
            (10, 2.228_139),
            (29, 2.045_230),
            (100, 1.983_972),
            (1000, 1.962_339),
        ] {
            let found = t_quantile(degrees);
            assert!((found - expected).abs() < 1e-6, "{degrees}: {found}");
        }
    }

    #[test]
    fn the_interval_is_of_the_mean() {
        assert_eq!(mean(&[3.0]), (3.0, None));
        assert_eq!(mean(&[5.0, 5.0, 5.0]), (5.0, Some(0.0)));
        let (value, half) = mean(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(value, 2.5);
        // 3.182446 times the deviation, 1.290994, over the root of 4.
        let half = half.expect("an interval");
        assert!((half - 2.054_260).abs() < 1e-5, "{half}");
    }
}
