//! One seed is one run.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use wo::Builder;
use wo::net::TcpStream;
use wo::sim::World;

use crate::echo_server;

#[wo::fiber]
fn clients(server: Ipv4Addr, count: usize, requests: usize) -> usize {
    let clients: Vec<_> = (0..count).map(|_| wo::spawn(move || client(server, requests))).collect();
    let mut answered = 0;
    for client in clients {
        let done = client.join();
        answered += done.expect("a client does not panic");
    }
    answered
}

/// Ten requests a second; answers how many were answered, whatever happens to the connection.
#[wo::fiber]
fn client(server: Ipv4Addr, requests: usize) -> usize {
    let patience = Duration::from_secs(5);
    let mut answered = 0;
    let mut connection: Option<TcpStream> = None;
    for _ in 0..requests {
        wo::sleep(Duration::from_millis(100)).expect("it is not cancelled");
        if connection.is_none() {
            connection = TcpStream::connect_by((server, 7000), patience).ok().flatten();
        }
        let Some(stream) = &connection else { continue };
        let sent = stream.write_all(b"?");
        let heard = stream.read_by(&mut [0; 1], patience);
        if sent.is_ok() && matches!(heard, Ok(Some(1))) {
            answered += 1;
        } else {
            connection = None;
        }
    }
    answered
}

/// An echo server and its clients, meeting what the seed selects.
fn hostile_echo(world: &mut World, count: usize, requests: usize) -> usize {
    let (server, client) = (world.host("server"), world.host("client"));
    let swarm = world.swarm();
    swarm.unleash(world, &[server.clone(), client.clone()], Duration::from_secs(5));
    for _ in 0..swarm.crashes {
        let server = server.clone();
        world.at(Duration::from_millis(world.draw(5000)), move |world| {
            world.crash(&server);
            world.restart(&server).expect("nothing runs there");
            let _served = world.start_with(&server, Builder::new().shards(2), echo_server());
        });
    }
    let _served = world.start_with(&server, Builder::new().shards(2), echo_server());
    let asked = world.start_with(&client, Builder::new().shards(2), clients(server.ip(), count, requests));
    world.finish(asked).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn m1_the_same_seed_is_the_same_run_and_another_is_another() {
    let run = |seed| {
        let mut world = World::new(seed);
        world.keep_trace();
        hostile_echo(&mut world, 5, 10);
        (world.digest(), world.trace())
    };
    let mut digests = BTreeSet::new();
    for seed in 0..100 {
        let ((digest, trace), (again, trace_again)) = (run(seed), run(seed));
        assert_eq!(trace, trace_again, "seed {seed}");
        assert_eq!(digest, again);
        assert!(trace.lines().count() > 100);
        digests.insert(digest);
    }
    assert!(digests.len() >= 99, "{}", digests.len());
}

/// Whatever the seed selects, the clients come to their end; and where nothing is selected, all are answered.
#[test]
fn a_sweep_of_the_echo_world() {
    World::sweep(0..60, |world| {
        let answered = hostile_echo(world, 10, 40);
        assert!(answered <= 400);
    });
    let mut calm = World::new(1);
    let (server, client) = (calm.host("server"), calm.host("client"));
    let _served = calm.start(&server, echo_server());
    let asked = calm.start(&client, clients(server.ip(), 10, 40));
    assert_eq!(calm.finish(asked).unwrap(), 400);
}
