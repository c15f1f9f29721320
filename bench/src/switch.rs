//! `switch`: what it costs to go from one task to the next.
//!
//! `n` tasks yield to each other. Every task checks that all the others ran exactly once since its own last turn; a
//! runtime that lets a task run again straight away, or skips one, is not switching, and its round is refused. The
//! clock runs from the first turn to the last, so starting and joining the tasks is not in the figure.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::bench::positive;
use crate::executor::Executor;
use crate::failure::Failure;
use crate::stats::{Sample, Unit};

/// Tasks that take turns.
pub const CASES: &[&str] = &["2", "1000"];

/// Turns of all tasks together, in one dance.
const TURNS: u64 = 100_000;

thread_local! {
    static FLOOR: Floor = const { Floor::new() };
}

/// One round on executor `E`.
pub fn round<E: Executor>(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    let tasks = positive(case)? as u64;
    if tasks < 2 {
        return Err(Failure::new("switch between tasks", "it takes two tasks at least"));
    }
    let (nanoseconds, out_of_order) = E::run(move || dances::<E>(tasks, budget))?;
    if out_of_order > 0 {
        return Err(Failure::new(
            format!("switch between {tasks} tasks"),
            format!("{out_of_order} turns were taken out of order, so this is no switch"),
        ));
    }
    Ok(vec![Sample::new("switch", nanoseconds, Unit::Nanoseconds)])
}

async fn dances<E: Executor>(tasks: u64, budget: Duration) -> (f64, u64) {
    let turns = (TURNS / tasks).max(20);
    let (warm_up, mut out_of_order) = dance::<E>(tasks, turns).await;
    let mut total = Duration::ZERO;
    let mut switches = 0;
    while total == Duration::ZERO || total + warm_up < budget {
        let (time, wrong) = dance::<E>(tasks, turns).await;
        total += time;
        switches += tasks * turns - 1;
        out_of_order += wrong;
    }
    (total.as_nanos() as f64 / switches as f64, out_of_order)
}

async fn dance<E: Executor>(tasks: u64, turns: u64) -> (Duration, u64) {
    FLOOR.with(|floor| floor.clear(tasks, turns));
    let dancers: Vec<_> = (0..tasks).map(|_| E::spawn(dancer::<E>(turns))).collect();
    for dancer in dancers {
        E::join(dancer).await;
    }
    FLOOR.with(Floor::result)
}

async fn dancer<E: Executor>(turns: u64) {
    let mut last = None;
    for _ in 1..turns {
        last = Some(FLOOR.with(|floor| floor.turn(last)));
        E::yield_now().await;
    }
    FLOOR.with(|floor| floor.turn(last));
    E::yielded_last();
}

/// Whose turn it was, as far as the order can tell.
struct Floor {
    tasks: Cell<u64>,
    final_turn: Cell<u64>,
    taken: Cell<u64>,
    out_of_order: Cell<u64>,
    start: Cell<Option<Instant>>,
    end: Cell<Option<Instant>>,
}

impl Floor {
    const fn new() -> Self {
        Floor {
            tasks: Cell::new(0),
            final_turn: Cell::new(0),
            taken: Cell::new(0),
            out_of_order: Cell::new(0),
            start: Cell::new(None),
            end: Cell::new(None),
        }
    }

    fn clear(&self, tasks: u64, turns: u64) {
        self.tasks.set(tasks);
        self.final_turn.set(tasks * turns - 1);
        self.taken.set(0);
        self.out_of_order.set(0);
        self.start.set(None);
        self.end.set(None);
    }

    /// Takes the next turn; `last` is the number of the caller's own last turn.
    fn turn(&self, last: Option<u64>) -> u64 {
        let turn = self.taken.get();
        self.taken.set(turn + 1);
        if let Some(last) = last
            && turn - last != self.tasks.get()
        {
            self.out_of_order.set(self.out_of_order.get() + 1);
        }
        if turn == 0 {
            self.start.set(Some(Instant::now()));
        } else if turn == self.final_turn.get() {
            self.end.set(Some(Instant::now()));
        }
        turn
    }

    fn result(&self) -> (Duration, u64) {
        let time = match (self.start.get(), self.end.get()) {
            (Some(start), Some(end)) => end - start,
            _ => unreachable!("all tasks have taken all their turns"),
        };
        (time, self.out_of_order.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(order: &[usize], tasks: usize) -> u64 {
        let floor = Floor::new();
        floor.clear(tasks as u64, (order.len() / tasks) as u64);
        let mut last = vec![None; tasks];
        for task in order {
            last[*task] = Some(floor.turn(last[*task]));
        }
        floor.result().1
    }

    #[test]
    fn taking_turns_is_in_order_whoever_begins() {
        assert_eq!(play(&[0, 1, 0, 1, 0, 1], 2), 0);
        assert_eq!(play(&[2, 0, 1, 2, 0, 1], 3), 0);
    }

    #[test]
    fn a_task_that_runs_twice_in_a_row_is_noticed() {
        assert!(play(&[0, 0, 1, 1, 0, 1], 2) > 0);
    }

    #[test]
    fn an_order_that_turns_round_is_noticed() {
        assert!(play(&[0, 1, 1, 0, 0, 1], 2) > 0);
    }
}
