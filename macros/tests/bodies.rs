//! What the macros do inside of a body: fibers made of closures, loops that end their turn, and all that they leave
//! alone.

use std::cell::{Cell, RefCell};
use std::future::{Future, ready};
use std::num::ParseIntError;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Runs a program whose main fiber is `body`.
fn run<B: wo::IntoFiber>(body: B) -> B::Output {
    wo::Builder::new().run(body).expect("the program runs")
}

#[wo::fiber]
fn parked<T>(value: T) -> T {
    wo::yield_now().expect("nothing cancels it");
    value
}

#[test]
fn a_closure_given_to_spawn_is_a_fiber_body() {
    use wo::spawn;

    #[wo::fiber]
    fn body() -> (String, u32, Result<u32, ParseIntError>, u32, u32) {
        let name = String::from("ada");
        let greeting = wo::spawn(|| {
            let name = parked(name);
            format!("hello {name}")
        });
        let expression = spawn(|| parked(20) + 1);
        let fallible = ::wo::spawn(move || -> Result<u32, ParseIntError> {
            for text in ["1", "x"] {
                let n: u32 = parked(text).parse()?;
                if n > 1 {
                    return Ok(n);
                }
            }
            Ok(0)
        });
        let nested = spawn(|| {
            let inner = spawn(|| parked(1));
            inner.join().unwrap() + 1
        });
        let by_hand = spawn(async || parked(5).await);
        (
            greeting.join().unwrap(),
            expression.join().unwrap(),
            fallible.join().unwrap(),
            nested.join().unwrap(),
            by_hand.join().unwrap(),
        )
    }
    let (greeting, expression, fallible, nested, by_hand) = run(body());
    assert_eq!((greeting.as_str(), expression, nested, by_hand), ("hello ada", 21, 2, 5));
    assert!(fallible.is_err());
}

#[test]
fn a_closure_given_to_another_spawn_is_a_closure() {
    #[wo::fiber]
    fn body() -> (i32, usize) {
        let thread = std::thread::spawn(|| [3, 4].iter().sum());
        let text = String::from("borrowed");
        let length = std::thread::scope(|scope| scope.spawn(|| text.len()).join().unwrap());
        (thread.join().unwrap(), length + text.len())
    }
    assert_eq!(run(body()), (7, 16));
}

/// Imported outside of the bodies, as programs do; there the attribute goes by the names.
mod imported {
    use wo::{scope, spawn, with_deadline};

    use super::parked;

    #[wo::fiber]
    pub(super) fn body() -> (u32, u32, u32) {
        let spawned = spawn(|| parked(1)).join().unwrap();
        let mut scoped = 0;
        let outcome: wo::Outcome<()> = scope(|s| {
            let child = s.fork(|| Ok(parked(2)));
            scoped = child.join()?;
            Ok(())
        });
        outcome.unwrap();
        let timed: wo::Outcome<u32> = with_deadline(std::time::Duration::MAX, || Ok(parked(3)));
        (spawned, scoped, timed.unwrap())
    }
}

#[test]
fn functions_imported_outside_are_known_by_their_names() {
    assert_eq!(run(imported::body()), (1, 2, 3));
}

#[test]
fn functions_imported_inside_are_known_by_their_use() {
    #[wo::fiber]
    fn body() -> (u32, u32, u32, Vec<u32>) {
        use std::time::Duration;

        use wo::{join, join_all as each, spawn as start, timeout};

        let started = start(|| parked(1)).join().unwrap();
        let timed: wo::Outcome<u32> = timeout(Duration::MAX, || Ok(parked(2)));
        let joined: wo::Outcome<(u32, ())> = join((|| Ok(parked(3)), || wo::yield_now()));
        let all: wo::Outcome<Vec<u32>> = each([4, 5], |n| Ok(parked(n)));
        (started, timed.unwrap(), joined.unwrap().0, all.unwrap())
    }
    assert_eq!(run(body()), (1, 2, 3, vec![4, 5]));
}

