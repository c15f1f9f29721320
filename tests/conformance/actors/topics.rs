//! Publishing: every subscriber at its own pace.

use std::time::Duration;

use wo::actor::{Addr, Delivery, Options, Overflow, Reply, Topic};

use super::everywhere;

enum Read {
    News(Delivery<u32>),
    Hold(wo::oneshot::Sender<()>, wo::oneshot::Receiver<()>),
    All(Reply<(Vec<u32>, u64)>),
}

#[derive(Default)]
struct Reader {
    read: Vec<u32>,
    missed: u64,
}

#[wo::actor]
impl Reader {
    fn receive(&mut self, message: Read) {
        match message {
            Read::News(Delivery { message, missed }) => {
                self.read.push(message);
                self.missed += missed;
            }
            Read::Hold(held, until) => {
                held.send(()).expect("the test waits");
                let _ = until.recv();
            }
            Read::All(reply) => drop(reply.send((self.read.clone(), self.missed))),
        }
    }
}

/// Asks until the reader has read that many.
async fn read(reader: Addr<Read>, count: usize) -> (Vec<u32>, u64) {
    read_until(reader, |read| read.len() >= count).await
}

/// Asks until what the reader has read is enough.
async fn read_until(reader: Addr<Read>, is_enough: impl Fn(&[u32]) -> bool) -> (Vec<u32>, u64) {
    loop {
        let all = reader.ask(Read::All).await.expect("all");
        if is_enough(&all.0) {
            return all;
        }
        wo::yield_now().await.expect("yield");
    }
}

#[test]
fn a19_a_slow_subscriber_holds_up_nobody() {
    everywhere(|| async {
        let topic = Topic::new();
        let readers: Vec<Addr<Read>> =
            (0..4).map(|shard| Options::new().shard(shard).spawn(Reader::default())).collect();
        let slow = readers[3];
        let (held, is_held) = wo::oneshot();
        let (release, until) = wo::oneshot();
        slow.send(Read::Hold(held, until)).await.expect("send");
        is_held.recv().await.expect("held");
        for (place, reader) in readers.iter().enumerate() {
            let bound = if place == 3 { 5 } else { 1000 };
            topic.subscribe_actor(*reader, bound, Overflow::DropOldest, Read::News).detach();
        }
        for n in 1..=100 {
            assert_eq!(topic.publish(n).await, Ok(4));
        }
        for reader in &readers[..3] {
            assert_eq!(read(*reader, 100).await, ((1..=100).collect(), 0));
        }
        release.send(()).expect("it waits");
        let (got, missed) = read_until(slow, |read| read.last() == Some(&100)).await;
        // The last five, and one more if that was on its way before the queue was full; the others are counted.
        assert!(got.ends_with(&[96, 97, 98, 99, 100]) && got.len() <= 6, "{got:?}");
        assert_eq!(got.len() as u64 + missed, 100, "{got:?}");
    });
}

#[test]
fn each_policy_does_as_it_says() {
    everywhere(|| async {
        let topic = Topic::new();
        let mut oldest = topic.subscribe(3, Overflow::DropOldest);
        let mut newest = topic.subscribe(3, Overflow::DropNewest);
        for n in 1..=10 {
            topic.publish(n).await.expect("publish");
        }
        let news = |message, missed| Ok(Delivery { message, missed });
        assert_eq!(oldest.recv().await, news(8, 7));
        assert_eq!(oldest.recv().await, news(9, 0));
        assert_eq!(newest.recv().await, news(1, 7));
        topic.publish(11).await.expect("publish");
        for (message, missed) in [(2, 0), (3, 0), (11, 0)] {
            assert_eq!(newest.recv().await, news(message, missed));
        }
        drop(oldest);
        assert_eq!(topic.publish(12).await, Ok(1));
        drop(topic);
        assert_eq!(newest.recv().await, news(12, 0));
        assert!(newest.recv().await.is_err(), "the topic is gone");
    });
}

