//! One op, and everything that can happen to it in every order: it completes, it is cancelled, its deadline passes, its
//! reader goes. Whatever the order, it has one outcome, its slot and its buffer go free once, and a completion that
//! comes late, for a token whose life is over, meets nobody.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use wo::net::UnixStream;
use wo_runtime::plane::EventLoop;
use wo_runtime::plane::backend::sim::SimBackend;
use wo_runtime::plane::backend::{Backend, BackendConfig, Selection, SocketKind};
use wo_runtime::plane::{LoopConfig, ops};

use crate::backends::{run, those_of};
use crate::flagged::{Flagged, Freed};
use crate::poll::{self, Wakes};
use crate::repeating::Repeating;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Complete,
    Cancel,
    Deadline,
    Drop,
}

/// Every order of the four.
fn orders() -> Vec<[Step; 4]> {
    let all = [Step::Complete, Step::Cancel, Step::Deadline, Step::Drop];
    let mut orders = Vec::new();
    for number in 0..4 * 4 * 4 * 4 {
        let order = [all[number % 4], all[number / 4 % 4], all[number / 16 % 4], all[number / 64]];
        if all.iter().all(|step| order.contains(step)) {
            orders.push(order);
        }
    }
    assert_eq!(orders.len(), 24);
    orders
}

/// Runs the loop until nothing more happens without new work, in 10 ms of virtual time.
fn settle(event_loop: &mut EventLoop<Repeating<SimBackend>>) {
    use wo_runtime::plane::RunStatus;
    while event_loop.run_once(Duration::from_millis(10)).expect("run_once") == RunStatus::Dispatched {}
}

/// One receive; the four steps in this order, and the loop runs after step `n` where bit `n` of `turns` is set.
fn one_life(order: [Step; 4], turns: u32) {
    let life = format!("{order:?}, turns {turns:04b}");
    let backend = Repeating::new(SimBackend::open(&BackendConfig::default()).expect("open"));
    let repeat = backend.switch();
    let mut event_loop = EventLoop::over(backend, &LoopConfig::default());
    let (reader, writer) = event_loop.backend().socket_pair(SocketKind::Stream).expect("socket_pair");
    let freed = Freed::default();
    let outcomes = Rc::new(RefCell::new(Vec::new()));
    let told = Rc::clone(&outcomes);
    let token = event_loop
        .submit(ops::Recv::new(&reader, Flagged::new(64, &freed)), move |_loop, (received, _buf)| {
            told.borrow_mut().push(received);
        })
        .expect("submit");
    settle(&mut event_loop);
    assert_eq!((event_loop.in_flight(), freed.count()), (1, 0), "{life}");

    let mut dropped_first = false;
    for (number, step) in order.into_iter().enumerate() {
        match step {
            Step::Complete => {
                event_loop.submit(ops::Send::all(&writer, b"seven b".to_vec()), |_, _| {}).expect("submit");
            }
            Step::Cancel => event_loop.cancel(token),
            Step::Deadline => {
                event_loop.submit_after(Duration::ZERO, move |event_loop| event_loop.cancel(token));
            }
            Step::Drop => {
                dropped_first = outcomes.borrow().is_empty();
                event_loop.detach(token);
            }
        }
        if turns & 1 << number != 0 {
            settle(&mut event_loop);
        }
    }
    settle(&mut event_loop);

    assert_eq!(event_loop.in_flight(), 0, "{life}: the slot is free");
    assert_eq!(freed.count(), 1, "{life}: the buffer is freed once");
    assert_eq!(outcomes.borrow().len(), usize::from(!dropped_first), "{life}: {:?}", outcomes.borrow());
    if let Some(Err(error)) = outcomes.borrow().first() {
        assert!(error.is_cancelled(), "{life}: {error}");
    }
    assert_eq!(event_loop.stale_completions(), 0, "{life}");

    // The kernel repeats itself: every completion so far comes again, while another op has the same slot.
    let again = Rc::new(Cell::new(0));
    let counter = Rc::clone(&again);
    event_loop
        .submit(ops::Nop, move |_, result| {
            result.expect("nop");
            counter.set(counter.get() + 1);
        })
        .expect("submit");
    let late = repeat.repeat_all();
    assert!(late > 0, "{life}");
    settle(&mut event_loop);
    assert_eq!(event_loop.stale_completions(), late, "{life}: each late completion is counted");
    assert_eq!(again.get(), 1, "{life}: and none is taken for another's");
    assert_eq!((outcomes.borrow().len(), freed.count()), (usize::from(!dropped_first), 1), "{life}");
    assert_eq!(event_loop.in_flight(), 0, "{life}");
}