#[test]
fn a_name_that_is_anothers_in_the_body_is_anothers() {
    mod elsewhere {
        pub fn scope<R>(call: impl FnOnce(u32) -> R) -> R {
            call(1)
        }
    }

    #[wo::fiber]
    fn by_use() -> u32 {
        use elsewhere::scope;
        scope(|n| n)
    }

    #[wo::fiber]
    fn by_definition() -> u32 {
        fn spawn(call: impl FnOnce() -> u32) -> u32 {
            call()
        }
        spawn(|| 2)
    }

    #[wo::fiber]
    fn by_variable() -> u32 {
        let before = wo::spawn(|| parked(1)).join().unwrap();
        let spawn = |call: fn() -> u32| call();
        before + spawn(|| 2)
    }

    #[wo::fiber]
    fn by_parameter(protect: impl Fn(fn() -> u32) -> u32) -> u32 {
        let inner = {
            use wo::protect;
            protect(|| parked(1))
        };
        inner + protect(|| 3)
    }

    #[wo::fiber]
    fn by_parameter_of_a_closure() -> u32 {
        let given = |spawn: fn(fn() -> u32) -> u32| spawn(|| 5);
        given(|call| call())
    }

    assert_eq!(run(by_use()), 1);
    assert_eq!(run(by_definition()), 2);
    assert_eq!(run(by_variable()), 3);
    assert_eq!(run(by_parameter(|call| call())), 4);
    assert_eq!(run(by_parameter_of_a_closure()), 5);
}

#[test]
fn a_fiber_is_started_in_a_plain_closure() {
    #[wo::fiber]
    fn body() -> (Vec<u32>, u32, u32) {
        let handles: Vec<_> = (0..3)
            .map(|n| {
                wo::spawn(|| {
                    let mut sum = 0;
                    for _ in 0..2 {
                        sum += parked(n);
                    }
                    sum
                })
            })
            .collect();
        let handles: Vec<_> = vec![handles.into_iter().map(|handle| wo::spawn(|| handle.join().unwrap()))]
            .into_iter()
            .flatten()
            .collect();
        let mut sums = Vec::new();
        for handle in handles {
            sums.push(handle.join().unwrap());
        }
        let mut in_scope = 0;
        let outcome: wo::Outcome<()> = wo::scope(|s: wo::Scope| {
            let children: Vec<_> = [1, 2].into_iter().map(|n| s.fork(|| Ok(parked(n)))).collect();
            for child in children {
                in_scope += child.join()?;
            }
            Ok(())
        });
        outcome.unwrap();
        // What is no fiber's body stays as plain as it was.
        let plain = [1, 2].iter().map(|n| Some(1).map_or(0, |more| n + more)).map(|n| n.max(parked_not(n))).sum();
        (sums, in_scope, plain)
    }

    fn parked_not(n: u32) -> u32 {
        n
    }

    assert_eq!(run(body()), (vec![0, 2, 4], 3, 5));
}

#[test]
fn errors_of_joins_and_of_blocking_calls_are_those_of_verbs_with_a_question_mark() {
    #[wo::fiber]
    fn body(fails: u32) -> wo::IoResult<u32> {
        match fails {
            0 => return Ok(wo::blocking(|| 1)? + wo::spawn(|| parked(2)).join()?),
            1 => wo::blocking(|| panic!("on the pool"))?,
            _ => wo::spawn(|| {
                if true {
                    panic!("in a fiber")
                }
            })
            .join()?,
        }
        Ok(0)
    }
    assert_eq!(run(body(0)), Ok(3));
    let on_the_pool = run(body(1)).expect_err("it panicked");
    assert_eq!((on_the_pool.errno(), on_the_pool.op()), (0, wo::OpKind::Job));
    assert!(on_the_pool.to_string().contains("panicked: on the pool"), "{on_the_pool}");
    let in_a_fiber = run(body(2)).expect_err("it panicked");
    assert_eq!((in_a_fiber.errno(), in_a_fiber.op()), (0, wo::OpKind::Join));
    assert!(in_a_fiber.to_string().contains("panicked: in a fiber"), "{in_a_fiber}");
}

type Journal = Rc<RefCell<String>>;

/// What two fibers write, turn by turn, when every turn of a loop ends the fiber's turn.
fn interleaved<F: Future<Output = ()> + 'static>(body: fn(&'static str, Journal) -> wo::Call<F>) -> String {
    let journal = Journal::default();
    let written = journal.clone();
    let main = || async move {
        let a = wo::spawn(body("a", journal.clone()));
        let b = wo::spawn(body("b", journal));
        a.join().await.expect("it ends");
        b.join().await.expect("it ends");
    };
    wo::Builder::new().reductions(1).run(main).expect("the program runs");
    Rc::into_inner(written).expect("the fibers are gone").into_inner()
}

