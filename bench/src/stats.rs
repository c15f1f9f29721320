//! What the rounds of one subject boil down to.
//!
//! A round gives one value per metric. The figure quoted is the median of the rounds, with the smallest and the
//! largest beside it. Two subjects are compared round by round (the value of round `i` over the other's value of
//! round `i`) and the median of those ratios is quoted, so that a machine that slows down half-way slows both.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// What a value counts, and so which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Events per second; more is better.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Nanoseconds; less is better.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Microseconds; less is better.
    #[serde(rename = "us")]
    Microseconds,
    /// Bytes; less is better.
    #[serde(rename = "bytes")]
    Bytes,
    /// A part of a whole, 0 to 1; neither direction is better by itself.
    #[serde(rename = "share")]
    Share,
    /// One value over another; neither direction is better by itself.
    #[serde(rename = "ratio")]
    Ratio,
}

impl Unit {
    /// The name used in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Unit::PerSecond => "1/s",
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "us",
            Unit::Bytes => "bytes",
            Unit::Share => "share",
            Unit::Ratio => "ratio",
        }
    }

    /// Whether `a` is a better value than `b`; `None` where no value is better than another.
    pub fn is_better(self, a: f64, b: f64) -> Option<bool> {
        match self {
            Unit::PerSecond => Some(a > b),
            Unit::Nanoseconds | Unit::Microseconds | Unit::Bytes => Some(a < b),
            Unit::Share | Unit::Ratio => None,
        }
    }
}

/// One value that one round measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What was measured.
    pub metric: Cow<'static, str>,
    /// How much of it.
    pub value: f64,
    /// In which unit.
    pub unit: Unit,
}

impl Sample {
    /// A sample of `metric`.
    pub const fn new(metric: &'static str, value: f64, unit: Unit) -> Self {
        Sample { metric: Cow::Borrowed(metric), value, unit }
    }
}

/// Median, smallest and largest of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle value; with an even count the mean of the two middle ones.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Summary {
    /// The summary of `values`, or `None` when there are none.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] };
        Some(Summary { median, min, max })
    }

    /// The summary of `values[i] / base[i]`: only rounds that both have count, and only those with a base to divide by.
    pub fn of_ratios(values: &[f64], base: &[f64]) -> Option<Summary> {
        let ratios: Vec<f64> =
            values.iter().zip(base).filter(|(_, base)| **base != 0.0).map(|(value, base)| value / base).collect();
        Summary::of(&ratios)
    }
}

/// All rounds of one metric of one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What was measured.
    pub metric: String,
    /// In which unit.
    pub unit: Unit,
    /// One value per round, in the order of the rounds.
    pub values: Vec<f64>,
}

impl Series {
    /// Sorts the samples of many rounds into one series per metric, metrics in the order they first appear.
    pub fn collect(rounds: &[Vec<Sample>]) -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        for sample in rounds.iter().flatten() {
            match all.iter_mut().find(|series| series.metric == sample.metric) {
                Some(series) => series.values.push(sample.value),
                None => all.push(Series {
                    metric: sample.metric.to_string(),
                    unit: sample.unit,
                    values: vec![sample.value],
                }),
            }
        }
        all
    }

    /// The geometric mean of the same metric in several cases, round by round; where not every case has the round, or
    /// where the unit has no better and worse, there is none.
    pub fn geometric_mean(cases: &[&Series]) -> Option<Series> {
        let first = cases.first()?;
        first.unit.is_better(0.0, 0.0)?;
        let rounds = cases.iter().map(|series| series.values.len()).min()?;
        let mean = |round: usize| {
            let logarithms: f64 = cases.iter().map(|series| series.values[round].ln()).sum();
            (logarithms / cases.len() as f64).exp()
        };
        Some(Series { metric: first.metric.clone(), unit: first.unit, values: (0..rounds).map(mean).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_the_order_and_one_wild_round() {
        let summary = Summary::of(&[30.0, 10.0, 20.0, 9000.0, 25.0]).unwrap();
        assert_eq!(summary, Summary { median: 25.0, min: 10.0, max: 9000.0 });
    }

    #[test]
    fn an_even_count_takes_the_mean_of_the_two_in_the_middle() {
        assert_eq!(Summary::of(&[4.0, 1.0, 3.0, 2.0]).unwrap().median, 2.5);
    }

    #[test]
    fn one_round_is_its_own_summary_and_none_has_no_summary() {
        assert_eq!(Summary::of(&[7.0]).unwrap(), Summary { median: 7.0, min: 7.0, max: 7.0 });
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn ratios_pair_the_rounds_so_a_slow_spell_cancels_out() {
        // The machine halves its speed in the last two rounds; the subject stays 1.5 times as fast throughout.
        let ours = [150.0, 150.0, 75.0, 75.0];
        let theirs = [100.0, 100.0, 50.0, 50.0];
        let ratio = Summary::of_ratios(&ours, &theirs).unwrap();
        assert_eq!((ratio.min, ratio.median, ratio.max), (1.5, 1.5, 1.5));
    }

    #[test]
    fn ratios_skip_rounds_without_a_base() {
        assert_eq!(Summary::of_ratios(&[3.0, 4.0], &[0.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Summary::of_ratios(&[3.0], &[0.0]), None);
    }

    #[test]
    fn rounds_become_one_series_per_metric_in_order() {
        let round = |a, b| vec![Sample::new("a", a, Unit::Nanoseconds), Sample::new("b", b, Unit::PerSecond)];
        let series = Series::collect(&[round(1.0, 10.0), round(2.0, 20.0)]);
        assert_eq!(series.len(), 2);
        assert_eq!((series[0].metric.as_str(), &series[0].values[..]), ("a", &[1.0, 2.0][..]));
        assert_eq!((series[1].metric.as_str(), &series[1].values[..]), ("b", &[10.0, 20.0][..]));
    }

    #[test]
    fn a_geometric_mean_weighs_every_case_alike() {
        let series = |values: &[f64], unit| Series { metric: "m".to_owned(), unit, values: values.to_vec() };
        let small = series(&[1.0, 2.0, 9.0], Unit::PerSecond);
        let large = series(&[100.0, 50.0], Unit::PerSecond);
        let mean = Series::geometric_mean(&[&small, &large]).unwrap();
        assert_eq!(mean.values.len(), 2, "only rounds that both have");
        assert!(mean.values.iter().all(|value| (value - 10.0).abs() < 1e-9), "{mean:?}");
        let share = series(&[0.5], Unit::Share);
        assert_eq!(Series::geometric_mean(&[&share, &share]), None);
        assert_eq!(Series::geometric_mean(&[]), None);
    }

    #[test]
    fn better_means_more_per_second_and_less_of_the_rest() {
        assert_eq!(Unit::PerSecond.is_better(2.0, 1.0), Some(true));
        assert_eq!(Unit::Nanoseconds.is_better(2.0, 1.0), Some(false));
        assert_eq!(Unit::Share.is_better(2.0, 1.0), None);
    }

    #[test]
    fn units_read_back_from_json_under_the_names_the_tables_show() {
        for unit in [Unit::PerSecond, Unit::Nanoseconds, Unit::Microseconds, Unit::Bytes, Unit::Share, Unit::Ratio] {
            let json = serde_json::to_string(&unit).unwrap();
            assert_eq!(json, format!("{:?}", unit.name()));
            assert_eq!(serde_json::from_str::<Unit>(&json).unwrap(), unit);
        }
    }
}