#[test]
fn r10_double_completion_race() {
    for order in orders() {
        for turns in 0..1 << 4 {
            one_life(order, turns);
        }
    }
}

/// A fiber's receive: bytes come at `bytes`, its deadline is at `deadline`, its future is dropped at `gone`, all in
/// milliseconds of virtual time, equal ones included.
async fn one_receive(bytes: u64, deadline: u64, gone: u64) {
    let life = format!("bytes {bytes}, deadline {deadline}, drop {gone}");
    let start = wo::now();
    let at = move |millis: u64| start + Duration::from_millis(millis);
    let (reader, writer) = UnixStream::pair().expect("pair");
    let sent = wo::spawn(move || async move {
        wo::sleep_until(at(bytes)).await.expect("sleep");
        writer.write_all(b"seven b").await.expect("write");
        writer
    });
    let freed = Freed::default();
    let wakes = Wakes::default();
    let outcome = {
        let receive = wakes.counted(reader.recv_by(Flagged::new(64, &freed), at(deadline)));
        poll::at_most(Duration::from_millis(gone), receive).await
    };
    // The op wakes it once, and so does the deadline when it has one that comes first or together with it.
    let woken = wakes.count();
    let by_deadline = usize::from(deadline <= bytes.min(gone));
    let by_the_op = usize::from(outcome.is_some());
    assert!((by_the_op..=by_deadline + 1).contains(&woken), "{life}: woken {woken} times");
    let writer = sent.join().await.expect("the writer ended");
    drop(writer);
    let mut delivered = match outcome {
        Some((received, _buf)) => received.expect("neither bytes nor a deadline are an error").unwrap_or(0),
        None => 0,
    };
    loop {
        let (received, rest) = reader.recv(Vec::with_capacity(64)).await;
        if received.expect("recv") == 0 {
            break;
        }
        delivered += rest.len();
    }
    assert_eq!(delivered, 7, "{life}: every byte is delivered once");
    assert_eq!(freed.count(), 1, "{life}: the buffer is freed once");
    assert_eq!(wakes.count(), woken, "{life}: woken after its end");
}

