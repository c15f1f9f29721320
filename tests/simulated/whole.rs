//! Whole programs of scopes: the same body on the simulated kernel and on the real ones, at one shard and at two, and
//! one account of what happened.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wo::actor::{Addr, AskError, Options};
use wo::net::{TcpListener, TcpStream};
use wo::sim::World;
use wo::{Builder, Interrupt, IoError, IoResult, Outcome, RunError, ScopeOptions, Selection};

use crate::backends::Watch;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// What happened, in order; programs whose order is not determined sort it.
#[derive(Clone, Default)]
struct Account(Arc<Mutex<Vec<String>>>);

impl Account {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn of<T>(&self, who: &str, came: &IoResult<T>) {
        match came {
            Ok(_) => self.note(format!("{who}: well")),
            Err(error) => self.note(format!("{who}: {:?} {error}", wo::interrupt())),
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Runs it everywhere, and expects the same of each.
fn everywhere<T, F>(configure: fn(Builder) -> Builder, run: impl Fn(Builder, Account) -> T, expected: F)
where
    F: Fn(T, Vec<String>, &str),
{
    for io in [Selection::Sim, Selection::Uring, Selection::Epoll] {
        for shards in [1, 2] {
            let place = format!("{io} with {shards} shards");
            let _watch = Watch::new(place.clone());
            let account = Account::default();
            let came = run(configure(Builder::new().io(io).shards(shards)), account.clone());
            expected(came, account.take(), &place);
        }
    }
}

/// Says when it is gone, however it goes.
struct Gone(Arc<AtomicUsize>);

impl Gone {
    fn new(alive: &Arc<AtomicUsize>) -> Gone {
        alive.fetch_add(1, Ordering::SeqCst);
        Gone(Arc::clone(alive))
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves one, and waits for another; told to stop, it hears the first one out.
#[wo::fiber]
fn serve_for_ever(listener: TcpListener, account: Account) -> IoResult<()> {
    let (stream, _) = listener.accept()?;
    let more = listener.accept();
    account.of("acceptor", &more.map(drop));
    let heard = wo::protect(|| {
        let mut words = [0; 7];
        stream.read_exact(&mut words)?;
        Ok::<_, IoError>(String::from_utf8_lossy(&words).into_owned())
    })?;
    account.note(format!("heard: {heard}"));
    Ok(())
}

/// Holds on to a connection over there; told to stop, it says goodbye under shelter.
#[wo::fiber]
fn hold_a_line(address: std::net::SocketAddr, account: Account, begun: wo::oneshot::Sender<()>) -> IoResult<()> {
    let stream = TcpStream::connect(address)?;
    let _ = begun.send(());
    let heard = stream.read(&mut [0; 8]);
    account.of("line", &heard);
    let said = wo::protect(|| {
        wo::sleep(MS(5))?;
        stream.write_all(b"goodbye")
    });
    account.of("goodbye", &said);
    heard.map(drop)
}

#[wo::fiber]
fn tick(account: Account) -> IoResult<()> {
    loop {
        let slept = wo::sleep(MS(1));
        if slept.is_err() {
            account.of("daemon", &slept);
            return slept;
        }
    }
}

/// A program that is stopped in the midst of everything: a server, a client on another shard, a daemon, an exit hook,
/// a fiber of the program's own.
#[wo::fiber]
fn stopped_in_the_midst(account: Account, alive: Arc<AtomicUsize>) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr();
    let (own, gone) = (account.clone(), Gone::new(&alive));
    let detached = wo::spawn(move || {
        let _gone = gone;
        let slept = wo::sleep(Duration::MAX);
        own.of("the program's own", &slept);
    });
    let served: Outcome<()> = wo::scope(|s| {
        let (hooked, server, ticks, line) = (account.clone(), account.clone(), account.clone(), account.clone());
        let gone = [Gone::new(&alive), Gone::new(&alive), Gone::new(&alive), Gone::new(&alive)];
        let [one, two, three, four] = gone;
        s.on_exit(move || {
            let _gone = one;
            let slept = wo::sleep(MS(2));
            hooked.of("hook", &slept);
        });
        s.spawn(move || {
            let _gone = two;
            serve_for_ever(listener, server)
        });
        s.spawn_daemon(move || {
            let _gone = three;
            tick(ticks)
        });
        let (begun, has_begun) = wo::oneshot();
        s.spawn_on(1, move || {
            let _gone = four;
            hold_a_line(address, line, begun)
        });
        has_begun.recv()?;
        wo::sleep(MS(5))?;
        wo::stop();
        let slept = wo::sleep(Duration::MAX);
        account.of("body", &slept);
        slept
    });
    account.note(format!("scope: {}", served.expect_err("it was stopped")));
    let ended = detached.join();
    account.note(format!("joined: {}", ended.is_ok()));
    account.take()
}

#[test]
fn a_stopped_program_cleans_up_the_same_everywhere() {
    let run = |builder: Builder, account: Account| {
        let alive = Arc::new(AtomicUsize::new(0));
        let came = builder.run(stopped_in_the_midst(account, Arc::clone(&alive))).unwrap();
        assert_eq!(alive.load(Ordering::SeqCst), 0, "all that was captured has been dropped");
        came
    };
    everywhere(
        |builder| builder.grace(Duration::from_secs(60)),
        run,
        |mut came, _, place| {
            let last = came.split_off(came.len() - 2);
            let hook = came.pop().expect("the hook is the scope's last");
            came.sort();
            let stopping = "the program is stopping";
            let expected: [(&str, &str); 6] = [
                ("acceptor: Some(Shutdown) accept ", stopping),
                ("body: Some(Shutdown) timer ", stopping),
                ("daemon: Some(Shutdown) timer ", stopping),
                ("goodbye: well", ""),
                ("heard: goodbye", ""),
                ("line: Some(Shutdown) recv ", stopping),
            ];
            let own = came.iter().position(|line| line.starts_with("the program's own: Some(Shutdown) timer "));
            came.remove(own.unwrap_or_else(|| panic!("on {place}: {came:#?}")));
            assert_eq!(came.len(), expected.len(), "on {place}: {came:#?}");
            for (line, (begins, has)) in came.iter().zip(expected) {
                assert!(line.starts_with(begins) && line.contains(has), "on {place}: {line}");
            }
            assert_eq!(hook, "hook: well", "on {place}");
            assert_eq!(last, ["scope: interrupted: the program is stopping", "joined: true"], "on {place}");
        },
    );
}

/// Clean-ups that never end, here and there; the grace is all they get.
#[wo::fiber]
fn never_done(alive: Arc<AtomicUsize>) -> IoResult<()> {
    let outcome: Outcome<()> = wo::scope(|s| {
        for shard in 0..2 {
            let (gone, below) = (Gone::new(&alive), Gone::new(&alive));
            s.spawn_on(shard, move || {
                let _gone = gone;
                wo::protect(|| {
                    let inner: Outcome<()> = wo::scope(|s| {
                        s.spawn(move || {
                            let _below = below;
                            wo::sleep(Duration::MAX)
                        });
                    });
                    inner
                })
                .map_err(IoError::from)
            });
        }
        wo::sleep(MS(2))?;
        wo::stop();
        Ok(())
    });
    outcome.map_err(IoError::from)
}

#[test]
fn a_grace_that_has_passed_ends_what_will_not_end() {
    let run = |builder: Builder, _| {
        let alive = Arc::new(AtomicUsize::new(0));
        let ended = builder.run(never_done(Arc::clone(&alive)));
        (ended, alive.load(Ordering::SeqCst))
    };
    everywhere(
        |builder| builder.grace(MS(40)),
        run,
        |(ended, left), _, place| {
            assert!(matches!(ended, Err(RunError::Stopped { signal: None })), "on {place}: {ended:?}");
            assert_eq!(left, 0, "on {place}: each was dropped, at home");
        },
    );
}

/// Answers late, within a deadline of its own.
struct Clerk {
    account: Account,
    other: Option<Addr<ClerkMessage>>,
}

#[wo::actor]
impl Clerk {
    #[message(send)]
    fn meet(&mut self, other: Addr<ClerkMessage>) {
        self.other = Some(other);
    }

    /// Works for so long, with so much patience; what is left to do is sheltered.
    #[message]
    fn work(&mut self, span: Duration, patience: Duration) -> u32 {
        let outcome: Outcome<()> = wo::with_deadline(patience, || wo::sleep(span));
        let own = outcome.is_err_and(|cause| cause.is_timeout());
        let after = wo::yield_now();
        self.account.note(format!("work: out of time {own}, goes on {}, {:?}", after.is_ok(), wo::interrupt()));
        let filed = wo::protect(|| wo::sleep(MS(3)));
        self.account.note(format!("filed: {}", filed.is_ok()));
        7
    }

    /// Has the other work.
    #[message]
    fn delegate(&mut self, span: Duration, patience: Duration) -> Result<u32, AskError> {
        let answer = self.other.expect("they have met").work(span, patience);
        self.account.note(format!("delegate: {answer:?}, {:?}", wo::interrupt()));
        answer
    }

    #[message]
    fn is_free(&mut self) -> bool {
        wo::yield_now().is_ok()
    }

    fn on_cancel(&mut self) {
        self.account.note("on_cancel");
    }
}

/// Deadlines around an ask to another shard, that asks another: the nearest wins, wherever it was set.
#[wo::fiber]
fn deadlines_that_travel(account: Account) -> Vec<String> {
    let clerk = |shard: usize| Options::new().shard(shard).spawn(Clerk { account: account.clone(), other: None });
    let (one, two) = (clerk(0), clerk(1));
    one.meet(two).expect("it lives");
    // Far ones, not none: each is passed over for the nearest.
    let far = Duration::from_secs(60);
    // The asker's outer deadline, its inner one, the handler's; and whose it is that goes off.
    for (outer, inner, patience) in [(far, MS(15), far), (MS(15), far, far), (far, far, MS(15))] {
        account.note(format!("asked with {outer:?} {inner:?} {patience:?}"));
        let mut within = None;
        let around: Outcome<(), AskError> = wo::with_deadline(outer, || {
            let answer: Outcome<Result<u32, AskError>, AskError> =
                wo::with_deadline(inner, || one.delegate(Duration::MAX, patience));
            within = Some(match answer {
                Ok(answer) => format!("{answer:?}"),
                Err(cause) => cause.to_string(),
            });
            Ok(())
        });
        account.note(format!("within: {}", within.unwrap_or_default()));
        account.note(format!("around: {}", around.map_or_else(|cause| cause.to_string(), |()| "well".to_owned())));
        // Both handlers are through, their clean-ups included, before they take another message.
        assert!(one.is_free() == Ok(true) && two.is_free() == Ok(true));
    }
    account.take()
}

#[test]
fn deadlines_travel_with_an_ask_the_same_everywhere() {
    let first = Mutex::new(None);
    everywhere(
        |builder| builder,
        |builder, account| builder.run(deadlines_that_travel(account)).unwrap(),
        |came, _, place| {
            let mut first = first.lock().unwrap();
            // Each ask by itself; the handlers end in either order.
            let mut asks: Vec<Vec<String>> = Vec::new();
            for line in came {
                match line.strip_prefix("asked") {
                    Some(_) => asks.push(vec![line]),
                    None => asks.last_mut().expect("the first line is an ask").push(line),
                }
            }
            asks.iter_mut().for_each(|ask| ask[1..].sort());
            let expected = first.get_or_insert_with(|| asks.clone());
            assert_eq!(&asks, expected, "on {place}");
            let words: Vec<String> = asks.iter().map(|ask| ask.join("; ")).collect();
            for (ask, has) in words.iter().zip([
                ["within: interrupted: out of time", "around: well", "goes on false, Some(Deadline)", "on_cancel"],
                ["around: interrupted: out of time", "out of time true", "goes on false, Some(Deadline)", "on_cancel"],
                [
                    "within: Ok(7)",
                    "around: well",
                    "work: out of time true, goes on true, None",
                    "delegate: Ok(7), None",
                ],
            ]) {
                has.iter().for_each(|has| assert!(ask.contains(has), "on {place}: {has:?} is missing in {ask}"));
            }
        },
    );
}

/// Children that fail, race, collect and clean up, several deep.
#[wo::fiber]
fn a_tree(account: Account) -> Vec<String> {
    let outcome: Outcome<(), String> = wo::scope(|s: wo::Scope<String>| {
        let (one, two, hook) = (account.clone(), account.clone(), account.clone());
        s.on_exit(move || hook.note("outer hook"));
        s.spawn(move || {
            let raced: Outcome<u32, String> = wo::race((
                || wo::sleep(Duration::MAX).map(|()| 1).map_err(|error| format!("lost: {error}")),
                || wo::sleep(MS(5)).map(|()| 2).map_err(|error| error.to_string()),
            ));
            one.note(format!("race: {raced:?}"));
            let all: Outcome<Vec<u64>, String> = wo::join_all(1..4_u64, |number: u64| {
                let slept = wo::sleep(MS(10 - number));
                slept.map(|()| number).map_err(|error| error.to_string())
            });
            one.note(format!("all: {all:?}"));
            let collected: Outcome<(), String> = wo::collecting_scope(|s: wo::Scope<String>| {
                let late = one.clone();
                s.spawn(|| Err::<(), _>("collected".to_owned()));
                s.spawn(move || {
                    let slept = wo::sleep(MS(3));
                    late.of("beside a failure", &slept);
                });
            });
            one.note(format!("collected: {collected:?}"));
            Err::<(), _>("the tree's own".to_owned())
        });
        s.spawn_on(1, move || {
            let slept = wo::sleep(Duration::MAX);
            two.of("sibling over there", &slept);
            Ok::<_, String>(())
        });
        Ok(())
    });
    account.note(format!("outcome: {outcome:?}"));
    let options = ScopeOptions::new().deadline(MS(5)).cleanup(MS(10));
    let abandoned: Outcome<()> = wo::scope_with(options, |s| {
        s.spawn_on(1, || wo::protect(|| wo::sleep(Duration::MAX)));
        s.spawn(|| wo::protect(|| wo::sleep(MS(1))));
    });
    let cause = abandoned.expect_err("it ran out of time");
    account.note(format!("abandoned: {} {cause}", cause.abandoned()));
    account.take()
}

#[test]
fn a_tree_of_scopes_ends_the_same_everywhere() {
    everywhere(
        |builder| builder,
        |builder, account| builder.run(a_tree(account)).unwrap(),
        |came, _, place| {
            let expected = [
                "race: Ok(2)",
                "all: Ok([1, 2, 3])",
                "beside a failure: well",
                "collected: Err(failed: \"collected\")",
                "sibling over there: Some(SiblingFailed) timer another of its scope failed: Operation canceled \
                 (os error 125) (at submit)",
                "outer hook",
                "outcome: Err(failed: \"the tree's own\")",
                "abandoned: 1 interrupted: out of time (1 dropped while still cleaning up)",
            ];
            assert_eq!(came, expected, "on {place}");
        },
    );
}

/// Stopped from outside as SIGTERM does it, a simulated program has its grace to the instant.
#[test]
fn a_program_stopped_from_outside_has_its_grace_to_the_instant() {
    for (cleanup, ends_at, well) in [(300, 1300, true), (800, 1500, false)] {
        let mut world = World::new(1);
        let host = world.host("server");
        let builder = Builder::new().shards(2).grace(MS(500));
        let program = world.start_with(&host, builder, clean_up_for(MS(cleanup)));
        world.run_for(Duration::from_secs(1));
        assert!(world.stop(&program));
        let ended = world.finish(program);
        assert_eq!(world.elapsed().as_millis(), ends_at);
        match ended {
            Ok(reason) if well => assert_eq!(reason, Some(Interrupt::Shutdown)),
            Err(RunError::Stopped { signal: Some(libc::SIGTERM) }) if !well => {}
            ended => panic!("{cleanup}: {ended:?}"),
        }
    }
}

#[wo::fiber]
fn clean_up_for(span: Duration) -> Option<Interrupt> {
    let outcome: Outcome<()> = wo::scope(|s| {
        s.spawn_on(1, move || {
            let slept = wo::sleep(Duration::MAX);
            wo::protect(|| wo::sleep(span)).and(slept)
        });
        wo::sleep(Duration::MAX)
    });
    outcome.expect_err("it is stopped").interrupt()
}
