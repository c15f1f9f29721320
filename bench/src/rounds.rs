//! Alternating rounds: every subject gets a short turn, again and again, until each has had all of its turns.
//!
//! A machine drifts within seconds. Subjects measured one after another would be compared across that drift; measured
//! in turns they share it. Each pass begins with another subject, so that none always runs in the wake of the same one.
//! The first pass only warms up and is thrown away. A subject that fails is out; the others go on.

use std::time::Duration;

use crate::failure::Failure;
use crate::stats::{Sample, Series};

/// One subject in one case, ready for rounds.
pub trait Lane {
    /// Measures once, for about `budget`.
    fn round(&mut self, budget: Duration) -> Result<Vec<Sample>, Failure>;
}

/// What became of one subject in one case.
#[derive(Debug)]
pub struct Outcome {
    /// The subject.
    pub subject: &'static str,
    /// Its series, or why there are none.
    pub result: Result<Vec<Series>, Failure>,
}

/// How often and how long.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds that count, per subject.
    pub rounds: usize,
    /// The length of each.
    pub budget: Duration,
}

type Starter<'a> = Box<dyn FnOnce() -> Result<Box<dyn Lane>, Failure> + 'a>;

/// Runs `plan` over the subjects, each started by its function.
pub fn alternate(subjects: Vec<(&'static str, Starter<'_>)>, plan: Plan) -> Vec<Outcome> {
    let mut lanes: Vec<_> = subjects.into_iter().map(|(subject, start)| (subject, start(), Vec::new())).collect();
    let number = lanes.len();
    for pass in 0..=plan.rounds {
        for turn in 0..number {
            let (_, lane, rounds) = &mut lanes[(pass + turn) % number];
            let Ok(running) = lane else { continue };
            match running.round(plan.budget) {
                Ok(_) if pass == 0 => {}
                Ok(samples) => rounds.push(samples),
                Err(failure) => *lane = Err(failure),
            }
        }
    }
    lanes
        .into_iter()
        .map(|(subject, lane, rounds)| Outcome { subject, result: lane.map(|_| Series::collect(&rounds)) })
        .collect()
}

/// The geometric mean over several cases, of each subject that came through all of them.
pub fn geometric_mean(cases: &[Vec<Outcome>]) -> Vec<Outcome> {
    let Some((first, others)) = cases.split_first() else { return Vec::new() };
    let mean_of = |outcome: &Outcome| {
        let series = outcome.result.as_ref().ok()?;
        let elsewhere: Vec<&Vec<Series>> = others
            .iter()
            .map(|case| case.iter().find(|other| other.subject == outcome.subject)?.result.as_ref().ok())
            .collect::<Option<_>>()?;
        let means = series.iter().filter_map(|series| {
            let mut all = vec![series];
            for case in &elsewhere {
                all.push(case.iter().find(|other| other.metric == series.metric)?);
            }
            Series::geometric_mean(&all)
        });
        Some(Outcome { subject: outcome.subject, result: Ok(means.collect()) })
    };
    first.iter().filter_map(mean_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Unit;
    use std::cell::RefCell;
    use std::rc::Rc;

    struct Scripted {
        name: &'static str,
        log: Rc<RefCell<Vec<&'static str>>>,
        turn: usize,
        fails_at: Option<usize>,
    }

    impl Lane for Scripted {
        fn round(&mut self, _budget: Duration) -> Result<Vec<Sample>, Failure> {
            self.log.borrow_mut().push(self.name);
            self.turn += 1;
            if self.fails_at == Some(self.turn) {
                return Err(Failure::new("run", "scripted"));
            }
            Ok(vec![Sample::new("turn", self.turn as f64, Unit::Nanoseconds)])
        }
    }

    fn run(fails: [Option<usize>; 3]) -> (Vec<&'static str>, Vec<Outcome>) {
        let log = Rc::new(RefCell::new(Vec::new()));
        let subjects = ["a", "b", "c"]
            .into_iter()
            .zip(fails)
            .map(|(name, fails_at)| {
                let log = log.clone();
                let start: Starter<'_> = Box::new(move || {
                    if fails_at == Some(0) {
                        return Err(Failure::new("start", "scripted"));
                    }
                    Ok(Box::new(Scripted { name, log, turn: 0, fails_at }))
                });
                (name, start)
            })
            .collect();
        let plan = Plan { rounds: 3, budget: Duration::ZERO };
        let outcomes = alternate(subjects, plan);
        (log.take(), outcomes)
    }

    #[test]
    fn subjects_take_turns_and_each_pass_begins_with_another() {
        let (log, _) = run([None; 3]);
        assert_eq!(log.join(""), "abc".to_owned() + "bca" + "cab" + "abc");
    }

    #[test]
    fn a_mean_takes_the_subjects_that_came_through_every_case() {
        let cases = [run([None; 3]).1, run([None, Some(2), None]).1];
        let means = geometric_mean(&cases);
        assert_eq!(means.iter().map(|mean| mean.subject).collect::<Vec<_>>(), ["a", "c"]);
        let values = &means[0].result.as_ref().unwrap()[0].values;
        assert!((values[0] - 2.0).abs() < 1e-9 && values.len() == 3, "{values:?}");
    }

    #[test]
    fn the_warm_up_pass_does_not_count() {
        let (_, outcomes) = run([None; 3]);
        for outcome in outcomes {
            assert_eq!(outcome.result.unwrap()[0].values, [2.0, 3.0, 4.0]);
        }
    }

    #[test]
    fn a_subject_that_fails_is_out_and_the_others_go_on() {
        let (log, outcomes) = run([Some(2), None, Some(0)]);
        assert_eq!(log.join(""), "abbabb");
        assert!(outcomes[0].result.is_err());
        assert_eq!(outcomes[1].result.as_ref().unwrap()[0].values.len(), 3);
        assert!(outcomes[2].result.as_ref().unwrap_err().to_string().starts_with("start"));
    }
}
