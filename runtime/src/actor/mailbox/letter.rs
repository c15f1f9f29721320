//! A message on its way from one shard to another: an errand of the actor's home.

use crate::actor::life;
use crate::actor::mailbox::{Envelope, Mailbox};
use crate::fiber;
use crate::fiber::home::Mail;
use crate::plane::post::Errand;

/// A message, and the life of a mailbox that it is meant for.
pub(super) struct Letter<M: Send + 'static> {
    pub(super) mailbox: &'static Mailbox<M>,
    pub(super) life: u64,
    pub(super) envelope: Envelope<M>,
}

impl<M: Send + 'static> Errand for Letter<M> {
    #[inline]
    fn run(self) {
        let Letter { mailbox, life, envelope } = self;
        if let Err(envelope) = mailbox.deliver(life, envelope) {
            dead_letter_soon(mailbox, envelope);
        }
    }

    fn give_up(self) {
        life::dead_letter(self.mailbox.head().home(), self.envelope);
    }
}

/// A fiber of another's may be running just now: a message's destructor has to wait.
#[cold]
fn dead_letter_soon<M: Send + 'static>(mailbox: &'static Mailbox<M>, envelope: Envelope<M>) {
    let call = move || life::dead_letter(mailbox.head().home(), envelope);
    match fiber::home_here() {
        Some(home) => home.push_quietly(Mail::Call(Box::new(call))),
        None => call(),
    }
}
