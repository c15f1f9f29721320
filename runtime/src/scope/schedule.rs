//! Schedules: when to try again, as values.
//!
//! A schedule never changes; what a run of it remembers lives in a state beside it, so one policy serves any number of
//! runs and folds to a constant where its parts are constants. Asked for the next delay it answers one, or that it has
//! ended. Delays saturate, never overflow. Jitter is applied to the base delay of a step and never fed back into the
//! next; `jittered(a | b)` ends when `a | b` does.

use std::ops::{BitAnd, BitOr};
use std::time::Duration;

/// A policy of delays.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::schedule::{Schedule, exponential, recurs};
///
/// let policy = exponential(Duration::from_millis(100)) & recurs(5);
/// let delays: Vec<u128> = policy.delays().map(|delay| delay.as_millis()).collect();
/// assert_eq!(delays, [100, 200, 400, 800, 1600]);
/// ```
pub trait Schedule: Clone {
    /// What one run remembers.
    type State;

    /// A run that has not begun.
    fn start(&self) -> Self::State;

    /// The next delay; none when the schedule has ended.
    fn next(&self, state: &mut Self::State) -> Option<Duration>;

    /// The delays of one run, in order.
    fn delays(&self) -> Delays<Self> {
        Delays { state: self.start(), schedule: self.clone() }
    }

    /// Multiplies each delay by a factor between `low` and `high`, drawn from `seed`; the same seed draws the same.
    /// Factors that are no finite number, negative or in the wrong order are brought into order: see [`Jittered`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::schedule::{Schedule, spaced};
    ///
    /// let policy = spaced(Duration::from_secs(10)).jittered(0.8, 1.2, 7);
    /// assert!(policy.delays().take(100).all(|delay| (8..=12).contains(&delay.as_secs())));
    ///
    /// // No number is no factor.
    /// assert_eq!(policy.jittered(f64::NAN, f64::NAN, 7).delays().next(), Some(Duration::ZERO));
    /// ```
    fn jittered(self, low: f64, high: f64, seed: u64) -> Jittered<Self> {
        let (low, high) = in_order(low, high);
        Jittered { schedule: self, low, high, seed }
    }

    /// Ends before the delays add up to more than `limit`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::schedule::{Schedule, spaced};
    ///
    /// assert_eq!(spaced(Duration::from_secs(10)).up_to(Duration::from_secs(35)).delays().count(), 3);
    /// ```
    fn up_to(self, limit: Duration) -> UpTo<Self> {
        UpTo { schedule: self, limit }
    }

    /// Goes on while both do, with the longer delay. The same as `&`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::schedule::{Schedule, recurs, spaced};
    ///
    /// let policy = spaced(Duration::from_secs(1)) & recurs(3);
    /// assert_eq!(policy.delays().collect::<Vec<_>>(), [Duration::from_secs(1); 3]);
    /// ```
    fn both<O: Schedule>(self, other: O) -> Both<Self, O> {
        Both(self, other)
    }

    /// Goes on while either does, with the shorter delay of those that do. The same as `|`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::schedule::{Schedule, exponential, spaced};
    ///
    /// let policy = exponential(Duration::from_secs(1)) | spaced(Duration::from_secs(3));
    /// let delays: Vec<u64> = policy.delays().take(4).map(|delay| delay.as_secs()).collect();
    /// assert_eq!(delays, [1, 2, 3, 3]);
    /// ```
    fn either<O: Schedule>(self, other: O) -> Either<Self, O> {
        Either(self, other)
    }
}

/// The delays of one run; see [`Schedule::delays`].
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::schedule::{Schedule, spaced};
///
/// let mut delays = spaced(Duration::from_secs(1)).delays();
/// assert_eq!(delays.next(), Some(Duration::from_secs(1)));
/// ```
#[derive(Clone, Debug)]
pub struct Delays<S: Schedule> {
    schedule: S,
    state: S::State,
}

impl<S: Schedule> Iterator for Delays<S> {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.schedule.next(&mut self.state)
    }
}

/// `count` times at once.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::schedule::{Schedule, recurs};
///
/// assert_eq!(recurs(2).delays().collect::<Vec<_>>(), [Duration::ZERO; 2]);
/// assert_eq!(recurs(0).delays().next(), None);
/// ```
pub const fn recurs(count: u64) -> Recurs {
    Recurs { count }
}

/// For ever, this long apart.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::schedule::{Schedule, spaced};
///
/// let second = Duration::from_secs(1);
/// assert_eq!(spaced(second).delays().take(3).collect::<Vec<_>>(), [second; 3]);
/// ```
pub const fn spaced(interval: Duration) -> Spaced {
    Spaced { interval }
}

