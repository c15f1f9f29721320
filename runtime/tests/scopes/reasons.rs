//! Who interrupted whom: a deadline that travels with an ask, and completions that race a cancel.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wo_runtime::actor::{self, Actor, Addr, AskError, Reply};
use wo_runtime::error::{OpKind, errno};
use wo_runtime::fiber::{self, Scope};
use wo_runtime::os::io;
use wo_runtime::plane::backend::Selection;
use wo_runtime::plane::backend::sim::SimHost;
use wo_runtime::scope::{self, Interrupt, Outcome};
use wo_runtime::shard::Builder;

use crate::{each, millis};

type Log = Arc<Mutex<Vec<(bool, Option<Interrupt>)>>>;

/// Answers after it has slept; the second asks the first.
struct Slow(Log);
struct Between(Addr<Reply<u32>>, Log);

impl Actor for Slow {
    type Message = Reply<u32>;

    async fn receive(&mut self, reply: Reply<u32>) {
        let slept = fiber::sleep(Duration::from_secs(60)).await;
        self.0.lock().unwrap().push((slept.is_err(), scope::interrupt()));
        let _ = reply.send(1);
    }
}

impl Actor for Between {
    type Message = Reply<u32>;

    async fn receive(&mut self, reply: Reply<u32>) {
        let answer = self.0.ask(|reply| reply).await;
        self.1.lock().unwrap().push((answer == Err(AskError::Cancelled), scope::interrupt()));
        drop(reply);
    }
}

#[test]
fn a_deadline_travels_with_an_ask_and_on_with_the_ask_of_its_handler() {
    for (io, shards) in [Selection::Uring, Selection::Epoll, Selection::Sim].map(|io| [(io, 1), (io, 2)]).concat() {
        let log: Log = Log::default();
        let seen = Arc::clone(&log);
        Builder::new()
            .io(io)
            .shards(shards)
            .run(move || async move {
                // Across a shard and back, where there are two.
                let slow = actor::Options::new().shard(0).spawn(Slow(Arc::clone(&seen)));
                let between = actor::Options::new().shard(1).spawn(Between(slow, Arc::clone(&seen)));
                let start = fiber::now();
                let outcome: Outcome<u32, AskError> =
                    fiber::with_deadline(millis(20), async || between.ask(|reply| reply).await).await;
                assert!(outcome.unwrap_err().is_timeout());
                assert!(fiber::now() - start < Duration::from_secs(30), "nobody waited for the handler's sleep");
                // Both handlers are cancelled, and both are told why.
                while seen.lock().unwrap().len() < 2 {
                    fiber::sleep(millis(1)).await.unwrap();
                }
            })
            .unwrap();
        assert_eq!(*log.lock().unwrap(), [(true, Some(Interrupt::Deadline)); 2]);
    }
}

/// One round: seven bytes and a cancel come about when `seed` says. Answers whether the read brought the bytes; they
/// are all there either way.
async fn bytes_and_a_cancel(seed: u32) -> bool {
    let (reader, writer) = io::pipe().unwrap();
    let writer = Rc::new(writer);
    let got = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&got);
    let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
        s.spawn(move || async move {
            let mut first = [0; 16];
            let read = reader.read_into(&mut first).await;
            let brought = read.is_ok();
            let bytes = match read {
                Ok(n) => first[..n].to_vec(),
                // The cancel won: the bytes are still in the pipe.
                Err(error) => {
                    assert_eq!(error.errno(), errno::ECANCELED);
                    let (rest, buf) = fiber::protect(async || reader.read(Vec::with_capacity(16)).await).await;
                    assert_eq!(rest?, buf.len());
                    buf
                }
            };
            let next = reader.read_into(&mut first).await.unwrap_err();
            *seen.borrow_mut() = Some((brought, bytes, next.errno()));
            Ok(())
        });
        // Sometimes before the read is in flight, sometimes after it has come back.
        for _ in 0..1 + seed % 4 {
            fiber::yield_now().await?;
        }
        let writing = Rc::clone(&writer);
        let written = fiber::spawn(move || async move { writing.write_all(b"7 bytes").await });
        for _ in 0..seed / 4 % 5 {
            fiber::yield_now().await?;
        }
        s.cancel();
        fiber::protect(|| written.join()).await.expect("it does not panic")
    })
    .await;
    outcome.unwrap();
    drop(writer);
    let (brought, bytes, next) = got.take().expect("the child went all its way");
    assert_eq!((bytes.as_slice(), next), (b"7 bytes".as_slice(), errno::ECANCELED), "seed {seed}");
    brought
}

