//! B6: nobody is served before everything that is stored has been taken in.
//!
//! There is no answer "still recovering" because there is nobody to ask: the handle comes when the replay has ended.
//! Whoever tries to get another one meanwhile is told that the database is being opened, and from what is half taken in
//! nothing is ever read.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use wo::db::{Error, ErrorKind};
use wo_runtime::error::OpKind;
use wo_runtime::fiber;

use super::b1::bytes::{builder, filled};
use super::rig::{Account, account, at, ids, on_every_machine, on_simulated_machines, stopped};

fn is_being_opened(error: &Error) -> bool {
    error.kind() == ErrorKind::AlreadyOpen { pid: Some(std::process::id()) }
}

#[test]
fn b6_there_is_no_handle_before_everything_is_taken_in() {
    on_simulated_machines(|machine| {
        let control = machine.control();
        machine.run(|dir| async move {
            filled(&dir, 200).await?;
            control.hold_kind(OpKind::Read);
            let place = dir.clone();
            let opening = fiber::spawn(move || async move { builder().open(&place).await });
            let mut reads = 0;
            while !opening.is_finished() {
                if control.held().is_empty() {
                    fiber::sleep(Duration::from_micros(10)).await.map_err(stopped)?;
                    continue;
                }
                // From whatever shard, at whatever point of the replay.
                let place = dir.clone();
                let asked = at(reads, move || async move { builder().open(&place).await.map(|_| ()) }).await;
                assert!(asked.as_ref().is_err_and(is_being_opened), "{asked:?}");
                control.release_one(0);
                reads += 1;
            }
            control.release_all();
            assert!(reads >= 2, "the replay reads: {reads}");
            let db = opening.join().await.expect("it does not panic")?;
            assert!(ids(db).await?.into_iter().eq(0..200), "the first answer is from everything");
            Ok(())
        });
    });
}

#[test]
fn b6_an_opening_that_is_given_up_leaves_the_next_one_everything() {
    on_every_machine(|machine| {
        machine.run(|dir| async move {
            filled(&dir, 100).await?;
            for polls in 0..40 {
                let mut opening = Box::pin(builder().open(&dir));
                let mut opened = None;
                for _ in 0..polls {
                    opened = poll_fn(|cx| match opening.as_mut().poll(cx) {
                        Poll::Ready(opened) => Poll::Ready(Some(opened)),
                        Poll::Pending => Poll::Ready(None),
                    })
                    .await;
                    if opened.is_some() {
                        break;
                    }
                    fiber::yield_now().await.map_err(stopped)?;
                }
                drop(opening);
                let db = match opened {
                    Some(opened) => opened?,
                    // What was given up lets the directory go once its last op has come back.
                    None => loop {
                        match builder().open(&dir).await {
                            Err(error) if is_being_opened(&error) => {
                                fiber::yield_now().await.map_err(stopped)?;
                            }
                            opened => break opened?,
                        }
                    },
                };
                assert!(ids(db).await?.into_iter().eq(0..100 + polls), "after {polls} polls");
                db.table::<Account>().await?.insert(account(100 + polls)).await?;
                db.close().await?;
            }
            Ok(())
        });
    });
}