/// For ever, each delay twice the one before, from `base` on.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::schedule::{Schedule, exponential};
///
/// let policy = exponential(Duration::from_secs(1)).factor(3.0).cap(Duration::from_secs(10));
/// let delays: Vec<u64> = policy.delays().take(4).map(|delay| delay.as_secs()).collect();
/// assert_eq!(delays, [1, 3, 9, 10]);
///
/// // Out of bounds they saturate.
/// assert_eq!(exponential(Duration::MAX).factor(f64::INFINITY).delays().nth(9), Some(Duration::MAX));
/// ```
pub const fn exponential(base: Duration) -> Exponential {
    Exponential { base, factor: 2.0, cap: Duration::MAX }
}

/// See [`recurs`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recurs {
    count: u64,
}

impl Schedule for Recurs {
    type State = u64;

    fn start(&self) -> u64 {
        self.count
    }

    fn next(&self, left: &mut u64) -> Option<Duration> {
        *left = left.checked_sub(1)?;
        Some(Duration::ZERO)
    }
}

/// See [`spaced`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spaced {
    interval: Duration,
}

impl Schedule for Spaced {
    type State = ();

    fn start(&self) {}

    fn next(&self, _state: &mut ()) -> Option<Duration> {
        Some(self.interval)
    }
}

/// See [`exponential`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exponential {
    base: Duration,
    factor: f64,
    cap: Duration,
}

impl Exponential {
    /// With another factor. One below 1, or no number, counts as 1: delays never shrink; an infinite one saturates.
    #[must_use]
    pub const fn factor(mut self, factor: f64) -> Exponential {
        self.factor = if factor >= 1.0 { factor } else { 1.0 };
        self
    }

    /// No delay is longer than `cap`.
    #[must_use]
    pub const fn cap(mut self, cap: Duration) -> Exponential {
        self.cap = cap;
        self
    }
}

impl Schedule for Exponential {
    type State = Duration;

    fn start(&self) -> Duration {
        self.base
    }

    fn next(&self, coming: &mut Duration) -> Option<Duration> {
        let delay = (*coming).min(self.cap);
        *coming = scaled(delay, self.factor);
        Some(delay)
    }
}

/// See [`Schedule::both`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Both<A, B>(A, B);

impl<A: Schedule, B: Schedule> Schedule for Both<A, B> {
    type State = (A::State, B::State);

    fn start(&self) -> Self::State {
        (self.0.start(), self.1.start())
    }

    fn next(&self, (a, b): &mut Self::State) -> Option<Duration> {
        // Both step, whichever ends first.
        let (a, b) = (self.0.next(a), self.1.next(b));
        Some(a?.max(b?))
    }
}

/// See [`Schedule::either`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Either<A, B>(A, B);

impl<A: Schedule, B: Schedule> Schedule for Either<A, B> {
    type State = (A::State, B::State);

    fn start(&self) -> Self::State {
        (self.0.start(), self.1.start())
    }

    fn next(&self, (a, b): &mut Self::State) -> Option<Duration> {
        match (self.0.next(a), self.1.next(b)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// See [`Schedule::jittered`].
///
/// A factor below 0, or no number, counts as 0; an infinite one saturates; a `high` below `low` counts as `low`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jittered<S> {
    schedule: S,
    low: f64,
    high: f64,
    seed: u64,
}

impl<S: Schedule> Schedule for Jittered<S> {
    type State = (S::State, u64);

    fn start(&self) -> Self::State {
        (self.schedule.start(), self.seed)
    }

    fn next(&self, (state, chance): &mut Self::State) -> Option<Duration> {
        let base = self.schedule.next(state)?;
        let share = draw(chance);
        // Written so that an infinite bound does not make a number out of nothing.
        let factor = if share == 0.0 { self.low } else { self.low + (self.high - self.low) * share };
        Some(scaled(base, factor).clamp(scaled(base, self.low), scaled(base, self.high)))
    }
}

/// See [`Schedule::up_to`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpTo<S> {
    schedule: S,
    limit: Duration,
}

impl<S: Schedule> Schedule for UpTo<S> {
    type State = (S::State, Duration);

    fn start(&self) -> Self::State {
        (self.schedule.start(), Duration::ZERO)
    }

