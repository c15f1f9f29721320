//! Publishing to whoever has subscribed.
//!
//! A topic is a list of queues, one per subscriber. Publishing puts the message into each of them in turn, and only
//! then waits for those that want their publishers to wait; so a slow subscriber holds up nobody but, where it chose
//! so, the publisher.
//!
//! An actor subscribes through a fiber at its home, which takes one delivery at a time from the actor's queue at the
//! topic to its mailbox, and the next when the actor has done with that. So what an actor misses is decided in its
//! queue, and its mailbox holds one message of a topic at most.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::actor::address::Addr;
use crate::actor::ask::Asked;
use crate::actor::counters;
use crate::actor::life::{self, Exit};
use crate::actor::mailbox::{Envelope, Mailbox, Parcel};
use crate::actor::monitor::Monitor;
use crate::actor::subscription::{Delivery, Offer, Overflow, Queue, Subscription};
use crate::error::{IoResult, OpKind};
use crate::fiber::home::Mail;
use crate::fiber::{self, Call, Charge, cancelled};

/// Where messages are published to everybody who has subscribed. Clones are the same topic; it is gone with the last.
///
/// # Examples
///
/// ```
/// use wo::actor::{Delivery, Overflow, Topic};
///
/// #[wo::main]
/// fn main() {
///     let news = Topic::new();
///     let mut thorough = news.subscribe(100, Overflow::Park);
///     let mut hasty = news.subscribe(2, Overflow::DropOldest);
///     for n in 1..=5 {
///         assert_eq!(news.publish(n).unwrap(), 2);
///     }
///     assert_eq!(thorough.recv().unwrap(), Delivery { message: 1, missed: 0 });
///     assert_eq!(hasty.recv().unwrap(), Delivery { message: 4, missed: 3 });
///     assert_eq!(hasty.recv().unwrap(), Delivery { message: 5, missed: 0 });
/// }
/// ```
pub struct Topic<M> {
    shared: Arc<Shared<M>>,
}

type Queues<M> = Arc<Vec<Arc<Queue<M>>>>;

struct Shared<M> {
    /// Replaced as a whole, so that publishers look at it without holding the lock.
    queues: Mutex<Queues<M>>,
}

impl<M> Shared<M> {
    fn lock(&self) -> MutexGuard<'_, Queues<M>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No publisher is left.
impl<M> Drop for Shared<M> {
    fn drop(&mut self) {
        self.lock().iter().for_each(|queue| queue.close());
    }
}

impl<M: Clone + Send + 'static> Topic<M> {
    /// A topic without subscribers.
    pub fn new() -> Topic<M> {
        Topic { shared: Arc::new(Shared { queues: Mutex::default() }) }
    }

    /// Subscribes from now on, with a queue of at most `bound` messages, at least 1.
    pub fn subscribe(&self, bound: usize, overflow: Overflow) -> Subscription<M> {
        Subscription { queue: self.add(bound, overflow) }
    }

