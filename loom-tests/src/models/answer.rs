//! The place for an answer: the asker hears its end whatever happens meanwhile, the place ends once, and an answer is
//! never in two hands, or none.

use std::task::{Poll, Waker};

use loom::thread;

use crate::actor::error::AskError;
use crate::actor::mailbox::{Asker, answer};
use crate::models::{block_on, waker};
use crate::plane::time::Instant;
use crate::weakened::{accepted, rejected};

/// What can be told from its copies, and is missed when it is left over: loom's counted pointer.
type Word = loom::sync::Arc<u8>;

/// Waits for the answer; the waker is there before the request would be on its way, as in `Ask::poll`.
fn wait<T>(asker: &mut Asker<T>) -> Result<T, AskError> {
    block_on(std::future::poll_fn(|cx| asker.poll(cx.waker())))
}

fn answered() {
    let (mut asker, answerer) = answer::<Word>(None);
    asker.begin(&waker(), None);
    let answers = thread::spawn(move || answerer.send(Word::new(7)).is_ok());
    assert_eq!(wait(&mut asker).map(|word| *word), Ok(7));
    assert!(answers.join().expect("it only answers"));
    assert!(asker.leave().is_none());
}

/// The asker looks by itself, before anybody wakes it: what it sees is all that orders the answer.
fn answered_and_looked_for() {
    let (mut asker, answerer) = answer::<Word>(None);
    asker.begin(Waker::noop(), None);
    let answers = thread::spawn(move || answerer.send(Word::new(7)).is_ok());
    while asker.poll(Waker::noop()).map(|heard| assert!(heard.is_ok())).is_pending() {
        thread::yield_now();
    }
    assert!(answers.join().expect("it only answers"));
}

/// The answer comes while the asker puts its waker there.
fn answered_at_once() {
    let (mut asker, answerer) = answer::<Word>(None);
    let answers = thread::spawn(move || answerer.send(Word::new(7)).is_ok());
    asker.begin(&waker(), None);
    assert_eq!(wait(&mut asker).map(|word| *word), Ok(7));
    assert!(answers.join().expect("it only answers"));
}

/// The asker is polled by another task, whose waker takes the place of the first.
fn answered_meanwhile() {
    let (mut asker, answerer) = answer::<Word>(None);
    asker.begin(Waker::noop(), None);
    let answers = thread::spawn(move || answerer.send(Word::new(7)).is_ok());
    assert_eq!(wait(&mut asker).map(|word| *word), Ok(7));
    assert!(answers.join().expect("it only answers"));
}

/// The asker goes meanwhile: the answer comes back, or goes with the asker.
fn answered_to_nobody() {
    let word = Word::new(7);
    let (mut asker, answerer) = answer::<Word>(None);
    asker.begin(&waker(), None);
    let answers = thread::spawn({
        let word = Word::clone(&word);
        move || answerer.send(word).is_ok()
    });
    let left_with = asker.leave().is_some();
    assert_eq!(answers.join().expect("it only answers"), left_with);
    drop(asker);
    assert_eq!(Word::strong_count(&word), 1, "an answer was left over");
}

/// The actor ends meanwhile: one of the two is heard, and what is heard is what the other end was told.
fn answered_or_failed() {
    let word = Word::new(7);
    let (mut asker, answerer) = answer::<Word>(None);
    asker.begin(&waker(), None);
    let place = std::sync::Arc::clone(asker.place());
    let fails = thread::spawn(move || place.fail(AskError::Stopped));
    let answers = thread::spawn({
        let word = Word::clone(&word);
        move || answerer.send(word).is_ok()
    });
    let heard = wait(&mut asker).map(|word| *word);
    fails.join().expect("it only fails");
    let answered = answers.join().expect("it only answers");
    assert_eq!(heard, if answered { Ok(7) } else { Err(AskError::Stopped) });
    assert_eq!(Word::strong_count(&word), 1, "an answer was left over");
}

/// The asker's time runs out while the handler is about to wait: the handler is woken, or sees it.
fn expired() {
    let (mut asker, answerer) = answer::<Word>(Some(Instant::ORIGIN));
    asker.begin(&waker(), None);
    let place = std::sync::Arc::clone(asker.place());
    let handles = thread::spawn(move || {
        block_on(std::future::poll_fn(|cx| {
            if place.is_expired() {
                return Poll::Ready(());
            }
            place.handler_waits(cx.waker());
            Poll::Pending
        }));
        answerer.send(Word::new(7)).is_err()
    });
    assert!(asker.expire());
    assert!(handles.join().expect("it only waits"), "an answer was taken after the time");
}

accepted!(an_answer_arrives, answered);
accepted!(an_answer_is_seen_whole, answered_and_looked_for);
accepted!(an_answer_arrives_before_the_waker, answered_at_once);
accepted!(an_answer_arrives_while_the_waker_changes, answered_meanwhile);
accepted!(an_answer_is_in_one_hand, answered_to_nobody);
accepted!(a_place_ends_once, answered_or_failed);
accepted!(a_handler_hears_that_time_ran_out, expired);

rejected!(an_answer_must_be_there_before_the_word_says_so, "an answer is not published", answered);
rejected!(an_answer_must_be_read_after_the_word_says_so, "an answer is read too early", answered_and_looked_for);
rejected!(a_waker_must_be_there_before_the_asker_lets_go, "a waker is not published", answered_at_once);
rejected!(an_asker_must_look_when_it_lets_go, "an asker lets go and does not look", answered_meanwhile);
rejected!(a_held_waker_must_be_left_alone, "a held waker is taken", answered_meanwhile);
rejected!(a_handler_must_look_again, "a handler waits without another look", expired);