/// Whoever chose so has the publisher wait; the others have the message already, and all see one order.
#[test]
fn a_parked_publisher_waits_for_the_slow_one_alone() {
    everywhere(|| async {
        let topic = Topic::new();
        let mut slow = topic.subscribe(2, Overflow::Park);
        let mut quick = topic.subscribe(1000, Overflow::Park);
        let publishers: Vec<_> = (0..3)
            .map(|publisher| {
                let topic = topic.clone();
                wo::spawn(move || async move {
                    for n in 0..50 {
                        topic.publish((publisher, n)).await.expect("publish");
                    }
                })
            })
            .collect();
        for _ in 0..10 {
            wo::yield_now().await.expect("yield");
        }
        assert!(publishers.iter().all(|publisher| !publisher.is_finished()));
        assert!(quick.recv().await.is_ok());
        // One more that gives up waiting leaves the line.
        let mut gives_up = Box::pin(topic.publish((9, 9)));
        std::future::poll_fn(|cx| {
            assert!(gives_up.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        drop(gives_up);
        let mut seen = Vec::new();
        for _ in 0..150 {
            let Delivery { message, missed } = slow.recv().await.expect("news");
            assert_eq!(missed, 0);
            seen.push(message);
        }
        for publisher in publishers {
            publisher.join().await.expect("join");
        }
        for publisher in 0..3 {
            let of_one: Vec<u32> = seen.iter().filter(|(of, _)| *of == publisher).map(|(_, n)| *n).collect();
            assert_eq!(of_one, (0..50).collect::<Vec<_>>());
        }
        drop(topic);
        assert!(slow.recv().await.is_err());
    });
}

/// A subscription ends with its actor, and with its handle; a full mailbox does not matter to it.
#[test]
fn an_actors_subscription_ends_with_it() {
    everywhere(|| async {
        let topic = Topic::new();
        let reader = Options::new().bound(1).spawn(Reader::default());
        let subscribed = topic.subscribe_actor(reader, 10, Overflow::Park, Read::News);
        topic.publish(1).await.expect("publish");
        assert_eq!(read(reader, 1).await, (vec![1], 0));
        subscribed.cancel();
        assert_eq!(topic.publish(2).await, Ok(0));
        topic.subscribe_actor(reader, 10, Overflow::Park, Read::News).detach();
        topic.publish(3).await.expect("publish");
        assert_eq!(read(reader, 2).await, (vec![1, 3], 0));
        reader.kill();
        reader.ended().await.expect("ended");
        assert_eq!(topic.publish(4).await, Ok(0));
        topic.subscribe_actor(reader, 10, Overflow::Park, Read::News).detach();
        assert_eq!(topic.publish(5).await, Ok(0), "it has ended already");
    });
}

/// Many publishers and readers on several shards: nobody loses or doubles anything.
#[test]
fn publishers_on_all_shards() {
    struct Publisher(Topic<u32>);
    #[wo::actor]
    impl Publisher {
        #[message]
        fn publish(&mut self, from: u32, count: u32) {
            for n in from..from + count {
                self.0.publish(n).expect("publish");
            }
        }
    }
    everywhere(|| async {
        let topic = Topic::new();
        let readers: Vec<Addr<Read>> =
            (0..3).map(|shard| Options::new().shard(shard).spawn(Reader::default())).collect();
        for reader in &readers {
            topic.subscribe_actor(*reader, 7, Overflow::Park, Read::News).detach();
        }
        let publishers: Vec<_> = (0..3)
            .map(|shard| {
                let publisher = Options::new().shard(shard).spawn(Publisher(topic.clone()));
                wo::spawn(move || async move { publisher.publish(shard as u32 * 1000, 300).await })
            })
            .collect();
        for publisher in publishers {
            publisher.join().await.expect("join").expect("published");
        }
        let expected: Vec<u32> = (0..3).flat_map(|publisher| publisher * 1000..publisher * 1000 + 300).collect();
        for reader in readers {
            let (mut got, missed) = read(reader, 900).await;
            got.sort_unstable();
            assert_eq!((got, missed), (expected.clone(), 0));
        }
        wo::sleep(Duration::from_millis(1)).await.expect("sleep");
    });
}
