//! `sim`: how fast virtual time passes in a simulated world.
//!
//! Case `echo` is an echo server and a hundred clients on another host, each of which asks ten times a second: the
//! virtual seconds that pass in one. Case `month` is a world that is made, in which one fiber sleeps for thirty days,
//! and which is ended.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use wo::IoResult;
use wo::net::{TcpListener, TcpStream};
use wo::sim::World;
use wo_runtime::fiber;

use crate::failure::Failure;
use crate::stats::{Sample, Unit};

/// What is measured.
pub const CASES: &[&str] = &["echo", "month"];

const CLIENTS: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);
const BYTES: usize = 32;
const MONTH: Duration = Duration::from_secs(30 * 86_400);

/// Refuses what is not among the cases.
pub fn check(case: &str) -> Result<(), Failure> {
    if CASES.contains(&case) {
        return Ok(());
    }
    Err(Failure::new(format!("case `{case}`"), format!("expected one of {}", CASES.join(", "))))
}

/// One round.
pub fn round(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    check(case)?;
    Ok(vec![if case == "echo" { echo(budget) } else { month(budget) }])
}

fn echo(budget: Duration) -> Sample {
    let mut world = World::new(1);
    let (server, client) = (world.host("server"), world.host("client"));
    let served = world.start(&server, serve);
    let ip = server.ip();
    let asks = world.start(&client, move || clients(ip));
    // Everybody is connected by then.
    world.run_for(Duration::from_secs(1));
    let begun = Instant::now();
    let mut seconds = 0;
    while seconds == 0 || begun.elapsed() < budget {
        world.run_for(Duration::from_secs(1));
        seconds += 1;
    }
    let pace = f64::from(seconds) / begun.elapsed().as_secs_f64();
    assert!(!served.has_ended() && !asks.has_ended(), "the echo world came to an end");
    Sample::new("virtual_seconds", pace, Unit::PerSecond)
}

async fn serve() -> IoResult<()> {
    let listener = TcpListener::bind("0.0.0.0:7000").await?;
    loop {
        let (stream, _) = listener.accept().await?;
        fiber::spawn(move || async move {
            let mut buf = [0; 1024];
            loop {
                let count = stream.read(&mut buf).await?;
                if count == 0 {
                    return Ok::<_, wo::IoError>(());
                }
                stream.write_all(&buf[..count]).await?;
            }
        });
    }
}

async fn clients(server: Ipv4Addr) -> IoResult<()> {
    let clients: Vec<_> = (0..CLIENTS).map(|_| fiber::spawn(move || ask(server))).collect();
    for client in clients {
        client.join().await.expect("a client does not panic")?;
    }
    Ok(())
}

async fn ask(server: Ipv4Addr) -> IoResult<()> {
    let stream = TcpStream::connect((server, 7000)).await?;
    let mut answer = [0; BYTES];
    loop {
        fiber::sleep(PAUSE).await?;
        stream.write_all(&[7; BYTES]).await?;
        stream.read_exact(&mut answer).await?;
    }
}

fn month(budget: Duration) -> Sample {
    let begun = Instant::now();
    let mut worlds = 0;
    while worlds == 0 || begun.elapsed() < budget {
        let mut world = World::new(1);
        let host = world.host("sleeper");
        let slept = world.start(&host, || fiber::sleep(MONTH));
        world.finish(slept).expect("it ends").expect("it is not cancelled");
        assert_eq!(black_box(world.elapsed()), MONTH);
        worlds += 1;
    }
    Sample::new("thirty_days", begun.elapsed().as_secs_f64() * 1e6 / f64::from(worlds), Unit::Microseconds)
}
