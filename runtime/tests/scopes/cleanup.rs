//! Cleaning up: bounded, told apart from ending well, and never at the cost of what the kernel still works on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use wo_runtime::error::IoError;
use wo_runtime::fiber::{self, Scope};
use wo_runtime::os::io;
use wo_runtime::plane::buf::BufPool;
use wo_runtime::scope::{Interrupt, Outcome, ScopeOptions};
use wo_runtime::shard::{Builder, RunError, stop};

use crate::{each, in_sim, millis, since};

#[test]
fn s6_a_clean_up_past_its_limit_is_dropped_and_its_buffer_is_not() {
    each(|builder| {
        builder
            .run(|| async {
                let pool = BufPool::new(1, 4096).unwrap();
                let buf = pool.take().unwrap();
                let (reader, _writer) = io::pipe().unwrap();
                let dropped = Rc::new(Cell::new(false));
                let flag = SetOnDrop(Rc::clone(&dropped));
                let outcome: Outcome<()> =
                    fiber::scope_with(ScopeOptions::new().cleanup(millis(2)), async |s: Scope| {
                        s.spawn(move || async move {
                            let _flag = flag;
                            // Nothing ever arrives, and the clean-up is sheltered from the cancel.
                            fiber::protect(async || reader.read(buf).await.0).await.map(drop)
                        });
                        fiber::sleep(millis(1)).await?;
                        s.cancel();
                        Ok(())
                    })
                    .await;
                let cause = outcome.unwrap_err();
                assert_eq!(cause.interrupt(), Some(Interrupt::CleanupTimeout));
                assert_eq!(cause.abandoned(), 1);
                assert!(cause.is_cleanup_timeout());
                assert!(dropped.get(), "the child has gone by the time its scope has ended");
                // The kernel may still write to the buffer, until it has said its last word.
                assert_eq!(pool.available(), 0, "the buffer is still owned");
                while pool.available() == 0 {
                    fiber::sleep(Duration::from_micros(100)).await.unwrap();
                }
            })
            .unwrap();
    });
}