/// The same with a fourth: its fiber is asked to stop at `cancel`.
async fn one_interrupted_receive(bytes: u64, deadline: u64, cancel: u64, gone: u64) {
    let life = format!("bytes {bytes}, deadline {deadline}, cancel {cancel}, drop {gone}");
    let start = wo::now();
    let at = move |millis: u64| start + Duration::from_millis(millis);
    let (reader, writer) = UnixStream::pair().expect("pair");
    let reader = Rc::new(reader);
    let sent = wo::spawn(move || async move {
        wo::sleep_until(at(bytes)).await.expect("sleep");
        writer.write_all(b"seven b").await.expect("write");
        writer
    });
    let (freed, wakes, delivered) = (Freed::default(), Wakes::default(), Rc::new(Cell::new(0)));
    let (theirs, buf, counted, told) =
        (Rc::clone(&reader), Flagged::new(64, &freed), wakes.clone(), Rc::clone(&delivered));
    let ended: wo::Outcome<bool> = wo::scope(async |s: wo::Scope| {
        let child = s.fork(move || async move {
            let mut receive = std::pin::pin!(counted.counted(theirs.recv_by(buf, at(deadline))));
            let mut end = std::pin::pin!(wo::sleep_until(at(gone)));
            let mut stopped = false;
            let outcome = std::future::poll_fn(|cx| {
                if let Poll::Ready(outcome) = receive.as_mut().poll(cx) {
                    return Poll::Ready(Some(outcome));
                }
                // Its own sleep ends with the cancel; the receive has its say all the same.
                match if stopped { Poll::Pending } else { end.as_mut().poll(cx) } {
                    Poll::Ready(Ok(())) => return Poll::Ready(None),
                    Poll::Ready(Err(_)) => stopped = true,
                    Poll::Pending => {}
                }
                Poll::Pending
            })
            .await;
            match outcome {
                Some((Ok(received), _buf)) => told.set(received.unwrap_or(0)),
                Some((Err(error), _buf)) => assert!(error.is_cancelled(), "{error}"),
                None => {}
            }
            Ok(())
        });
        wo::sleep_until(at(cancel)).await?;
        let late = child.is_finished();
        child.interrupt();
        let _interrupted = child.join().await;
        Ok(late)
    })
    .await;
    let late = ended.unwrap_or_else(|cause| panic!("{life}: {cause}"));
    assert!(late || cancel <= bytes.min(deadline).min(gone), "{life}: it ends with what comes first");
    let woken = wakes.count();
    assert!(woken <= 1 + usize::from(deadline <= bytes.min(gone)), "{life}: woken {woken} times");
    drop(sent.join().await.expect("the writer ended"));
    let mut total = delivered.get();
    loop {
        let (received, rest) = reader.recv(Vec::with_capacity(64)).await;
        if received.expect("recv") == 0 {
            break;
        }
        total += rest.len();
    }
    assert_eq!(total, 7, "{life}: every byte is delivered once");
    assert_eq!(freed.count(), 1, "{life}: the buffer is freed once");
    assert_eq!(wakes.count(), woken, "{life}: woken after its end");
}

/// The same without a deadline: one op, one call of the waker, and none once nobody waits.
async fn one_plain_receive(bytes: u64, gone: u64) {
    let life = format!("bytes {bytes}, drop {gone}");
    let (reader, writer) = UnixStream::pair().expect("pair");
    let sent = wo::spawn(move || async move {
        wo::sleep(Duration::from_millis(bytes)).await.expect("sleep");
        writer.write_all(b"seven b").await.expect("write");
    });
    let wakes = Wakes::default();
    let receive = wakes.counted(reader.recv(Vec::with_capacity(64)));
    let outcome = poll::at_most(Duration::from_millis(gone), receive).await;
    let woken = wakes.count();
    assert!(woken == 1 || outcome.is_none() && woken == 0, "{life}: woken {woken} times, {outcome:?}");
    sent.join().await.expect("the writer ended");
    if outcome.is_none() {
        let (received, _rest) = reader.recv(Vec::with_capacity(64)).await;
        assert_eq!(received.expect("recv"), 7, "{life}: every byte is delivered once");
    }
    assert_eq!(wakes.count(), woken, "{life}: woken after its end");
}

async fn every_receive() {
    for (bytes, gone) in [(1, 2), (1, 1), (2, 1)] {
        one_plain_receive(bytes, gone).await;
    }
    for bytes in 1..=3 {
        for deadline in 1..=3 {
            for gone in 1..=3 {
                one_receive(bytes, deadline, gone).await;
                for cancel in 1..=3 {
                    one_interrupted_receive(bytes, deadline, cancel, gone).await;
                }
            }
        }
    }
}

#[test]
fn r10_double_completion_race_of_fibers() {
    for backend in those_of(&[Selection::Sim]) {
        run(backend, |builder| builder, every_receive);
    }
}
