//! Sweeps over seeds: each selects other faults, and what has to hold, holds.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use wo::actor::{Addr, AskError, Exit, Options, Reply, Supervisor};
use wo::net::{TcpListener, TcpStream};
use wo::sim::World;
use wo::{Builder, IoResult};

use crate::child;

/// Seeds of one sweep: what runs in some seconds in a debug build.
const SEEDS: u64 = 60;
const ACCOUNTS: u64 = 8;
const BEGINNING: u64 = 100;

/// Moves money between accounts, each order once, however often it is asked for.
#[derive(Default)]
struct Bank {
    accounts: BTreeMap<u64, u64>,
    done: BTreeMap<u64, bool>,
    inside: bool,
}

#[wo::actor]
impl Bank {
    fn started(&mut self) {
        self.accounts = (0..ACCOUNTS).map(|account| (account, BEGINNING)).collect();
    }

    /// Whether the money was there; asked again, it answers the same and moves nothing.
    #[message]
    fn transfer(&mut self, order: u64, from: u64, to: u64, amount: u64) -> bool {
        assert!(!std::mem::replace(&mut self.inside, true), "one message at a time");
        // It parks in the middle, where another message must not come in.
        let _ = wo::sleep(Duration::from_micros(50));
        let moved = match self.done.get(&order) {
            Some(moved) => *moved,
            None => {
                let there = self.accounts[&from];
                if there >= amount {
                    *self.accounts.get_mut(&from).expect("it exists") -= amount;
                    *self.accounts.get_mut(&to).expect("it exists") += amount;
                }
                self.done.insert(order, there >= amount);
                there >= amount
            }
        };
        self.inside = false;
        moved
    }

    #[message]
    fn total(&mut self) -> u64 {
        self.accounts.values().sum()
    }

    #[message]
    fn orders(&mut self) -> usize {
        self.done.len()
    }
}

/// Serves a bank to whoever connects: 8 bytes of order, a byte each of accounts and amount; a byte comes back.
#[wo::fiber]
fn bank_server() -> IoResult<()> {
    let bank = Options::new().shard(1).spawn(Bank::default());
    let listener = TcpListener::bind("0.0.0.0:7000")?;
    loop {
        let (stream, _) = listener.accept()?;
        wo::spawn(|| serve(stream, bank));
    }
}

#[wo::fiber]
fn serve(stream: TcpStream, bank: Addr<BankMessage>) -> IoResult<()> {
    let mut request = [0; 11];
    loop {
        stream.read_exact(&mut request)?;
        let order = u64::from_be_bytes(request[..8].try_into().expect("eight bytes"));
        let [from, to, amount] = [request[8], request[9], request[10]].map(u64::from);
        if order == u64::MAX {
            let (Ok(total), Ok(orders)) = (bank.total(), bank.orders()) else { return Ok(()) };
            stream.write_all(&[(total / 100) as u8, orders as u8])?;
        } else {
            let Ok(moved) = bank.transfer(order, from, to, amount) else { return Ok(()) };
            stream.write_all(&[u8::from(moved), 0])?;
        }
    }
}

/// Asks until it is answered, by as many connections as it takes.
#[wo::fiber]
fn insist(server: Ipv4Addr, request: [u8; 11]) -> [u8; 2] {
    let patience = Duration::from_secs(2);
    loop {
        if let Ok(Some(stream)) = TcpStream::connect_by((server, 7000), patience) {
            let mut answer = [0; 2];
            let sent = stream.write_all(&request);
            if sent.is_ok() && matches!(stream.read_exact_by(&mut answer, patience), Ok(Some(()))) {
                return answer;
            }
        }
        let _ = wo::sleep(Duration::from_millis(100));
    }
}

/// Gives eight orders, one after the other.
#[wo::fiber]
fn customer(server: Ipv4Addr, seed: u64, customer: u64) {
    for number in 0..8_u64 {
        let order = customer * 100 + number;
        let draw = (seed ^ order).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut request = [0; 11];
        request[..8].copy_from_slice(&order.to_be_bytes());
        request[8] = (draw % ACCOUNTS) as u8;
        request[9] = (draw >> 8) as u8 % ACCOUNTS as u8;
        request[10] = (draw >> 16) as u8;
        insist(server, request);
    }
}

#[wo::fiber]
fn customers(server: Ipv4Addr, seed: u64) -> [u8; 2] {
    let customers: Vec<_> = (0..4_u64).map(|number| wo::spawn(move || customer(server, seed, number))).collect();
    for customer in customers {
        let served = customer.join();
        served.expect("it does not panic");
    }
    let mut request = [0; 11];
    request[..8].copy_from_slice(&u64::MAX.to_be_bytes());
    insist(server, request)
}

/// Orders over a network that loses, parts and resets reach an actor once each, and no money comes or goes.
#[test]
fn a_sweep_of_the_bank_world() {
    World::sweep(0..SEEDS, |world| {
        let (server, client) = (world.host("server"), world.host("client"));
        let swarm = world.swarm();
        swarm.unleash(world, &[server.clone(), client.clone()], Duration::from_secs(5));
        let _served = world.start_with(&server, Builder::new().shards(2), bank_server());
        let seed = world.seed();
        let asked = world.start_with(&client, Builder::new().shards(2), customers(server.ip(), seed));
        let [hundreds, orders] = world.finish(asked).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((u64::from(hundreds) * 100, orders), (ACCOUNTS * BEGINNING, 32), "{swarm:?}");
    });
}

/// Fails on some messages, and counts what it handled.
struct Worker {
    handled: u64,
}