struct SetOnDrop(Rc<Cell<bool>>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[test]
fn the_time_to_clean_up_begins_with_the_cancel() {
    in_sim(|| async {
        let start = fiber::now();
        let done = Rc::new(Cell::new(false));
        let flag = Rc::clone(&done);
        let options = ScopeOptions::new().deadline(millis(100)).cleanup(millis(50));
        let outcome: Outcome<()> = fiber::scope_with(options, async |s: Scope| {
            s.spawn(move || async move {
                fiber::protect(|| fiber::sleep(millis(149))).await?;
                flag.set(true);
                Ok(())
            });
            s.spawn(|| fiber::protect(|| fiber::sleep(Duration::MAX)));
        })
        .await;
        assert!(done.get(), "the clean-up that was quick enough is done");
        let cause = outcome.unwrap_err();
        assert_eq!((cause.interrupt(), cause.abandoned()), (Some(Interrupt::Deadline), 1));
        assert_eq!(since(start), millis(150));
    });
}

#[test]
fn the_body_itself_may_be_what_never_ends() {
    in_sim(|| async {
        let start = fiber::now();
        let outcome: Outcome<()> = fiber::scope_with(ScopeOptions::new().cleanup(millis(5)), async |s: Scope| {
            s.spawn(|| async { Err::<(), IoError>(std::io::Error::other("on purpose").into()) });
            fiber::protect(|| fiber::sleep(Duration::MAX)).await
        })
        .await;
        let cause = outcome.unwrap_err();
        assert!(cause.to_string().contains("on purpose"), "{cause}");
        assert_eq!((cause.abandoned(), since(start)), (1, millis(5)));
    });
}

#[test]
fn a_hook_that_never_ends_is_cut_off_and_those_before_it_were_run() {
    in_sim(|| async {
        let log = Rc::new(RefCell::new(Vec::new()));
        let (first, last) = (Rc::clone(&log), Rc::clone(&log));
        let outcome: Outcome<()> = fiber::scope_with(ScopeOptions::new().cleanup(millis(5)), async |s: Scope| {
            s.on_exit(move || async move { last.borrow_mut().push("never") });
            s.on_exit(|| async { drop(fiber::sleep(Duration::MAX).await) });
            s.on_exit(move || async move { first.borrow_mut().push("first") });
        })
        .await;
        assert_eq!(*log.borrow(), ["first"]);
        assert_eq!(outcome.unwrap_err().abandoned(), 2);
    });
}

#[test]
fn what_is_dropped_takes_its_own_scopes_along() {
    in_sim(|| async {
        let witness = Rc::new(());
        let (one, two) = (Rc::clone(&witness), Rc::clone(&witness));
        let outcome: Outcome<()> = fiber::scope_with(ScopeOptions::new().cleanup(millis(5)), async |s: Scope| {
            s.spawn(move || async move {
                let _one = one;
                fiber::protect(async || {
                    fiber::scope(async |inner: Scope| {
                        inner.spawn(move || async move {
                            let _two = two;
                            fiber::sleep(Duration::MAX).await
                        });
                    })
                    .await
                })
                .await
                .map_err(Into::into)
            });
            fiber::yield_now().await?;
            fiber::yield_now().await?;
            s.cancel();
            Ok(())
        })
        .await;
        assert_eq!(outcome.unwrap_err().abandoned(), 1);
        // The grandchild goes at its next turn.
        fiber::yield_now().await.unwrap();
        assert_eq!(Rc::strong_count(&witness), 1);
    });
}

#[test]
fn s10_cancelling_a_child_waits_for_its_clean_up() {
    each(|builder| {
        builder
            .run(|| async {
                let log = Rc::new(RefCell::new(Vec::new()));
                let (seen, hooked) = (Rc::clone(&log), Rc::clone(&log));
                let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
                    let child = s.fork(move || async move {
                        let inner: Outcome<()> = fiber::scope(async |own: Scope| {
                            own.on_exit(move || async move {
                                fiber::sleep(millis(1)).await.unwrap();
                                hooked.borrow_mut().push("hook");
                            });
                            fiber::sleep(Duration::MAX).await
                        })
                        .await;
                        inner.map_err(Into::into)
                    });
                    let sibling = s.fork(|| fiber::sleep(millis(3)));
                    fiber::yield_now().await?;
                    fiber::yield_now().await?;
                    let cancelled: Outcome<()> = child.cancel().await;
                    seen.borrow_mut().push("cancelled");
                    assert_eq!(cancelled.unwrap_err().interrupt(), Some(Interrupt::Cancelled));
                    sibling.join().await.expect("its sibling goes on");
                    Ok(())
                })
                .await;
                outcome.unwrap();
                assert_eq!(*log.borrow(), ["hook", "cancelled"]);
            })
            .unwrap();
    });
}

#[test]
fn a_stop_waits_for_clean_ups_within_the_grace() {
    each(|builder| {
        let log = builder
            .grace(Duration::from_secs(60))
            .run(|| async {
                let log = Rc::new(RefCell::new(Vec::new()));
                let (child, bare) = (Rc::clone(&log), Rc::clone(&log));
                let handle = fiber::spawn(move || async move {
                    let _ = fiber::sleep(Duration::MAX).await;
                    fiber::protect(|| fiber::sleep(millis(3))).await.unwrap();
                    bare.borrow_mut().push("bare fiber");
                    7
                });
                let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
                    s.spawn(move || async move {
                        let stopped = fiber::sleep(Duration::MAX).await.unwrap_err();
                        assert!(stopped.to_string().contains("the program is stopping"), "{stopped}");
                        fiber::protect(|| fiber::sleep(millis(1))).await?;
                        child.borrow_mut().push("child");
                        Ok(())
                    });
                    fiber::yield_now().await?;
                    stop();
                    fiber::sleep(Duration::MAX).await
                })
                .await;
                assert_eq!(outcome.unwrap_err().interrupt(), Some(Interrupt::Shutdown));
                // The fiber is stopping as well; its clean-up is not cut short.
                assert_eq!(handle.join().await.ok(), Some(7));
                log.take()
            })
            .unwrap();
        assert_eq!(log, ["child", "bare fiber"]);
    });
}

#[test]
fn a_clean_up_that_never_ends_ends_with_the_grace() {
    let ended: Result<Outcome<()>, RunError> =
        Builder::new().io(wo_runtime::plane::backend::Selection::Sim).grace(millis(50)).run(|| async {
            fiber::scope(async |s: Scope| {
                s.spawn(|| fiber::protect(|| fiber::sleep(Duration::MAX)));
                fiber::yield_now().await?;
                stop();
                Ok(())
            })
            .await
        });
    assert!(matches!(ended, Err(RunError::Stopped { signal: None })), "{ended:?}");
}