#[test]
fn every_kind_of_loop_ends_its_turn_when_the_budget_is_spent() {
    #[wo::fiber]
    fn for_loop(name: &'static str, journal: Journal) {
        for _ in 0..3 {
            journal.borrow_mut().push_str(name);
        }
    }
    #[wo::fiber]
    fn while_loop(name: &'static str, journal: Journal) {
        let mut left = 3;
        while left > 0 {
            journal.borrow_mut().push_str(name);
            left -= 1;
        }
    }
    #[wo::fiber]
    fn while_let_loop(name: &'static str, journal: Journal) {
        let mut left = vec![(); 3];
        while let Some(()) = left.pop() {
            journal.borrow_mut().push_str(name);
        }
    }
    #[wo::fiber]
    fn endless_loop(name: &'static str, journal: Journal) {
        let mut turns = 0;
        'turns: loop {
            journal.borrow_mut().push_str(name);
            turns += 1;
            if turns < 3 {
                continue 'turns;
            }
            break;
        }
    }
    assert_eq!(interleaved(for_loop), "ababab");
    assert_eq!(interleaved(while_loop), "ababab");
    assert_eq!(interleaved(while_let_loop), "ababab");
    assert_eq!(interleaved(endless_loop), "ababab");
}

#[test]
fn a_loop_that_never_parks_starves_nobody() {
    #[wo::fiber]
    fn body() -> bool {
        let stop = Rc::new(Cell::new(false));
        let seen = stop.clone();
        let _other = wo::spawn(|| stop.set(true));
        while !seen.get() {}
        seen.get()
    }
    assert!(run(body()));
}

#[test]
fn a_loop_in_a_plain_closure_runs_through() {
    #[wo::fiber]
    fn closure_loop(name: &'static str, journal: Journal) {
        let write = || {
            for _ in 0..3 {
                journal.borrow_mut().push_str(name);
            }
        };
        write();
    }
    assert_eq!(interleaved(closure_loop), "aaabbb");
}

#[test]
fn what_is_not_of_this_body_is_left_alone() {
    #[wo::fiber]
    fn body() -> (u32, u32, u32, u32, u32) {
        const fn double(n: u32) -> u32 {
            n * 2
        }
        const FOUR: u32 = double(2);
        static SIX: u32 = double(3);
        struct Ten;
        impl Ten {
            fn get(&self) -> u32 {
                double(5)
            }
        }
        let folded = const { double(1) };
        let sized = [0_u8; double(1) as usize].len() as u32;
        let matched = match FOUR {
            4 => Ten.get(),
            _ => SIX,
        };
        let plain = |n| double(n) + 1;
        let call = parked_later();
        let later = async { parked(double(3)).await };
        (folded + sized, matched, plain(1), wo::wait(later), call)
    }
    #[wo::fiber]
    fn parked_later() -> u32 {
        parked(8)
    }
    assert_eq!(run(body()), (4, 10, 3, 6, 8));
}

#[test]
fn an_await_of_the_users_own_stays() {
    async fn ordinary(n: u32) -> u32 {
        parked(n).await + 1
    }
    #[wo::fiber]
    fn body() -> (u32, u32, u32, u32) {
        let future = ordinary(parked(1));
        (ordinary(parked(2)).await, parked(3).await, wo::wait(ready(4)), future.await)
    }
    assert_eq!(run(body()), (3, 3, 4, 2));
}

#[test]
fn ordinary_async_rust_awaits_a_call() {
    #[wo::fiber]
    fn add(a: u32, b: u32) -> u32 {
        a + b
    }
    let mut call = pin!(async { add(1, 2).await + add(3, 4).await });
    assert_eq!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(10));
}

#[test]
fn a_guard_may_live_across_a_call_that_parks() {
    #[wo::fiber]
    fn body() -> (u32, bool) {
        let cell = RefCell::new(1);
        let mut guard = cell.borrow_mut();
        *guard += parked(1);
        let held = cell.try_borrow().is_err();
        drop(guard);
        (cell.into_inner(), held)
    }
    assert_eq!(run(body()), (2, true));
}

#[test]
fn a_condition_that_fails_is_quoted_as_it_was_written() {
    #[wo::fiber]
    fn fails() {
        let braces = String::from("{}");
        assert!(braces.is_empty() && parked(true) || braces == "{");
    }
    #[wo::fiber]
    fn body() -> String {
        wo::spawn(fails).join().unwrap_err().to_string()
    }
    let quoted = r#"assertion failed: braces.is_empty() && parked(true) || braces == "{""#;
    assert_eq!(run(body()), format!("the fiber panicked: {quoted}"));
}

#[test]
fn dbg_gives_its_values_on() {
    #[wo::fiber]
    fn body() -> (u32, (u32, String), u32) {
        let one: u32 = dbg!(parked(1));
        let several = dbg!(parked(2), "text".to_string());
        dbg!(one.pow(2));
        (one, several, dbg!(one))
    }
    assert_eq!(run(body()), (1, (2, "text".into()), 1));
}