#[wo::actor]
impl Worker {
    #[message]
    fn work(&mut self, number: u64, span: Duration, reply: Reply<u64>) {
        if number % 7 == 3 {
            wo::actor::fail("told to");
            return;
        }
        let _ = wo::sleep(span);
        self.handled += 1;
        let _ = reply.send(number);
    }
}

/// What came of the asks of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    answered: u64,
    failed: u64,
    late: u64,
    gone: u64,
}

#[wo::fiber]
fn ask(worker: Addr<WorkerMessage>, number: u64, draw: u64) -> Result<u64, AskError> {
    let _ = wo::sleep(Duration::from_micros(draw % 5000));
    worker.work_by(number, Duration::from_micros(draw % 300), Duration::from_micros(1 + draw % 20_000))
}

/// Supervised workers on every shard, asked by many at once, some of them with little time; one is stopped, one killed
/// half-way.
#[wo::fiber]
fn crew(seed: u64) -> (Tally, u64) {
    let mut supervisor = Supervisor::one_for_one().limit(1000, Duration::from_secs(1));
    let workers: Vec<Addr<WorkerMessage>> = (0..6).map(|_| supervisor.child(|| Worker { handled: 0 })).collect();
    let supervisor = supervisor.start();
    let asks: Vec<_> = (0..200_u64)
        .map(|number| {
            let draw = (seed ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let worker = workers[(draw % 6) as usize];
            wo::spawn(move || ask(worker, number, draw))
        })
        .collect();
    let _ = wo::sleep(Duration::from_micros(seed % 4000));
    workers[0].stop();
    workers[1].kill();
    let mut tally = Tally::default();
    for ask in asks {
        let answer = ask.join();
        match answer.expect("no fiber panics") {
            Ok(_) => tally.answered += 1,
            Err(AskError::Failed | AskError::NoReply) => tally.failed += 1,
            Err(AskError::Deadline) => tally.late += 1,
            Err(AskError::Closed | AskError::Stopped) => tally.gone += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    for worker in &workers {
        worker.stop();
    }
    for worker in workers {
        let end = worker.ended();
        let end = end.expect("it is not cancelled");
        assert!(matches!(end, Exit::Stopped | Exit::Killed | Exit::Gone), "{end:?}");
    }
    supervisor.stop();
    let _ = supervisor.ended();
    let counters = wo::actor::counters();
    // Every message ends exactly once.
    let ended = counters.handled + counters.expired + counters.dead_lettered + counters.returned;
    assert_eq!(counters.sent, ended, "{counters:?}");
    (tally, counters.queued())
}

/// Whatever order the seed puts it in, each ask has one answer, each message one end; and it is the same again for the
/// same seed.
#[test]
fn a_sweep_of_the_actor_world() {
    World::sweep(0..SEEDS, |world| {
        let seed = world.seed();
        let run = |world: &mut World| {
            let host = world.host("crew");
            let shards = 1 + (seed % 4) as usize;
            let program = world.start_with(&host, Builder::new().shards(shards), crew(seed));
            let ended = world.finish(program).unwrap_or_else(|error| panic!("{error}"));
            (ended, world.digest())
        };
        let first = run(world);
        let ((tally, queued), _) = first;
        assert_eq!(tally.answered + tally.failed + tally.late + tally.gone, 200);
        assert_eq!(queued, 0);
        assert_eq!(run(&mut World::new(seed)), first);
    });
}

/// A sweep that fails says which seed, and how to run it alone.
#[test]
fn a_failing_seed_prints_the_line_that_replays_it() {
    let test = child::test_path!();
    let sweep = || {
        let mut seen = Vec::new();
        World::sweep(0..10, |world| {
            seen.push(world.seed());
            println!("seeds: {seen:?}");
            let host = world.host("sleeper");
            let slept = world.start(&host, short_sleep());
            world.finish(slept).unwrap().unwrap();
            assert!(world.seed() != 4, "this seed fails");
        });
    };
    if child::is_child(test) {
        return sweep();
    }
    let written = |seed: Option<&str>| {
        let mut command = child::command(test);
        command.env_remove("WO_SEED").envs(seed.map(|seed| ("WO_SEED", seed)));
        let output = command.output().expect("the test binary starts");
        (output.status.success(), child::written(&output))
    };
    let (well, said) = written(None);
    assert!(!well && said.contains("seeds: [0, 1, 2, 3, 4]") && !said.contains("[0, 1, 2, 3, 4, 5"), "{said}");
    let replay =
        format!("the simulated world had seed 4 and was 3s old; replay: WO_SEED=4 cargo test -- --exact {test}");
    assert!(said.contains(&replay), "{replay:?} is missing in {said}");
    let (well, said) = written(Some("4"));
    assert!(!well && said.contains("seeds: [4]") && said.contains(&replay), "{said}");
    let (well, said) = written(Some("5"));
    assert!(well && said.contains("seeds: [5]"), "{said}");
    let (well, said) = written(Some("five"));
    assert!(!well && said.contains("WO_SEED=\"five\": expected a whole number") && !said.contains("seeds:"), "{said}");
}

/// The seed of a world that a test makes itself is in the test, and no variable gives it another: to run it again is to
/// run the test again.
#[test]
fn a_failing_world_of_a_seed_of_its_own_names_the_seed_alone() {
    let test = child::test_path!();
    if child::is_child(test) {
        let _world = World::new(11);
        panic!("this seed fails");
    }
    let said = child::written(&child::command(test).output().expect("the test binary starts"));
    assert!(said.contains("the simulated world had seed 11 and was 0ns old\n"), "{said}");
    assert!(!said.contains("replay"), "{said}");
}

#[wo::fiber]
fn short_sleep() -> IoResult<()> {
    wo::sleep(Duration::from_secs(3))
}
