//! Names by which actors find each other.

use wo::actor::{Exit, NameError, Options, Reply, fail, lookup, register, unregister};

use super::everywhere;

struct Named {
    started: Option<wo::oneshot::Receiver<bool>>,
}

#[wo::actor]
impl Named {
    /// Waits until it is told whether to start well.
    fn started(&mut self) {
        if let Some(told) = self.started.take()
            && !told.recv().unwrap_or(true)
        {
            fail("told to");
        }
    }

    fn receive(&mut self, reply: Reply<&'static str>) {
        let _ = reply.send("found");
    }
}

#[test]
fn a17_a_name_is_found_once_the_actor_has_started() {
    everywhere(|| async {
        for shard in 0..3 {
            let (tell, told) = wo::oneshot();
            let options = Options::new().shard(shard);
            let named = options.clone().spawn_named("early", Named { started: Some(told) }).expect("free");
            for _ in 0..10 {
                assert_eq!(lookup::<Reply<&'static str>>("early"), None);
                wo::yield_now().await.expect("yield");
            }
            // It is taken all the same.
            let taken = options.clone().spawn_named("early", Named { started: None }).expect_err("taken");
            assert_eq!(taken, NameError::Taken { name: "early".to_owned() });
            tell.send(true).expect("it waits");
            assert_eq!(named.ask(|reply| reply).await, Ok("found"));
            assert_eq!(lookup::<Reply<&'static str>>("early"), Some(named));
            assert_eq!(lookup::<u32>("early"), None, "it takes other messages");
            named.stop();
            named.ended().await.expect("ended");
            assert_eq!(lookup::<Reply<&'static str>>("early"), None);
        }
    });
}

#[test]
fn a17_a_failed_start_frees_the_name() {
    everywhere(|| async {
        for shard in 0..3 {
            let options = Options::new().shard(shard);
            for _ in 0..5 {
                let (tell, told) = wo::oneshot();
                let named = options.clone().spawn_named("doomed", Named { started: Some(told) }).expect("free");
                let ended = wo::spawn(move || named.ended());
                wo::yield_now().await.expect("yield");
                tell.send(false).expect("it waits");
                assert_eq!(ended.join().await.expect("join"), Ok(Exit::Failed("told to".to_owned())));
                assert_eq!(lookup::<Reply<&'static str>>("doomed"), None);
            }
            let well = options.spawn_named("doomed", Named { started: None }).expect("free again");
            assert_eq!(well.ask(|reply| reply).await, Ok("found"));
            well.kill();
            well.ended().await.expect("ended");
        }
    });
}

#[test]
fn a_name_is_given_and_taken() {
    everywhere(|| async {
        let [a, b] = [0, 1].map(|shard| Options::new().shard(shard).spawn(Named { started: None }));
        register("first", a).expect("free");
        register("alias", a).expect("an actor may have several");
        assert_eq!(register("first", b), Err(NameError::Taken { name: "first".to_owned() }));
        assert!(unregister("first"));
        assert!(!unregister("first"));
        register("first", b).expect("free again");
        a.stop();
        a.ended().await.expect("ended");
        assert_eq!(lookup::<Reply<&'static str>>("alias"), None);
        assert_eq!(lookup::<Reply<&'static str>>("first"), Some(b), "freed by its own actor's end alone");
        assert_eq!(register("late", a), Err(NameError::Ended { name: "late".to_owned() }));
        register("late", b).expect("free");
        // Found from the other shards too.
        let found = wo::spawn(|| async { lookup::<Reply<&'static str>>("late").expect("it is there") });
        assert_eq!(found.join().await.expect("join"), b);
    });
}

/// Programs of one process have their own names; outside of them there are none.
#[test]
fn names_belong_to_a_program() {
    assert_eq!(lookup::<u32>("any"), None);
    everywhere(|| async {
        let named = Options::new().spawn_named("own", Named { started: None }).expect("free in each program");
        assert_eq!(named.ask(|reply| reply).await, Ok("found"));
    });
}
