//! The conformance cases that do not depend on how fast the machine is, by topic.
//!
//! Each test is named after its case. It runs on io_uring, on epoll and in the simulated kernel where it can;
//! `tests/timing` holds the cases that state a bound in time.

#[path = "../support/backends.rs"]
mod backends;
#[path = "../support/child.rs"]
mod child;
#[path = "../support/flagged.rs"]
mod flagged;
#[path = "../support/jitter.rs"]
mod jitter;
#[path = "../support/poll.rs"]
mod poll;
#[path = "../support/process.rs"]
mod process;

mod accept;
mod actors;
mod buffers;
mod connect;
mod differential;
mod files;
mod home;
mod interleavings;
mod panics;
mod reads;
mod repeating;
mod ring;
mod sockets;
mod streams;
mod time;
mod wakers;