#[test]
fn s8_bytes_that_come_with_the_cancel_are_delivered_and_the_next_verb_is_cancelled() {
    for io in [Selection::Uring, Selection::Epoll] {
        Builder::new()
            .io(io)
            .run(|| async {
                for seed in 0..1_000 {
                    bytes_and_a_cancel(seed).await;
                }
            })
            .unwrap();
    }
    // Each seed is a world of its own, in which the two meet at another moment; both of them win somewhere.
    let brought =
        |seed: u32| Builder::new().io(Selection::Sim).seed(seed.into()).run(move || bytes_and_a_cancel(seed)).unwrap();
    let won = (0..1_000).filter(|seed| brought(*seed)).count();
    assert!((100..1_000).contains(&won), "{won} of 1000");
}

/// The bytes are there and their completion is on its way when the cancel comes: it is the read's, in every order in
/// which the two reach the fiber.
#[test]
fn s8_a_completion_that_stands_is_never_taken_back() {
    for cancel_first in [true, false] {
        let host = SimHost::new(8);
        let control = host.control();
        Builder::new()
            .simulated(&host)
            .run(move || async move {
                let (reader, writer) = io::pipe().unwrap();
                let got = Rc::new(RefCell::new(None));
                let seen = Rc::clone(&got);
                let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
                    s.spawn(move || async move {
                        let (read, buf) = reader.read(Vec::with_capacity(16)).await;
                        let next = fiber::sleep(millis(1)).await.unwrap_err();
                        *seen.borrow_mut() = Some((read.map_err(|error| error.errno()), buf, next.errno()));
                        Ok(())
                    });
                    fiber::sleep(millis(1)).await?;
                    control.hold_kind(OpKind::Read);
                    writer.write_all(b"7 bytes").await?;
                    fiber::protect(|| fiber::sleep(millis(1))).await?;
                    assert_eq!(control.held().len(), 1, "it has happened, and is on its way");
                    if cancel_first {
                        s.cancel();
                        fiber::protect(|| fiber::sleep(millis(1))).await?;
                        control.release_all();
                    } else {
                        control.release_all();
                        s.cancel();
                    }
                    Ok(())
                })
                .await;
                outcome.unwrap();
                assert_eq!(got.take(), Some((Ok(7), b"7 bytes".to_vec(), errno::ECANCELED)), "{cancel_first}");
            })
            .unwrap();
    }
}

#[test]
fn work_that_ends_before_its_next_checkpoint_ends_as_it_ends() {
    each(|builder| {
        builder
            .run(|| async {
                let (reader, writer) = io::pipe().unwrap();
                let outcome: Outcome<usize> = fiber::scope(async |s: Scope| {
                    let canceller = s.clone();
                    writer.write_all(b"7 bytes").await?;
                    let (read, _) = reader.read(Vec::with_capacity(16)).await;
                    canceller.cancel();
                    read
                })
                .await;
                assert_eq!(outcome.unwrap(), 7);
            })
            .unwrap();
    });
}

#[test]
fn the_error_of_a_verb_that_is_cancelled_in_flight_says_why() {
    each(|builder| {
        let said = builder
            .run(|| async {
                let said = Rc::new(RefCell::new(Vec::new()));
                let (reader, writer) = io::pipe().unwrap();
                // Two that fail in flight, and one that is told before it begins.
                let seen = Rc::clone(&said);
                let late: Outcome<()> = fiber::with_deadline(millis(5), async || {
                    let (ended, _) = reader.read(vec![0u8; 8]).await;
                    seen.borrow_mut().push(ended.unwrap_err());
                    let (ended, _) = reader.read(vec![0u8; 8]).await;
                    seen.borrow_mut().push(ended.unwrap_err());
                })
                .await;
                assert!(late.unwrap_err().is_timeout());
                let seen = Rc::clone(&said);
                let failed: Outcome<(), &str> = fiber::scope(async |s: Scope<&str>| {
                    s.spawn(move || async move {
                        let (ended, _) = reader.read(vec![0u8; 8]).await;
                        seen.borrow_mut().push(ended.unwrap_err());
                    });
                    let _ = fiber::yield_now().await;
                    s.fail("on purpose");
                })
                .await;
                assert_eq!(failed.unwrap_err().error(), Some(&"on purpose"));
                drop(writer);
                said.take()
            })
            .unwrap();
        assert!(said.iter().all(|error| error.errno() == errno::ECANCELED), "{said:?}");
        let words: Vec<&str> = said.iter().map(|error| error.context()).collect();
        assert_eq!(words.len(), 3, "{words:?}");
        assert!(words[..2].iter().all(|words| words.ends_with("out of time")), "{words:?}");
        assert!(words[2].ends_with("another of its scope failed"), "{words:?}");
    });
}