    /// Subscribes an actor from now on: it is sent what `make` makes of each delivery, one at a time; meanwhile further
    /// ones wait in a queue of at most `bound`, at least 1. What is sent so passes any bound of the actor's mailbox.
    ///
    /// It ends with the actor, with the topic, or when the answer is dropped. Should `make` panic, that is reported and
    /// the delivery is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::actor::{Overflow, Topic};
    ///
    /// struct Reader;
    /// #[wo::actor]
    /// impl Reader {
    ///     fn receive(&mut self, line: String) {
    ///         println!("{line}");
    ///     }
    /// }
    ///
    /// #[wo::main]
    /// fn main() {
    ///     let news = Topic::new();
    ///     let reader = wo::spawn(Reader);
    ///     let subscribed = news.subscribe_actor(reader, 10, Overflow::DropOldest, |delivery| delivery.message);
    ///     news.publish("extra, extra".to_owned()).unwrap();
    ///     subscribed.detach();
    /// }
    /// ```
    pub fn subscribe_actor<N: Send + 'static>(
        &self,
        addr: Addr<N>,
        bound: usize,
        overflow: Overflow,
        make: impl FnMut(Delivery<M>) -> N + Send + 'static,
    ) -> Subscribed {
        let queue = self.add(bound, overflow);
        let (mailbox, number) = addr.parts();
        let home = mailbox.head().home();
        let subscription = Subscription { queue: Arc::clone(&queue) };
        let ends = Box::new(Ends(Arc::clone(&queue) as Arc<dyn Close>));
        if let (Ok(()), Some(home)) = (mailbox.monitor(number, ends), home) {
            // Should the program end before the call is made, dropping it closes the queue.
            let pump = move || life::begin(pump(subscription, mailbox, number, make));
            match mailbox.head().home_here() {
                Some(_) => pump(),
                None => home.push(Mail::Call(Box::new(pump))),
            }
        }
        Subscribed { queue: Some(queue) }
    }

    fn add(&self, bound: usize, overflow: Overflow) -> Arc<Queue<M>> {
        let queue = Arc::new(Queue::new(bound, overflow));
        self.replace_queues(Some(Arc::clone(&queue)));
        queue
    }

    /// Adds a queue, and forgets those that are closed.
    fn replace_queues(&self, new: Option<Arc<Queue<M>>>) {
        let mut queues = self.shared.lock();
        let open = queues.iter().filter(|queue| !queue.is_closed()).cloned().chain(new).collect();
        let before = std::mem::replace(&mut *queues, Arc::new(open));
        drop(queues);
        drop(before);
    }

    /// Gives every subscriber the message; parks, after all others have it, for the subscribers that chose so. Answers
    /// how many subscribers there were. Messages of one publisher reach each subscriber in the order they were
    /// published.
    ///
    /// Dropped half-way, those that it waited for do not get the message.
    ///
    /// # Errors
    ///
    /// ECANCELED when the fiber was cancelled while it waited.
    pub fn publish(&self, message: M) -> Call<Publishing<M>> {
        let queues = Arc::clone(&self.shared.lock());
        Call::new(Publishing { topic: self.clone(), queues, state: State::New(Some(message)), charge: Charge::new() })
    }
}

impl<M: Clone + Send + 'static> Default for Topic<M> {
    fn default() -> Topic<M> {
        Topic::new()
    }
}

impl<M> Clone for Topic<M> {
    fn clone(&self) -> Topic<M> {
        Topic { shared: Arc::clone(&self.shared) }
    }
}

impl<M> fmt::Debug for Topic<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic").field("subscribers", &self.shared.lock().len()).finish()
    }
}

/// The future of [`Topic::publish`].
pub struct Publishing<M> {
    topic: Topic<M>,
    queues: Queues<M>,
    state: State<M>,
    charge: Charge,
}

enum State<M> {
    New(Option<M>),
    /// It waits for room in queues: the message for each, which of the queues, and the place in its line.
    Waits {
        reached: usize,
        rooms: Vec<(M, usize, u64)>,
    },
}

impl<M: Clone + Send + 'static> Publishing<M> {
    /// Offers the message to all.
    fn offer(&self, message: M, waker: &Waker) -> State<M> {
        let mut reached = 0;
        let mut line = Line { queues: &self.queues, rooms: Vec::new() };
        let last = self.queues.len().saturating_sub(1);
        let mut message = Some(message);
        for (index, queue) in self.queues.iter().enumerate() {
            let copy = if index == last { message.take() } else { message.clone() };
            let Some(copy) = copy else { break };
            reached += 1;
            match queue.offer(copy, None, waker) {
                Offer::Taken => {}
                Offer::Dropped(dropped) => drop(dropped),
                Offer::Wait(message, ticket) => line.rooms.push((message, index, ticket)),
                Offer::Closed(_) => reached -= 1,
            }
        }
        if reached < self.queues.len() {
            self.topic.replace_queues(None);
        }
        State::Waits { reached, rooms: std::mem::take(&mut line.rooms) }
    }
}

/// Places in the lines of queues. Dropped, also by a message's `clone` or destructor that panics, it leaves them all:
/// a place nobody comes back to would hold up every other publisher.
struct Line<'a, M> {
    queues: &'a [Arc<Queue<M>>],
    rooms: Vec<(M, usize, u64)>,
}

impl<M> Drop for Line<'_, M> {
    fn drop(&mut self) {
        for (_, index, ticket) in &self.rooms {
            self.queues[*index].leave_line(*ticket);
        }
        self.rooms.drain(..).for_each(|(message, ..)| life::drop_quietly(message));
    }
}

impl<M> Unpin for Publishing<M> {}

