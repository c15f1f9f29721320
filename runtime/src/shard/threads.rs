//! The program's other shards: one thread each.
//!
//! A shard sets its loop up on its own thread, hands its door to the first shard, and waits to be told the program it
//! belongs to; when one of them cannot be set up, none starts. From then on it ticks until the program ends. A shard
//! that does not come back to its loop, because what a fiber called holds the thread, is left to itself past the grace:
//! it has a share of the program, whose homes are not used again before that is gone.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::error::{IoError, IoResult, OpKind, Stage, say};
use crate::fiber::tick::Ending;
use crate::plane::Instant;
use crate::shard::builder::Setup;
use crate::shard::program::{Door, Here, Program, set_here};

/// The threads of shards 1 to n-1.
#[derive(Debug)]
pub(crate) struct Threads(Vec<Thread>);

#[derive(Debug)]
struct Thread {
    start: mpsc::Sender<Arc<Program>>,
    /// The kinds of the ops that were stuck with the kernel; nothing from a thread that panicked.
    stuck: mpsc::Receiver<Vec<OpKind>>,
    handle: JoinHandle<()>,
}

impl Threads {
    /// Starts `count` threads; answers them and their shards' doors, in order.
    ///
    /// # Errors
    ///
    /// A thread or a loop that could not be had. By then the others have ended, and all that was theirs is given back.
    pub(crate) fn start(count: usize, setup: &Setup) -> IoResult<(Threads, Vec<Door>)> {
        // No memory in advance: the count may be beyond all the system gives, which answers an error on the way.
        let mut threads = Threads(Vec::new());
        let mut doors = Vec::new();
        for index in 1..=count {
            match threads.start_one(index, setup) {
                Ok(door) => doors.push(door),
                Err(error) => {
                    threads.dismiss();
                    doors.iter().for_each(|door: &Door| door.home.give_back());
                    let context = format!("shard {index} of {}, {}", count + 1, error.context());
                    return Err(error.with_context(format!("{context}; or ask for fewer shards (WO_SHARDS)")));
                }
            }
        }
        Ok((threads, doors))
    }

    fn start_one(&mut self, index: usize, setup: &Setup) -> IoResult<Door> {
        let (start, program) = mpsc::channel();
        let (door, opened) = mpsc::channel();
        let (told, stuck) = mpsc::channel();
        let setup = setup.clone();
        let handle = shard_thread(index)
            .spawn(move || {
                // Whoever no longer listens has left this shard to itself.
                let _ = told.send(run(index, &setup, &door, &program));
            })
            .map_err(|error| {
                IoError::new(error.raw_os_error().unwrap_or(0), OpKind::Setup, Stage::Setup)
                    .with_context("a thread for it; raise `ulimit -u`, the container's limit of tasks, or its memory")
            })?;
        self.0.push(Thread { start, stuck, handle });
        // A thread that ends without a word has panicked, and said so on stderr.
        opened
            .recv()
            .unwrap_or_else(|_| Err(IoError::new(0, OpKind::Setup, Stage::Setup).with_context("which ended at once")))
    }

    /// There will be no program: every shard ends, which has run nothing yet.
    fn dismiss(self) {
        let (starts, handles): (Vec<_>, Vec<_>) =
            self.0.into_iter().map(|thread| (thread.start, thread.handle)).unzip();
        drop(starts);
        for handle in handles {
            // A panic has been told on stderr.
            let _ = handle.join();
        }
    }

    /// Tells every shard its program, and lets it run.
    pub(crate) fn release(&self, program: &Arc<Program>) {
        for thread in &self.0 {
            // A thread that has gone is found out when it is joined.
            let _ = thread.start.send(Arc::clone(program));
        }
    }

    /// Waits for every shard's end, until then; answers the kinds of the ops that were stuck with the kernel.
    pub(crate) fn join(self, until: Instant) -> Vec<OpKind> {
        let mut stuck = Vec::new();
        for (index, thread) in self.0.into_iter().enumerate() {
            drop(thread.start);
            match thread.stuck.recv_timeout(until.since(Instant::real())) {
                Err(mpsc::RecvTimeoutError::Timeout) => say(format_args!(
                    "shard {} does not come back to its loop and is left to itself: a fiber there holds its thread; \
                     calls that do so belong into `wo::blocking`",
                    index + 1
                )),
                ended => {
                    stuck.extend(ended.unwrap_or_default());
                    // A panic has been told on stderr.
                    let _ = thread.handle.join();
                }
            }
        }
        stuck
    }
}

/// The stack of a shard's thread, in bytes: as much as the first thread has on most systems, so that what recurses on
/// the first shard does so on the others. Only what is used of it is memory.
const STACK: usize = 8 << 20;

/// How to start the thread of shard `index`. A stack that was asked for by `RUST_MIN_STACK` is std's to give.
fn shard_thread(index: usize) -> std::thread::Builder {
    let thread = std::thread::Builder::new().name(format!("wo-shard-{index}"));
    if std::env::var_os("RUST_MIN_STACK").is_some() { thread } else { thread.stack_size(STACK) }
}

/// The life of one shard's thread.
fn run(
    index: usize,
    setup: &Setup,
    door: &mpsc::Sender<IoResult<Door>>,
    program: &mpsc::Receiver<Arc<Program>>,
) -> Vec<OpKind> {
    let _pin = setup.pin(index);
    let event_loop = match setup.event_loop() {
        Ok(event_loop) => event_loop,
        Err(error) => {
            let _ = door.send(Err(error));
            return Vec::new();
        }
    };
    let (caps, waker) = (Rc::new(event_loop.caps().clone()), event_loop.waker());
    let mut driver = setup.driver(event_loop);
    driver.leave_out_main();
    let _ = door.send(Ok(Door { home: driver.home(), waker }));
    if let Ok(program) = program.recv() {
        setup.join(&mut driver, &program, index);
        set_here(Some(Here { program: Arc::clone(&program), index, caps }));
        // Past the grace of a stop it is the first shard that says the end has come.
        while let Err(ending) = driver.run(|| program.is_ending()) {
            if let Ending::Kernel(error) = ending {
                program.fail(error);
                break;
            }
            driver.outlast_grace();
        }
    }
    driver.unwind();
    set_here(None);
    driver.drain().err().unwrap_or_default()
}
