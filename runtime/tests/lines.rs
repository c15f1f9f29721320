//! Lines of those who wait, with very many in them: each is let go in no time, from whichever end the line empties.
//! What walks the line for each of them takes minutes here.

use std::rc::Rc;
use std::time::{Duration, Instant};

use wo_runtime::actor::{Actor, Options, Overflow, Topic};
use wo_runtime::fiber::{self, Channel, JoinHandle, Notify};
use wo_runtime::os::fs::File;
use wo_runtime::plane::backend::Selection;
use wo_runtime::shard::Builder;

const MANY: usize = 200_000;
/// A few hundred times what it takes, and a part of what walking takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lets them come to their waits, then interrupts all of them, the last first.
async fn interrupt<T: 'static>(fibers: Vec<JoinHandle<T>>) {
    for _ in 0..3 {
        fiber::yield_now().await.unwrap();
    }
    assert!(fibers.iter().all(|fiber| !fiber.is_finished()), "all of them wait");
    for fiber in fibers.iter().rev() {
        fiber.interrupt();
    }
    for fiber in fibers {
        assert!(fiber.join().await.is_ok());
    }
}

fn in_time<F: Future<Output = ()> + 'static>(body: impl FnOnce() -> F) {
    let begun = Instant::now();
    Builder::new().io(Selection::Epoll).shards(1).run(body).unwrap();
    assert!(begun.elapsed() < PATIENCE, "it took {:?}", begun.elapsed());
}

#[test]
fn a_signal_that_very_many_wait_for() {
    in_time(|| async {
        let signal = Rc::new(Notify::new());
        let wait = || {
            let signal = Rc::clone(&signal);
            fiber::spawn(move || async move { signal.notified().await })
        };
        let all: Vec<_> = (0..MANY).map(|_| wait()).collect();
        fiber::yield_now().await.unwrap();
        signal.notify_all();
        for fiber in all {
            fiber.join().await.unwrap().unwrap();
        }
        let each: Vec<_> = (0..MANY).map(|_| wait()).collect();
        fiber::yield_now().await.unwrap();
        (0..MANY).for_each(|_| signal.notify_one());
        for fiber in each {
            fiber.join().await.unwrap().unwrap();
        }
        interrupt((0..MANY).map(|_| wait()).collect()).await;
    });
}

#[test]
fn who_was_met_with_all_others_leaves_nothing_behind() {
    in_time(|| async {
        let signal = Rc::new(Notify::new());
        let mut gone = Box::pin(signal.notified());
        std::future::poll_fn(|cx| std::task::Poll::Ready(gone.as_mut().poll(cx).is_pending())).await;
        signal.notify_all();
        drop(gone);
        let waits = Rc::clone(&signal);
        let later = fiber::spawn(move || async move { waits.notified().await });
        interrupt(vec![later]).await;
    });
}

#[test]
fn a_channel_that_very_many_wait_at() {
    in_time(|| async {
        let channel = Channel::<u32>::new(1);
        let take = |channel: &Channel<u32>| {
            let channel = channel.clone();
            fiber::spawn(move || async move { channel.take().await.is_ok() })
        };
        interrupt((0..MANY).map(|_| take(&channel)).collect()).await;
        channel.try_put(0).unwrap();
        let putters = (0..MANY).map(|_| {
            let channel = channel.clone();
            fiber::spawn(move || async move { channel.put(1).await.is_ok() })
        });
        interrupt(putters.collect()).await;
    });
}

#[test]
fn an_actor_that_very_many_wait_for_room_at() {
    struct Stuck;
    impl Actor for Stuck {
        type Message = u32;
        async fn receive(&mut self, _: u32) {
            let _ = fiber::sleep(Duration::MAX).await;
        }
    }
    in_time(|| async {
        let stuck = Options::new().bound(1).spawn(Stuck);
        stuck.send(0).await.unwrap();
        fiber::yield_now().await.unwrap();
        stuck.send(0).await.unwrap();
        let senders = (0..MANY).map(|_| fiber::spawn(move || async move { stuck.send(1).await.is_ok() }));
        interrupt(senders.collect()).await;
        stuck.kill();
    });
}

#[test]
fn a_subscription_that_very_many_publishers_wait_at() {
    in_time(|| async {
        let topic = Topic::<u32>::new();
        let _slow = topic.subscribe(1, Overflow::Park);
        topic.publish(0).await.unwrap();
        let publishers = (0..MANY).map(|_| {
            let topic = topic.clone();
            fiber::spawn(move || async move { topic.publish(1).await.is_ok() })
        });
        interrupt(publishers.collect()).await;
    });
}

#[test]
fn a_file_that_very_many_want_a_turn_of() {
    in_time(|| async {
        let (reader, _writer) = wo_runtime::os::io::pipe().unwrap();
        let read = |reader: &File| {
            let reader = reader.clone();
            fiber::spawn(move || async move { reader.read(vec![0; 1]).await.0.is_ok() })
        };
        interrupt((0..MANY).map(|_| read(&reader)).collect()).await;
    });
}