impl<M: Clone + Send + 'static> Future for Publishing<M> {
    type Output = IoResult<usize>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<IoResult<usize>> {
        let this = self.get_mut();
        if this.charge.is_due(cx) {
            return Poll::Pending;
        }
        if let State::New(message) = &mut this.state
            && let Some(message) = message.take()
        {
            this.state = this.offer(message, cx.waker());
            if let State::Waits { reached, rooms } = &this.state
                && rooms.is_empty()
            {
                return Poll::Ready(Ok(*reached));
            }
        }
        let State::Waits { reached, rooms } = &mut this.state else { return Poll::Ready(Ok(0)) };
        let mut waiting = Line { queues: &this.queues, rooms: std::mem::take(rooms) };
        waiting.rooms.reverse();
        while let Some((message, index, ticket)) = waiting.rooms.pop() {
            match this.queues[index].offer(message, Some(ticket), cx.waker()) {
                Offer::Taken => {}
                Offer::Wait(message, ticket) => rooms.push((message, index, ticket)),
                Offer::Dropped(dropped) => drop(dropped),
                Offer::Closed(_) => *reached -= 1,
            }
        }
        if rooms.is_empty() {
            return Poll::Ready(Ok(*reached));
        }
        if fiber::is_cancelled() {
            return Poll::Ready(Err(cancelled(OpKind::Send)));
        }
        Poll::Pending
    }
}

impl<M> Drop for Publishing<M> {
    fn drop(&mut self) {
        if let State::Waits { rooms, .. } = &mut self.state {
            drop(Line { queues: &self.queues, rooms: std::mem::take(rooms) });
        }
    }
}

impl<M> fmt::Debug for Publishing<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publishing").field("subscribers", &self.queues.len()).finish_non_exhaustive()
    }
}

/// An actor's subscription. Dropping it ends it.
#[must_use = "dropping it ends the subscription; `detach` lets it go on"]
pub struct Subscribed {
    queue: Option<Arc<dyn Close>>,
}

impl Subscribed {
    /// Ends the subscription; the same as dropping it.
    pub fn cancel(self) {}

    /// Lets it go on until the actor or the topic ends.
    pub fn detach(mut self) {
        self.queue = None;
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.end();
        }
    }
}

impl fmt::Debug for Subscribed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscribed")
    }
}

/// A queue of any type, to be closed.
trait Close: Send + Sync {
    fn end(&self);
    fn has_ended(&self) -> bool;
}

impl<M: Send> Close for Queue<M> {
    fn end(&self) {
        self.close();
    }

    fn has_ended(&self) -> bool {
        self.is_closed()
    }
}

/// Closes the queue of an actor that has ended.
struct Ends(Arc<dyn Close>);

impl Monitor for Ends {
    fn is_void(&self) -> bool {
        self.0.has_ended()
    }

    fn tell(self: Box<Self>, _exit: &Exit) {
        self.0.end();
    }
}

/// Wakes the pump when the actor has done with a delivery, whatever became of it.
struct Mark(Waker);

impl Asked for Mark {
    fn is_void(&self) -> bool {
        false
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.0.wake_by_ref();
    }
}

/// Takes deliveries to an actor, one at a time.
async fn pump<M: Send + 'static, N: Send + 'static>(
    mut subscription: Subscription<M>,
    mailbox: &'static Mailbox<N>,
    life: u64,
    mut make: impl FnMut(Delivery<M>) -> N,
) {
    while let Ok(delivery) = subscription.recv().await {
        let message = match catch_unwind(AssertUnwindSafe(|| make(delivery))) {
            Ok(message) => message,
            Err(payload) => {
                life::report("a function that makes a message of a delivery", payload);
                continue;
            }
        };
        let waker = std::future::poll_fn(|cx: &mut Context<'_>| Poll::Ready(cx.waker().clone())).await;
        let mark = Arc::new(Mark(waker));
        let done = Arc::downgrade(&mark);
        let (mut message, mut mark) = (Some(Parcel::new(message)), Some(mark as Arc<dyn Asked>));
        if mailbox.push_anyway(life, &mut message, || mark.take()).is_err()
            && let Some(message) = message
        {
            let home = mailbox.head().home();
            counters::count(home, counters::SENT);
            return life::dead_letter(home, Envelope { message, asked: mark });
        }
        std::future::poll_fn(|_| if done.strong_count() == 0 { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}
