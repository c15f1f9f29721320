//! Ends that need more than an order: a stop with a deadline, and an actor that would wait for its own end.

use crate::actor::mailbox::{AnyMailbox, Head, Mailbox, Order};
use crate::actor::running;
use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::fiber;
use crate::fiber::home::Mail;
use crate::plane::current::with_loop;
use crate::plane::time::{Deadline, Instant};

/// Stops an actor; at the deadline it is killed. The timer for that is its home's.
pub(crate) fn stop_by<M: Send + 'static>(mailbox: &'static Mailbox<M>, life: u64, deadline: Deadline) -> bool {
    let home = mailbox.head().home();
    if !mailbox.order(life, Order::Drain) {
        return false;
    }
    match (deadline.instant(fiber::now()), home) {
        (None, _) | (_, None) => {}
        (Some(at), _) if mailbox.head().home_here().is_some() => kill_at(mailbox, life, at),
        (Some(at), Some(home)) => home.push(Mail::Call(Box::new(move || kill_at(mailbox, life, at)))),
    }
    true
}

fn kill_at<M: Send + 'static>(mailbox: &'static Mailbox<M>, life: u64, at: Instant) {
    if at <= fiber::now() {
        mailbox.order(life, Order::Kill);
        return;
    }
    let armed = with_loop(OpKind::Timer, |event_loop| {
        event_loop.submit_at(at, move |_| {
            mailbox.order(life, Order::Kill);
        });
        Ok(())
    });
    if armed.is_err() {
        mailbox.order(life, Order::Kill);
    }
}

/// An actor's function that waits for the actor's own end would wait for ever.
pub(crate) fn refuse_own_end(head: &'static Head) -> IoResult<()> {
    if running::is(head) {
        return Err(IoError::new(errno::EDEADLK, OpKind::Receive, Stage::Submit)
            .with_context("an actor waits for its own end; stop it and return instead"));
    }
    Ok(())
}
