//! Closures given to scopes, deadlines and schedules: those that are fibers own what they use, those that are parts of
//! a fiber borrow it, as plain closures do.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use wo::schedule::recurs;
use wo::{IoResult, Outcome, Scope};

/// Runs a program whose main fiber is `body`.
fn run<B: wo::IntoFiber>(body: B) -> B::Output {
    wo::Builder::new().run(body).expect("the program runs")
}

/// Parks once, and gives the value.
#[wo::fiber]
fn parked<T>(value: T) -> IoResult<T> {
    wo::yield_now()?;
    Ok(value)
}

#[test]
fn children_are_fibers_and_their_values_come_back() {
    #[wo::fiber]
    fn body() -> IoResult<u32> {
        let sum = wo::scope(|s| {
            let one = s.fork(|| parked(1));
            let two = s.fork(|| {
                let half = parked(1)?;
                Ok(half + half)
            });
            Ok(one.join()? + two.join()?)
        })?;
        Ok(sum)
    }
    assert_eq!(run(body()).unwrap(), 3);
}

#[test]
fn a_scope_borrows_what_is_around_it_and_its_children_own_what_they_use() {
    #[wo::fiber]
    fn body(log: &RefCell<Vec<String>>, names: Vec<String>) -> Outcome<usize> {
        let mut lengths = 0;
        wo::scope(|s| {
            for name in names {
                let shouted = s.fork(|| parked(name.to_uppercase()));
                let shouted = shouted.join()?;
                lengths += shouted.len();
                log.borrow_mut().push(shouted);
            }
            Ok(())
        })?;
        Ok(lengths)
    }
    let log = RefCell::default();
    let names = vec!["ada".to_owned(), "grace".to_owned()];
    let lengths = run(|| async {
        let log = log;
        let lengths = body(&log, names).await;
        (lengths.unwrap(), log.into_inner())
    });
    assert_eq!(lengths, (8, vec!["ADA".to_owned(), "GRACE".to_owned()]));
}

#[test]
fn a_scope_that_is_handed_on_is_still_one() {
    #[wo::fiber]
    fn start(s: &Scope, log: &Rc<RefCell<Vec<u32>>>, number: u32) {
        let log = Rc::clone(log);
        s.spawn(|| {
            let number = parked(number)?;
            log.borrow_mut().push(number);
            Ok(())
        });
    }

    #[wo::fiber]
    fn nested(s: Scope, log: Rc<RefCell<Vec<u32>>>) {
        let again = s.clone();
        s.spawn(|| {
            let inner = &again;
            inner.spawn(|| {
                let three = parked(3)?;
                log.borrow_mut().push(three);
                Ok(())
            });
            parked(())
        });
    }

    #[wo::fiber]
    fn body() -> Vec<u32> {
        let log = Rc::new(RefCell::default());
        let seen = Rc::clone(&log);
        let outcome = wo::scope(|s: wo::Scope| {
            start(&s, &seen, 1);
            start(&s, &seen, 2);
            nested(s, seen);
        });
        outcome.expect("none of them fails");
        log.take()
    }
    let mut log = run(body());
    log.sort_unstable();
    assert_eq!(log, [1, 2, 3]);
}

#[test]
fn a_scope_in_a_field_is_one_once_it_has_a_name() {
    struct Server {
        children: wo::Scope,
    }
    #[wo::fiber]
    fn serve(server: &Server) {
        let children: wo::Scope = server.children.clone();
        children.spawn(|| {
            parked(1)?;
            Ok(())
        });
    }
    #[wo::fiber]
    fn body() -> usize {
        let mut children = 0;
        let outcome: wo::Outcome<()> = wo::scope(|s: wo::Scope| {
            let server = Server { children: s };
            serve(&server);
            children = server.children.children();
        });
        outcome.expect("its child does not fail");
        children
    }
    assert_eq!(run(body()), 1);
}

#[test]
fn another_types_spawn_keeps_its_plain_closure() {
    #[wo::fiber]
    fn body() -> u32 {
        let numbers = [1, 2, 3];
        let sum = std::thread::scope(|s| s.spawn(|| numbers.iter().sum::<u32>()).join());
        let s = std::thread::Builder::new();
        let four = s.spawn(|| 4).map(std::thread::JoinHandle::join);
        sum.expect("adding does not panic") + four.expect("a thread starts").expect("it does not panic")
    }
    assert_eq!(run(body()), 10);
}

#[test]
fn a_function_of_ones_own_keeps_its_plain_closure() {
    fn retry(mut work: impl FnMut() -> bool) -> u32 {
        let mut tries = 1;
        while !work() {
            tries += 1;
        }
        tries
    }
    #[wo::fiber]
    fn body() -> u32 {
        let mut left = 3;
        retry(|| {
            left -= 1;
            left == 0
        })
    }
    assert_eq!(run(body()), 3);
}

