//! Descriptors, queues, and what is refused.

use std::time::Duration;

use wo_runtime::error::{OpKind, errno};
use wo_runtime::plane::backend::operand::Datagram;
use wo_runtime::plane::backend::sim::SimBackend;
use wo_runtime::plane::backend::{Backend, BackendConfig, Feature, OpSet, Shim, SocketKind, SocketOption};
use wo_runtime::plane::op::{RawOp, RawSlice};
use wo_runtime::plane::{Fd, SocketAddress};

use super::world;
use crate::rig::Rig;

fn loopback() -> SocketAddress {
    SocketAddress::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0)))
}

#[test]
fn the_lowest_free_number_is_given() {
    let mut rig = world();
    let (a, b) = rig.pair();
    let (c, d) = rig.backend().pipe().unwrap();
    assert_eq!([a.raw(), b.raw(), c.raw(), d.raw()], [3, 4, 5, 6]);
    drop((c, b));
    let (e, f) = rig.pair();
    assert_eq!([e.raw(), f.raw()], [4, 5]);
    assert!(!e.is_system());
}

#[test]
fn the_last_user_closes_wherever_it_lives() {
    let mut rig = world();
    let control = rig.backend().control();
    let (a, b) = rig.pair();
    let shared = a.clone();
    drop(a);
    assert_eq!(control.open_descriptors(), 2);
    std::thread::spawn(move || drop(shared)).join().unwrap();
    assert_eq!(control.open_descriptors(), 1);
    assert_eq!(rig.recv(&b, 8), b"");
}

#[test]
fn what_was_not_reaped_goes_with_the_backend() {
    for held in [false, true] {
        let mut rig = world();
        let control = rig.backend().control();
        let (listener, address) = rig.listener();
        let (client, connecting) = rig.connect(&address);
        assert_eq!(rig.finish(connecting), 0);
        if held {
            control.hold_completions();
        }
        let accept = rig.start(RawOp::Accept { fd: listener.raw(), multishot: false });
        rig.backend().wait(Some(Duration::from_secs(1))).unwrap();
        assert_eq!(control.open_descriptors(), 3);
        rig.forget(&[accept]);
        drop(rig);
        assert_eq!(control.open_descriptors(), 2);
        drop((listener, client));
        assert_eq!(control.open_descriptors(), 0);
    }
}