    fn next(&self, (state, spent): &mut Self::State) -> Option<Duration> {
        let delay = self.schedule.next(state)?;
        *spent = spent.saturating_add(delay);
        (*spent <= self.limit).then_some(delay)
    }
}

/// The combinators once more, for constants: a trait's methods cannot be called in one.
macro_rules! constants {
    ($($schedule:ident $(<$($of:ident),+>)?),+ $(,)?) => {$(
        impl $(<$($of),+>)? $schedule $(<$($of),+>)? {
            /// See [`Schedule::both`]; also in a constant.
            pub const fn both<O>(self, other: O) -> Both<Self, O> {
                Both(self, other)
            }

            /// See [`Schedule::either`]; also in a constant.
            pub const fn either<O>(self, other: O) -> Either<Self, O> {
                Either(self, other)
            }

            /// See [`Schedule::jittered`]; also in a constant.
            pub const fn jittered(self, low: f64, high: f64, seed: u64) -> Jittered<Self> {
                let (low, high) = in_order(low, high);
                Jittered { schedule: self, low, high, seed }
            }

            /// See [`Schedule::up_to`]; also in a constant.
            pub const fn up_to(self, limit: Duration) -> UpTo<Self> {
                UpTo { schedule: self, limit }
            }
        }
    )+};
}

constants!(Recurs, Spaced, Exponential, Both<A, B>, Either<A, B>, Jittered<S>, UpTo<S>);

macro_rules! operators {
    ($($schedule:ty $(where $s:ident)?),*) => {$(
        impl<O: Schedule $(, $s: Schedule)?> BitAnd<O> for $schedule {
            type Output = Both<$schedule, O>;

            fn bitand(self, other: O) -> Both<$schedule, O> {
                Both(self, other)
            }
        }

        impl<O: Schedule $(, $s: Schedule)?> BitOr<O> for $schedule {
            type Output = Either<$schedule, O>;

            fn bitor(self, other: O) -> Either<$schedule, O> {
                Either(self, other)
            }
        }
    )*};
}

operators!(Recurs, Spaced, Exponential, Jittered<S> where S, UpTo<S> where S);

impl<A: Schedule, B: Schedule, O: Schedule> BitAnd<O> for Both<A, B> {
    type Output = Both<Both<A, B>, O>;

    fn bitand(self, other: O) -> Self::Output {
        Both(self, other)
    }
}

impl<A: Schedule, B: Schedule, O: Schedule> BitOr<O> for Both<A, B> {
    type Output = Either<Both<A, B>, O>;

    fn bitor(self, other: O) -> Self::Output {
        Either(self, other)
    }
}

impl<A: Schedule, B: Schedule, O: Schedule> BitAnd<O> for Either<A, B> {
    type Output = Both<Either<A, B>, O>;

    fn bitand(self, other: O) -> Self::Output {
        Both(self, other)
    }
}

impl<A: Schedule, B: Schedule, O: Schedule> BitOr<O> for Either<A, B> {
    type Output = Either<Either<A, B>, O>;