#[test]
fn what_a_part_changes_outside_is_changed() {
    #[wo::fiber]
    fn body() -> IoResult<(u32, u32, String)> {
        let (mut tries, mut rounds) = (0, 0);
        let mut text = String::new();
        let tried: Outcome<(), &str> = wo::retry(recurs(3), || {
            tries += 1;
            wo::yield_now().map_err(|_| "cancelled")?;
            Err("always")
        });
        assert!(tried.is_err());
        wo::repeat(recurs(2), || {
            rounds += parked(1)?;
            Ok::<_, wo::IoError>(())
        })?;
        wo::with_deadline(Duration::MAX, || {
            text.push_str(parked("in time")?);
            wo::protect(|| text.push('!'));
            Ok::<_, wo::IoError>(())
        })?;
        Ok((tries, rounds, text))
    }
    assert_eq!(run(body()).unwrap(), (4, 3, "in time!".to_owned()));
}

#[test]
fn a_return_or_a_question_mark_leaves_the_closure_it_stands_in() {
    #[wo::fiber]
    fn body() -> Outcome<&'static str> {
        let early: Outcome<u32> = wo::timeout(Duration::MAX, || {
            if parked(true)? {
                return Ok(1);
            }
            Ok(2)
        });
        assert_eq!(early?, 1);
        let failed = wo::scope(|s: Scope<String>| {
            s.spawn(|| {
                let number: u32 = "many".parse::<u32>().map_err(|error| error.to_string())?;
                assert_eq!(number, 0, "it is no number");
                Ok(())
            });
        });
        assert_eq!(failed.expect_err("it is no number").to_string(), "failed: invalid digit found in string");
        Ok("outside")
    }
    assert_eq!(run(body()).unwrap(), "outside");
}

#[test]
fn a_body_may_end_in_a_loop_without_end() {
    #[wo::fiber]
    fn body() -> (String, String, u32) {
        let mut turns = 0;
        let late: Outcome<()> = wo::with_deadline(Duration::from_millis(1), || {
            loop {
                turns += 1;
                wo::sleep(Duration::from_micros(10))?;
            }
        });
        let found: Outcome<u32> = wo::timeout(Duration::from_secs(60), || {
            let mut number = 0;
            loop {
                number += parked(1)?;
                if number == 3 {
                    break Ok(number);
                }
            }
        });
        let served = wo::scope(|s: Scope| {
            s.spawn(|| {
                loop {
                    wo::sleep(Duration::from_micros(10))?;
                }
            });
            s.spawn(|| {
                parked(())?;
                Err::<(), _>(wo::IoError::new(32, wo::OpKind::Write, wo::Stage::Completion))
            });
        });
        assert!(turns > 0);
        let (late, served) = (late.expect_err("no end"), served.expect_err("one fails"));
        (late.to_string(), served.error().map(ToString::to_string).unwrap_or_default(), found.unwrap_or(0))
    }
    let (late, served, found) = run(body());
    assert_eq!((late.as_str(), found), ("interrupted: out of time", 3));
    assert!(served.starts_with("write"), "{served}");
}

#[test]
fn hooks_and_daemons_are_fibers_too() {
    #[wo::fiber]
    fn body() -> Vec<&'static str> {
        let log = Rc::new(RefCell::new(Vec::new()));
        let (at_exit, in_daemon) = (Rc::clone(&log), Rc::clone(&log));
        let outcome = wo::scope(|s: Scope| {
            s.on_exit(|| {
                wo::yield_now().expect("a hook is sheltered");
                at_exit.borrow_mut().push("hook");
            });
            s.spawn_daemon(|| {
                while wo::sleep(Duration::from_micros(10)).is_ok() {}
                in_daemon.borrow_mut().push("daemon");
            });
            wo::yield_now()
        });
        outcome.expect("nothing fails");
        log.take()
    }
    assert_eq!(run(body()), ["daemon", "hook"]);
}

#[test]
fn scopes_nest_and_an_error_goes_all_the_way_up() {
    #[wo::fiber]
    fn leaf(fail: bool) -> IoResult<u32> {
        wo::yield_now()?;
        if fail { Err(wo::IoError::new(5, wo::OpKind::Read, wo::Stage::Completion)) } else { Ok(1) }
    }
    #[wo::fiber]
    fn tree(depth: u32, fail: bool) -> IoResult<u32> {
        if depth == 0 {
            return leaf(fail);
        }
        let sum = wo::scope(|s| {
            let left = s.fork(|| tree(depth - 1, false));
            let right = s.fork(|| tree(depth - 1, fail));
            Ok(left.join()? + right.join()?)
        })?;
        Ok(sum)
    }
    #[wo::fiber]
    fn body() -> (IoResult<u32>, IoResult<u32>) {
        (tree(4, false), tree(4, true))
    }
    let (good, bad) = run(body());
    assert_eq!(good.unwrap(), 16);
    assert_eq!(bad.unwrap_err().errno(), 5);
}