/// Ops still in flight end with their backend, and their memory is not touched any more.
#[test]
fn a_closed_backend_forgets_its_ops() {
    let mut sim = SimBackend::open(&BackendConfig::default()).unwrap();
    let (a, b) = sim.socket_pair(SocketKind::Stream).unwrap();
    let mut memory = vec![0u8; 8];
    let buf = RawSlice { ptr: memory.as_mut_ptr(), len: 8, fixed: RawSlice::NOT_FIXED };
    let token = wo_runtime::plane::Token::from_raw(1 << 56);
    // SAFETY: the memory lives until after the backend was closed.
    unsafe { sim.submit(token, RawOp::Recv { fd: b.raw(), buf }) }.unwrap();
    sim.flush().unwrap();
    sim.close();
    memory[0] = 1;
    drop((a, b));
    assert_eq!(memory, [1, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn udp_drops_what_its_buffer_cannot_hold() {
    let mut rig = world();
    let bound = |rig: &mut super::World| {
        let fd = rig.backend().socket(loopback().domain(), SocketKind::Datagram).unwrap();
        rig.backend().bind(&fd, &loopback()).unwrap();
        fd
    };
    let (sender, receiver) = (bound(&mut rig), bound(&mut rig));
    rig.backend().set_socket_option(&receiver, SocketOption::ReceiveBuffer(10_000)).unwrap();
    let to = rig.backend().local_address(&receiver).unwrap();
    for number in 0..100u8 {
        let buf = rig.bytes(&[number; 232]).slice();
        let datagram = rig.boxed(Datagram::to(buf, Some(&to)).unwrap());
        assert_eq!(rig.run(RawOp::SendTo { fd: sender.raw(), datagram }), 232);
    }
    rig.backend().wait(Some(Duration::from_millis(1))).unwrap();
    for number in 0..20 {
        assert_eq!(rig.recv(&receiver, 300), [number; 232], "the first ones are kept, in order");
    }
    let buf = rig.room(8).slice();
    let none = rig.start(RawOp::Recv { fd: receiver.raw(), buf });
    rig.expect_silence();
    rig.cancel(none);
}

/// Listeners that share a port share its callers; a caller's port says whose it is.
#[test]
fn shared_ports_spread_their_callers() {
    let mut rig = world();
    let mut listeners: Vec<Fd> = Vec::new();
    let mut address = loopback();
    for _ in 0..4 {
        let fd = rig.backend().socket(address.domain(), SocketKind::Stream).unwrap();
        rig.backend().set_socket_option(&fd, SocketOption::ReusePort(true)).unwrap();
        rig.backend().bind(&fd, &address).unwrap();
        rig.backend().listen(&fd, 64).unwrap();
        address = rig.backend().local_address(&fd).unwrap();
        listeners.push(fd);
    }
    let accepts: Vec<_> =
        listeners.iter().map(|fd| rig.start(RawOp::Accept { fd: fd.raw(), multishot: true })).collect();
    let mut callers = Vec::new();
    for _ in 0..40 {
        let (fd, connecting) = rig.connect(&address);
        assert_eq!(rig.finish(connecting), 0);
        callers.push(fd);
    }
    for accept in accepts {
        for _ in 0..10 {
            let raw = rig.next(accept).res;
            drop(rig.backend().adopt(raw));
        }
    }
}

#[test]
fn a_shim_hides_what_there_is() {
    let shim = Shim {
        hidden_ops: OpSet::EMPTY.with(OpKind::Sync).with(OpKind::Job),
        hidden_features: vec![Feature::MultishotAccept, Feature::RegisteredBuffers],
        ..Shim::default()
    };
    let mut rig = Rig::<SimBackend>::open(&BackendConfig { shim, ..BackendConfig::default() });
    assert!(!rig.backend().caps().supports(OpKind::Sync) && rig.backend().caps().supports(OpKind::Recv));
    assert_eq!(rig.run(RawOp::Sync { fd: 3, data_only: true }), -errno::ENOSYS);
    let (listener, _) = rig.listener();
    assert_eq!(rig.run(RawOp::Accept { fd: listener.raw(), multishot: true }), -errno::EINVAL);
    let memory = rig.room(8).slice();
    // SAFETY: the rig keeps the memory until the backend was closed.
    assert_eq!(unsafe { rig.backend().register_buffer(memory) }, None);
    assert_eq!(rig.backend().caps().to_string(), "sim, WaitDeadline, NoDrop, Truncate");

    let refused = Shim { fail_setup: Some(errno::EACCES), ..Shim::default() };
    let error = SimBackend::open(&BackendConfig { shim: refused, ..BackendConfig::default() }).unwrap_err();
    assert_eq!((error.errno(), error.op()), (errno::EACCES, OpKind::Setup));
}

#[test]
fn registered_buffers_have_numbers() {
    let mut rig = world();
    let memory = rig.bytes(b"registered");
    // SAFETY: the rig keeps the memory until the backend was closed.
    let place = unsafe { rig.backend().register_buffer(memory.slice()) }.unwrap();
    let (a, b) = rig.pair();
    let buf = RawSlice { fixed: place, ..memory.slice() };
    assert_eq!(rig.run(RawOp::Send { fd: a.raw(), buf, all: true }), 10);
    assert_eq!(rig.recv(&b, 16), b"registered");
}

/// Ten thousand connections one after another, each closed by its caller: ports go round, nothing piles up.
#[test]
fn many_short_connections_leave_nothing() {
    let mut rig = world();
    let control = rig.backend().control();
    let (listener, address) = rig.listener();
    for _ in 0..30_000 {
        let (client, connecting) = rig.connect(&address);
        assert_eq!(rig.finish(connecting), 0);
        let raw = rig.run(RawOp::Accept { fd: listener.raw(), multishot: false });
        drop(client);
        drop(rig.backend().adopt(raw));
    }
    assert_eq!(control.open_descriptors(), 1);
}
