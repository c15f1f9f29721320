//! What comes out: a table per case for people, or a line of JSON per figure for programs.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::bench::Bench;
use crate::echo;
use crate::rounds::Outcome;
use crate::stats::{Series, Summary, Unit};

/// One case of one benchmark, all subjects.
#[derive(Debug)]
pub struct Report<'a> {
    /// The benchmark.
    pub bench: Bench,
    /// The case.
    pub case: &'a str,
    /// The subjects and their series.
    pub outcomes: &'a [Outcome],
    /// The subject the others are divided by.
    pub against: Option<&'a str>,
}

/// One figure as JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    bench: String,
    case: &'a str,
    subject: &'a str,
    metric: String,
    value: f64,
    min: f64,
    max: f64,
    unit: Unit,
}

impl Report<'_> {
    /// Writes a line of JSON per figure.
    ///
    /// With a subject to compare against, every figure of another subject is followed by its ratio to that subject's,
    /// under the name `metric/subject`.
    pub fn write_json(&self, mut out: impl Write) -> io::Result<()> {
        for (subject, series) in self.measured() {
            let ratio = self.ratio(subject, series);
            let quoted = [
                (series.metric.clone(), Summary::of(&series.values), series.unit),
                (format!("{}/{}", series.metric, self.against.unwrap_or_default()), ratio, Unit::Ratio),
            ];
            for (metric, summary, unit) in quoted {
                let Some(Summary { median, min, max }) = summary else {
                    continue;
                };
                let line = Line {
                    bench: self.bench.to_string(),
                    case: self.case,
                    subject,
                    metric,
                    value: median,
                    min,
                    max,
                    unit,
                };
                serde_json::to_writer(&mut out, &line)?;
                writeln!(out)?;
            }
        }
        Ok(())
    }

    /// Writes the table, and below it what has to be said about it.
    pub fn write_table(&self, mut out: impl Write) -> io::Result<()> {
        let metrics = self.metrics();
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(
            std::iter::once(format!("{} {}", self.bench, self.case))
                .chain(metrics.iter().map(|(metric, unit)| format!("{metric} [{}]", unit.name()))),
        );
        for outcome in self.outcomes {
            let Ok(series) = &outcome.result else {
                continue;
            };
            let cells = metrics.iter().map(|(metric, _)| {
                series
                    .iter()
                    .find(|series| series.metric == *metric)
                    .map(|series| self.cell(outcome.subject, series))
                    .unwrap_or_default()
            });
            table.add_row(std::iter::once(outcome.subject.to_owned()).chain(cells));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(out, "{}", table.trim_fmt())?;
        for note in self.notes() {
            writeln!(out, "  {note}")?;
        }
        writeln!(out)
    }

    fn measured(&self) -> impl Iterator<Item = (&'static str, &Series)> {
        self.outcomes
            .iter()
            .filter_map(|outcome| Some((outcome.subject, outcome.result.as_ref().ok()?)))
            .flat_map(|(subject, series)| series.iter().map(move |series| (subject, series)))
    }

    fn metrics(&self) -> Vec<(&str, Unit)> {
        let mut metrics = Vec::new();
        for (_, series) in self.measured() {
            if !metrics.iter().any(|(metric, _)| *metric == series.metric) {
                metrics.push((series.metric.as_str(), series.unit));
            }
        }
        metrics
    }

    fn cell(&self, subject: &str, series: &Series) -> String {
        let Some(Summary { median, min, max }) = Summary::of(&series.values) else {
            return String::new();
        };
        let unit = series.unit;
        let best = if self.is_best(series) { "*" } else { "" };
        let ratio = self.ratio(subject, series).map(|ratio| format!(" x{:.2}", ratio.median)).unwrap_or_default();
        format!("{best}{} ({}..{}){ratio}", figure(median, unit), figure(min, unit), figure(max, unit))
    }

    fn is_best(&self, series: &Series) -> bool {
        let Some(mine) = Summary::of(&series.values) else {
            return false;
        };
        let others = || self.measured().filter(|(_, other)| other.metric == series.metric);
        series.unit.is_better(mine.median, mine.median).is_some()
            && others().count() > 1
            && others().all(|(_, other)| {
                Summary::of(&other.values)
                    .is_none_or(|other| series.unit.is_better(other.median, mine.median) != Some(true))
            })
    }

    fn ratio(&self, subject: &str, series: &Series) -> Option<Summary> {
        let against = self.against.filter(|against| *against != subject)?;
        series.unit.is_better(0.0, 0.0)?;
        let (_, base) = self.measured().find(|(other, base)| *other == against && base.metric == series.metric)?;
        Summary::of_ratios(&series.values, &base.values)
    }

    /// The subjects whose median shares of the server's and the load's core satisfy `condition`.
    fn with_shares(&self, condition: impl Fn(f64, f64) -> bool) -> Vec<&'static str> {
        let share = |series: &[Series], metric| {
            let series = series.iter().find(|series| series.metric == metric)?;
            Some(Summary::of(&series.values)?.median)
        };
        self.outcomes
            .iter()
            .filter(|outcome| {
                outcome.result.as_ref().is_ok_and(|series| {
                    let server = share(series, echo::SERVER_SHARE);
                    let load = share(series, echo::LOAD_SHARE);
                    server.zip(load).is_some_and(|(server, load)| condition(server, load))
                })
            })
            .map(|outcome| outcome.subject)
            .collect()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let saturated = self.with_shares(|_, load| load >= echo::SATURATED);
        if !saturated.is_empty() {
            notes.push(format!(
                "the load's core was full against {}: compare these by server_cpu_per_request, not by requests",
                saturated.join(", ")
            ));
        }
        let disturbed = self.with_shares(|server, load| server.max(load) < echo::UNDISTURBED);
        if !disturbed.is_empty() && !self.case.starts_with("1x") {
            notes.push(format!(
                "neither core was full with {}: something else ran on this machine, measure again when it is idle",
                disturbed.join(", ")
            ));
        }
        for outcome in self.outcomes {
            if let Err(failure) = &outcome.result {
                notes.push(format!("{} failed: {failure}", outcome.subject));
            }
        }
        notes
    }
}