    fn bitor(self, other: O) -> Self::Output {
        Either(self, other)
    }
}

const fn sane(factor: f64) -> f64 {
    if factor >= 0.0 { factor } else { 0.0 }
}

const fn in_order(low: f64, high: f64) -> (f64, f64) {
    let (low, high) = (sane(low), sane(high));
    (low, if high > low { high } else { low })
}

/// `delay * factor`, at most `Duration::MAX`. The factor is not negative.
fn scaled(delay: Duration, factor: f64) -> Duration {
    if delay.is_zero() {
        return delay;
    }
    // Nanoseconds in a float are exact up to 104 days, which is where nobody counts them any more.
    let nanos = delay.as_nanos() as f64 * factor;
    if nanos < u64::MAX as f64 {
        Duration::from_nanos(nanos.round() as u64)
    } else {
        Duration::try_from_secs_f64(nanos / 1e9).unwrap_or(Duration::MAX)
    }
}

/// A number from 0 up to 1, by SplitMix64.
fn draw(chance: &mut u64) -> f64 {
    *chance = chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *chance;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn millis(schedule: impl Schedule, most: usize) -> Vec<u128> {
        schedule.delays().take(most).map(|delay| delay.as_millis()).collect()
    }

    #[test]
    fn t2_exponential_and_recurs() {
        assert_eq!(millis(exponential(100 * MS) & recurs(5), 100), [100, 200, 400, 800, 1600]);
    }

    #[test]
    fn t4_jitter_stays_within_bounds_of_its_own_base() {
        let bases: Vec<Duration> = (exponential(100 * MS).cap(10_000 * MS) & recurs(10_000)).delays().collect();
        let jittered = (exponential(100 * MS).cap(10_000 * MS) & recurs(10_000)).jittered(0.8, 1.2, 7);
        let drawn: Vec<Duration> = jittered.delays().collect();
        assert_eq!(drawn.len(), 10_000);
        for (base, drawn) in bases.iter().zip(&drawn) {
            assert!(*drawn >= base.mul_f64(0.8) && *drawn <= base.mul_f64(1.2), "{drawn:?} of {base:?}");
        }
        assert!(drawn.iter().zip(&bases).any(|(drawn, base)| drawn < base));
        assert!(drawn.iter().zip(&bases).any(|(drawn, base)| drawn > base));
    }

    #[test]
    fn t5_exponential_is_monotone_capped_and_never_overflows() {
        let delays: Vec<Duration> = exponential(100 * MS).delays().take(200).collect();
        assert!(delays.is_sorted());
        assert_eq!(delays.last(), Some(&Duration::MAX));
        let capped: Vec<Duration> = exponential(100 * MS).cap(Duration::from_secs(30)).delays().take(200).collect();
        assert!(capped.is_sorted());
        assert_eq!(capped.last(), Some(&Duration::from_secs(30)));
    }

    #[test]
    fn t8_the_same_seed_draws_the_same_delays() {
        let policy = |seed| (spaced(100 * MS) & recurs(50)).jittered(0.5, 1.5, seed);
        assert_eq!(millis(policy(1), 50), millis(policy(1), 50));
        assert_ne!(millis(policy(1), 50), millis(policy(2), 50));
    }

    #[test]
    fn either_goes_on_with_the_one_that_does() {
        assert_eq!(millis((spaced(5 * MS) & recurs(2)) | (spaced(9 * MS) & recurs(4)), 9), [5, 5, 9, 9]);
        assert_eq!(millis(((spaced(5 * MS) & recurs(2)) | recurs(1)).jittered(1.0, 1.0, 0), 9), [0, 5]);
    }

    #[test]
    fn a_limit_ends_before_it_is_passed() {
        assert_eq!(millis(spaced(40 * MS).up_to(100 * MS), 9), [40, 40]);
        assert_eq!(millis(spaced(50 * MS).up_to(100 * MS), 9), [50, 50]);
    }

    #[test]
    fn strange_factors_are_brought_into_order() {
        for factor in [f64::NAN, -1.0, 0.0, 0.5] {
            assert_eq!(millis(exponential(7 * MS).factor(factor), 3), [7, 7, 7]);
        }
        assert_eq!(exponential(MS).factor(f64::INFINITY).delays().nth(1), Some(Duration::MAX));
        assert_eq!(millis(spaced(7 * MS).jittered(f64::NAN, -3.0, 1), 2), [0, 0]);
        assert_eq!(millis(spaced(7 * MS).jittered(2.0, 1.0, 1), 2), [14, 14]);
        assert!(spaced(MS).jittered(1.0, f64::INFINITY, 1).delays().take(100).all(|delay| delay >= MS));
        assert_eq!(exponential(Duration::ZERO).delays().nth(50), Some(Duration::ZERO));
    }

    /// `&` and `|` are associative and commutative in what they do.
    #[test]
    fn algebra() {
        let (a, b, c) = (exponential(3 * MS) & recurs(4), spaced(10 * MS) & recurs(6), spaced(MS) & recurs(2));
        assert_eq!(millis(a & b, 9), millis(b & a, 9));
        assert_eq!(millis(a | b, 9), millis(b | a, 9));
        assert_eq!(millis((a & b) & c, 9), millis(a & (b & c), 9));
        assert_eq!(millis((a | b) | c, 9), millis(a | (b | c), 9));
    }

    #[test]
    fn whole_policies_are_constants() {
        const POLICY: Both<Jittered<Exponential>, Recurs> =
            exponential(MS).factor(3.0).cap(Duration::from_secs(1)).jittered(1.0, 1.0, 7).both(recurs(3));
        const LIMITED: UpTo<Either<Spaced, Recurs>> =
            spaced(Duration::from_millis(2)).either(recurs(1)).up_to(Duration::from_millis(5));
        static KEPT: Both<Jittered<Exponential>, Recurs> = POLICY;
        assert_eq!(millis(POLICY, 9), [1, 3, 9]);
        assert_eq!(millis(KEPT, 9), [1, 3, 9]);
        assert_eq!(millis(LIMITED, 9), [0, 2, 2]);
    }

    /// A generator for the properties below: any schedule of up to three parts, as its delays.
    fn any(chance: &mut u64, depth: u32) -> Vec<Duration> {
        let pick = |chance: &mut u64, of: u64| (draw(chance) * of as f64) as u64;
        let span = |chance: &mut u64| match pick(chance, 8) {
            0 => Duration::ZERO,
            1 => Duration::MAX,
            n => Duration::from_nanos(pick(chance, 1 << (8 * n).min(50))),
        };
        let factor = |chance: &mut u64| {
            let strange =
                [0.0, 1.0, 1.5, 2.0, 1e300, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE];
            strange[pick(chance, strange.len() as u64) as usize]
        };
        let count = pick(chance, 12);
        let leaf = exponential(span(chance)).factor(factor(chance)).cap(span(chance)) & recurs(count);
        let spaced = spaced(span(chance)) & recurs(pick(chance, 12));
        if depth == 0 {
            return leaf.delays().collect();
        }
        let (low, high, seed, limit) = (factor(chance), factor(chance), pick(chance, 1 << 40), span(chance));
        match pick(chance, 5) {
            0 => (leaf & spaced).delays().collect(),
            1 => (leaf | spaced).delays().collect(),
            2 => (leaf | spaced).jittered(low, high, seed).delays().collect(),
            3 => (leaf & spaced).up_to(limit).delays().collect(),
            _ => leaf.jittered(low, high, seed).up_to(limit).delays().collect(),
        }
    }

    #[test]
    fn no_schedule_overflows_panics_or_goes_on_past_its_count() {
        for seed in 0..20_000 {
            let mut chance = seed;
            let delays = any(&mut chance, (seed % 2) as u32);
            assert!(delays.len() <= 12, "seed {seed}: {delays:?}");
        }
    }

    /// What `&`, `|`, `jittered` and `up_to` promise, over thousands of schedules.
    #[test]
    fn the_algebra_holds_for_any_schedules() {
        for seed in 0..5_000_u64 {
            let mut chance = seed.wrapping_mul(0x9e37_79b9);
            let mut part = || {
                let base = Duration::from_micros((draw(&mut chance) * 1e6) as u64);
                let (factor, count) = (1.0 + draw(&mut chance) * 3.0, (draw(&mut chance) * 9.0) as u64);
                exponential(base).factor(factor) & recurs(count)
            };
            let (a, b, c) = (part(), part(), part());
            let list = |delays: &mut dyn Iterator<Item = Duration>| delays.take(40).collect::<Vec<_>>();
            let (da, db) = (list(&mut a.delays()), list(&mut b.delays()));
            // Commutative, associative, idempotent.
            assert_eq!(list(&mut (a & b).delays()), list(&mut (b & a).delays()), "seed {seed}");
            assert_eq!(list(&mut (a | b).delays()), list(&mut (b | a).delays()), "seed {seed}");
            assert_eq!(list(&mut ((a & b) & c).delays()), list(&mut (a & (b & c)).delays()), "seed {seed}");
            assert_eq!(list(&mut ((a | b) | c).delays()), list(&mut (a | (b | c)).delays()), "seed {seed}");
            assert_eq!(list(&mut (a & a).delays()), da, "seed {seed}");
            assert_eq!(list(&mut (a | a).delays()), da, "seed {seed}");
            // `&` is as long as the shorter with the longer delays, `|` the other way round.
            let (both, either) = (list(&mut (a & b).delays()), list(&mut (a | b).delays()));
            assert_eq!(both.len(), da.len().min(db.len()), "seed {seed}");
            assert_eq!(either.len(), da.len().max(db.len()), "seed {seed}");
            for (at, delay) in both.iter().enumerate() {
                assert_eq!(*delay, da[at].max(db[at]), "seed {seed}");
                assert_eq!(either[at], da[at].min(db[at]), "seed {seed}");
            }
            // For ever is neutral to `&`, never to `|`.
            assert_eq!(list(&mut (a & spaced(Duration::ZERO)).delays()), da, "seed {seed}");
            assert_eq!(list(&mut (a | recurs(0)).delays()), da, "seed {seed}");
            // Jitter keeps the length and the bounds, and a factor of one keeps all.
            let jittered = list(&mut a.jittered(0.5, 1.5, seed).delays());
            assert_eq!(jittered.len(), da.len(), "seed {seed}");
            for (delay, base) in jittered.iter().zip(&da) {
                assert!(*delay >= scaled(*base, 0.5) && *delay <= scaled(*base, 1.5), "seed {seed}");
            }
            assert_eq!(list(&mut a.jittered(1.0, 1.0, seed).delays()), da, "seed {seed}");
            // A limit cuts, and what is left adds up to no more.
            let limit = Duration::from_millis(seed % 500);
            let limited = list(&mut a.up_to(limit).delays());
            assert_eq!(limited, da[..limited.len()], "seed {seed}");
            assert!(limited.iter().sum::<Duration>() <= limit, "seed {seed}");
        }
    }
}
