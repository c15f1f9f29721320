//! The runtime's program.

/// Blocking calls are no part of a model.
pub mod blocking {
    #[derive(Debug, Default)]
    pub struct BlockingThreads;

    impl BlockingThreads {
        pub fn close(&self) {}
    }
}

pub mod link {
    include!(concat!(env!("OUT_DIR"), "/shard/link.rs"));
}

pub mod program {
    include!(concat!(env!("OUT_DIR"), "/shard/program.rs"));
}

pub mod pool {
    include!(concat!(env!("OUT_DIR"), "/shard/pool.rs"));

    impl Worker<'static> {
        /// The workers of a batch, as `Pool::run` makes them; each is to `serve` on a thread of its own.
        pub fn of_a_batch(count: usize) -> Vec<Worker<'static>> {
            let deques: Vec<_> = (0..count).map(|_| Deque::new_lifo()).collect();
            let shared = Arc::new(Shared {
                stealers: deques.iter().map(Deque::stealer).collect(),
                started: AtomicUsize::new(count),
                unused: Mutex::new(Vec::new().into_iter()),
                unwoken: AtomicUsize::new(0),
                parking: Mutex::new(Parking { workers: count, parked: 0, woken: 0, over: false }),
                bell: Condvar::new(),
                panic: Mutex::new(None),
            });
            let worker = |(index, deque)| Worker { deque, shared: Arc::clone(&shared), index };
            deques.into_iter().enumerate().map(worker).collect()
        }

        pub fn serve(&self) {
            self.work(&mut || ());
        }
    }
}
