//! How fast virtual time passes, and that it does not run away with memory.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use wo::net::TcpStream;
use wo::sim::World;

use crate::echo_server;

#[wo::fiber]
fn hundred_clients(server: Ipv4Addr, seconds: u64) -> u64 {
    let clients: Vec<_> = (0..100).map(|_| wo::spawn(move || ten_a_second(server, seconds))).collect();
    let mut answered = 0;
    for client in clients {
        let done = client.join();
        answered += done.expect("it does not panic").expect("nothing fails here");
    }
    answered
}

#[wo::fiber]
fn ten_a_second(server: Ipv4Addr, seconds: u64) -> wo::IoResult<u64> {
    let stream = TcpStream::connect((server, 7000))?;
    let mut answer = [0; 32];
    for _ in 0..seconds * 10 {
        wo::sleep(Duration::from_millis(100))?;
        stream.write_all(&[7; 32])?;
        stream.read_exact(&mut answer)?;
    }
    Ok(seconds * 10)
}

/// The echo world: 100 clients, 10 requests a second each. Timed only where it is asked for: `WO_TIMED=1`, in a release
/// build, where 50 virtual seconds have to pass in one.
#[test]
fn the_echo_world_keeps_its_pace() {
    let timed = std::env::var_os("WO_TIMED").is_some();
    let seconds = if timed { 200 } else { 5 };
    let mut world = World::new(1);
    let (server, client) = (world.host("server"), world.host("client"));
    let _served = world.start(&server, echo_server());
    let begun = Instant::now();
    let asked = world.start(&client, hundred_clients(server.ip(), seconds));
    assert_eq!(world.finish(asked).unwrap(), seconds * 1000);
    let rate = world.elapsed().as_secs_f64() / begun.elapsed().as_secs_f64();
    println!("{rate:.0} virtual seconds per second");
    assert!(!timed || rate >= 50.0, "{rate}");
}