/// A figure with three or four digits that count.
fn figure(value: f64, unit: Unit) -> String {
    if unit == Unit::Share {
        return format!("{:.0}%", value * 100.0);
    }
    match value.abs() {
        1e7.. => format!("{:.1}M", value / 1e6),
        1e6.. => format!("{:.2}M", value / 1e6),
        1e4.. => format!("{:.1}k", value / 1e3),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    fn series(metric: &str, unit: Unit, values: &[f64]) -> Series {
        Series { metric: metric.to_owned(), unit, values: values.to_vec() }
    }

    fn outcomes() -> Vec<Outcome> {
        let outcome = |subject, requests, load| Outcome {
            subject,
            result: Ok(vec![
                series("requests", Unit::PerSecond, requests),
                series(echo::SERVER_SHARE, Unit::Share, &[0.5, 0.5, 0.5]),
                series(echo::LOAD_SHARE, Unit::Share, load),
            ]),
        };
        vec![
            outcome("fast", &[200_000.0, 100_000.0, 210_000.0], &[0.99, 0.99, 0.5]),
            outcome("slow", &[100_000.0, 50_000.0, 100_000.0], &[0.6, 0.99, 0.6]),
            Outcome { subject: "broken", result: Err(Failure::new("listen", "no")) },
        ]
    }

    fn report<'a>(outcomes: &'a [Outcome], against: Option<&'a str>) -> Report<'a> {
        Report { bench: Bench::Echo, case: "50x64", outcomes, against }
    }

    #[test]
    fn json_has_one_line_per_figure_with_the_agreed_keys() {
        let outcomes = outcomes();
        let mut out = Vec::new();
        report(&outcomes, None).write_json(&mut out).unwrap();
        let lines: Vec<_> = std::str::from_utf8(&out).unwrap().lines().collect();
        assert_eq!(lines.len(), 6);
        assert_eq!(
            lines[0],
            concat!(
                r#"{"bench":"echo","case":"50x64","subject":"fast","metric":"requests","#,
                r#""value":200000.0,"min":100000.0,"max":210000.0,"unit":"1/s"}"#
            )
        );
    }

    #[test]
    fn json_ratios_are_paired_by_round() {
        let outcomes = outcomes();
        let mut out = Vec::new();
        report(&outcomes, Some("slow")).write_json(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let ratio = text.lines().find(|line| line.contains("requests/slow")).unwrap();
        assert!(ratio.contains(r#""value":2.0,"min":2.0,"max":2.1,"unit":"ratio""#), "{ratio}");
        assert_eq!(text.matches("/slow").count(), 1, "none for itself, none for shares");
    }

    #[test]
    fn the_table_marks_the_best_and_says_what_is_wrong() {
        let outcomes = outcomes();
        let mut out = Vec::new();
        report(&outcomes, Some("slow")).write_table(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("*200.0k (100.0k..210.0k) x2.00"), "{text}");
        assert!(text.contains("load's core was full against fast:"), "{text}");
        assert!(text.contains("neither core was full with slow:"), "{text}");
        assert!(text.contains("broken failed: listen: no"), "{text}");
    }

    #[test]
    fn figures_keep_the_digits_that_count() {
        let ns = |value| figure(value, Unit::Nanoseconds);
        assert_eq!(
            [ns(0.5), ns(69.27), ns(631.4), ns(12_605.0), ns(9_900_000.0), ns(12_000_000.0)],
            ["0.50", "69.3", "631", "12.6k", "9.90M", "12.0M"]
        );
        assert_eq!(figure(0.994, Unit::Share), "99%");
    }
}
