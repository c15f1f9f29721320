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
