//! Fibers that share one core: a hot loop, sleepers and an echo server all get on, and three loops take turns. An
//! actor, which may live on any core, counts how often the sleepers wake.
//!
//! `cargo run --release --example fibers`. With `WO_REDUCTIONS=1` every turn of a loop is a fiber's whole turn, and the
//! three loops go round exactly; with the default each is done before the next begins. SIGTERM or Ctrl-C ends it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::error::Error;
use std::rc::Rc;
use std::time::Duration;

use wo::actor::Addr;
use wo::net::{TcpListener, TcpStream};

mod command_line;

#[wo::main]
fn main() -> Result<(), Box<dyn Error>> {
    let address = command_line::listen("fibers", "127.0.0.1:7001");
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr());

    take_turns();

    // The loop never parks and never yields in its source; the runtime sees to it that the others get their turn.
    let turns = Rc::new(Cell::new(0_u64));
    let counter = turns.clone();
    wo::spawn(|| {
        loop {
            counter.set(counter.get() + 1);
        }
    });
    let wakes = wo::spawn(Wakes::default());
    let mut sleepers = Vec::new();
    for number in 1..=3 {
        sleepers.push(wo::spawn(|| sleep_and_tell(number, wakes)));
    }
    wo::spawn(|| {
        for sleeper in sleepers {
            sleeper.join()??;
        }
        println!("the actor counted {} wakes", wakes.all()?);
        Ok::<(), Box<dyn Error>>(())
    });
    loop {
        match listener.accept() {
            Ok((stream, _peer)) => {
                wo::spawn(|| echo(stream));
            }
            Err(stop) if stop.is_cancelled() => break,
            Err(trouble) => eprintln!("{trouble}"),
        }
    }
    println!("the hot loop went round all the while: {}", turns.get() > 0);
    Ok(())
}

/// Three loops, nine turns each, in one trace.
#[wo::fiber]
fn take_turns() {
    let trace = Rc::new(RefCell::new(String::new()));
    let (first, second, third) = (trace.clone(), trace.clone(), trace.clone());
    let first = wo::spawn(|| count(first, "a"));
    let second = wo::spawn(|| count(second, "b"));
    let third = wo::spawn(|| count(third, "c"));
    for fiber in [first, second, third] {
        if let Err(error) = fiber.join() {
            println!("{error}");
        }
    }
    println!("turns: {}", trace.borrow());
}

#[wo::fiber]
fn count(trace: Rc<RefCell<String>>, name: &'static str) {
    for _ in 0..9 {
        trace.borrow_mut().push_str(name);
    }
}

/// Counts wakes, by the number of the sleeper.
#[derive(Default)]
struct Wakes(BTreeMap<u32, u32>);

#[wo::actor]
impl Wakes {
    /// Counts one, and gives how many that sleeper has by now.
    #[message]
    fn count(&mut self, number: u32) -> u32 {
        let wakes = self.0.entry(number).or_default();
        *wakes += 1;
        *wakes
    }

    #[message]
    fn all(&mut self) -> u32 {
        self.0.values().sum()
    }
}

/// Sleeps five times 10 ms, then says so.
#[wo::fiber]
fn sleep_and_tell(number: u32, wakes: Addr<WakesMessage>) -> Result<(), Box<dyn Error>> {
    let mut count = 0;
    while count < 5 {
        wo::sleep(Duration::from_millis(10))?;
        count = wakes.count(number)?;
    }
    println!("sleeper {number} woke {count} times");
    Ok(())
}

#[wo::fiber]
fn echo(stream: TcpStream) -> wo::IoResult<()> {
    let mut buf = [0; 1024];
    loop {
        let count = stream.read(&mut buf)?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&buf[..count])?;
    }
}
