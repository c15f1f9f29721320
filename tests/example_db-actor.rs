//! The gate of the example `db-actor`: clerks on every shard get the same answers, byte for byte, on every kernel and
//! at one shard and at many; and with a directory their parcels are there the next time.

use std::process::Output;

#[path = "support/example.rs"]
mod example;

const KERNELS: [(&str, Option<&str>); 6] =
    [("uring", Some("1")), ("uring", None), ("uring", Some("4")), ("epoll", Some("1")), ("epoll", None), ("sim", None)];

fn said(io: &str, shards: Option<&str>, data: Option<&str>) -> String {
    let mut environment = vec![("WO_IO", io)];
    environment.extend(shards.map(|shards| ("WO_SHARDS", shards)));
    environment.extend(data.map(|data| ("WO_DATA", data)));
    let Output { status, stdout, stderr } = example::run("db-actor", &environment, &[]);
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "with {environment:?} it ended with {status}: {stderr}");
    String::from_utf8(stdout).expect("it writes text")
}

#[test]
fn answers_are_the_same_at_every_number_of_shards_and_on_every_kernel() {
    let (io, shards) = KERNELS[0];
    let first = said(io, shards, None);
    assert!(first.starts_with("0 parcels were there\nclerk 0 took 25 in\n"), "{first}");
    assert!(first.ends_with("\n99 parcels are there\n"), "{first}");
    assert!(first.contains("refused: table `parcels`: no row has the key"), "{first}");
    for (io, shards) in &KERNELS[1..] {
        assert_eq!(said(io, *shards, None), first, "on {io} with {shards:?} shards");
    }
}

#[test]
fn parcels_are_there_the_next_time() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut all = Vec::new();
    for (io, shards) in [("uring", None), ("uring", Some("1")), ("epoll", None)] {
        let dir = scratch.path().join(format!("{io}-{shards:?}"));
        let dir = dir.to_str().expect("it is text");
        let first = said(io, shards, Some(dir));
        let second = said(io, shards, Some(dir));
        assert!(second.starts_with("99 parcels were there\n"), "{second}");
        assert!(second.ends_with("\n198 parcels are there\n"), "{second}");
        all.push((first, second));
    }
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{all:#?}");
}

#[test]
fn a_command_line_it_does_not_know_is_refused() {
    example::refuses_what_it_does_not_know("db-actor");
}
