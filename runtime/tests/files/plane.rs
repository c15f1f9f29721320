//! The file ops below the verbs: what a detached op leaves behind, and registered buffers.

use std::cell::Cell;
use std::rc::Rc;

use wo_runtime::error::{OpKind, errno};
use wo_runtime::fiber::verb;
use wo_runtime::os::fs::OpenOptions;
use wo_runtime::plane::backend::{Backend, BackendConfig, Feature, Selection, Shim};
use wo_runtime::plane::buf::{BufPool, IoBuf, Origin};
use wo_runtime::plane::current::with_loop;
use wo_runtime::plane::ops::{Read, ReadVectored, Write};
use wo_runtime::shard::Builder;

use super::rig::{on_every_kernel, pattern, start_and_drop};

#[test]
fn bytes_of_a_detached_read_go_to_the_next() {
    on_every_kernel(|_| async {
        let (reader, writer) = with_loop(OpKind::Open, |event_loop| event_loop.backend().pipe())?;
        let told = Rc::new(Cell::new(false));
        let (read, seen) = (Read::next(&reader, vec![0; 8]), Rc::clone(&told));
        with_loop(OpKind::Read, |event_loop| {
            let token = event_loop.submit(read, move |_, _| seen.set(true))?;
            event_loop.detach(token);
            Ok(())
        })?;
        verb(Write::next(&writer, b"for the next".to_vec())).await.0?;
        let mut bytes = Vec::new();
        while bytes.len() < 12 {
            let (count, buf) = verb(Read::next(&reader, vec![0; 5])).await;
            assert!(count? > 0);
            bytes.extend(buf);
        }
        assert_eq!(bytes, b"for the next");
        assert!(!told.get(), "a detached op tells nobody");
        Ok(())
    });
}

#[test]
fn bytes_of_a_dropped_vectored_read_go_to_the_next() {
    on_every_kernel(|_| async {
        let (reader, writer) = with_loop(OpKind::Open, |event_loop| event_loop.backend().pipe())?;
        let rooms = || vec![Vec::with_capacity(2), Vec::new(), Vec::with_capacity(4)];
        let mut dropped = Box::pin(verb(ReadVectored::next(&reader, rooms())));
        assert!(super::rig::poll_once(dropped.as_mut()).await.is_none());
        verb(Write::next(&writer, b"abcdefghi".to_vec())).await.0?;
        drop(dropped);
        let mut bytes = Vec::new();
        while bytes.len() < 9 {
            let (count, rooms) = verb(ReadVectored::next(&reader, rooms())).await;
            let part = rooms.concat();
            assert_eq!(part.len(), count?);
            bytes.extend(part);
        }
        assert_eq!(bytes, b"abcdefghi");
        Ok(())
    });
}

#[test]
fn registered_buffers_work_as_others_do() {
    on_every_kernel(|scratch| async move {
        let mut pool = BufPool::new(4, 8192)?;
        let before = pool.take().expect("free");
        let has = with_loop(OpKind::Setup, |event_loop| Ok(event_loop.caps().has(Feature::RegisteredBuffers)))?;
        let registered = with_loop(OpKind::Setup, |event_loop| event_loop.register_pool(&mut pool));
        assert_eq!(registered.is_ok(), has, "{registered:?}");
        assert_eq!((pool.is_registered(), pool.refusal().is_none()), (has, has));
        let origin = if has { Origin::Registered } else { Origin::Pool };
        assert_eq!((before.origin(), before.registered().is_some()), (origin, has), "also those that are out");
        drop(before);

        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).open(scratch.join("file")).await?;
        let bytes = pattern(8192);
        let mut buf = pool.take().expect("free");
        buf.extend_from_slice(&bytes);
        let (written, buf) = file.write_all_at(buf, 100).await;
        written?;
        assert_eq!(buf.origin(), origin);
        drop(buf);
        let (read, buf) = file.read_exact_at(pool.take().expect("free"), 100).await;
        read?;
        assert!(buf[..] == bytes[..]);
        start_and_drop(file.read_at(buf, 0)).await;

        // On another thread it is an ordinary one, and it comes home from there.
        let away = pool.take().expect("free");
        let elsewhere = std::thread::spawn(move || (away.origin(), away.registered())).join().expect("it only looks");
        assert_eq!(elsewhere, (Origin::Pool, None));
        while pool.available() < 4 {
            wo_runtime::fiber::yield_now().await?;
        }
        if has {
            let again = with_loop(OpKind::Setup, |event_loop| event_loop.register_pool(&mut pool)).unwrap_err();
            assert_eq!(again.errno(), errno::EBUSY, "{again}");
            assert!(pool.is_registered());
        }
        Ok(())
    });
}

#[test]
fn r15_a_refused_registration_changes_nothing_but_speed() {
    let shim = Shim { fail_registration: Some(errno::ENOMEM), ..Shim::default() };
    let config = BackendConfig { shim, ..BackendConfig::default() };
    let ran = Builder::new().io(Selection::Uring).backend_config(config).run(|| async {
        let mut pool = BufPool::new(2, 64)?;
        let refused = with_loop(OpKind::Setup, |event_loop| event_loop.register_pool(&mut pool)).unwrap_err();
        assert!(refused.context().contains("they work unregistered"), "{refused}");
        assert_eq!(pool.refusal(), Some(&refused));
        let (reader, writer) = wo_runtime::os::io::pipe()?;
        let mut buf = pool.take().expect("free");
        assert_eq!(buf.origin(), Origin::Pool);
        buf.extend_from_slice(b"all the same");
        writer.write(buf).await.0?;
        let (_, buf) = reader.read(pool.take().expect("free")).await;
        assert_eq!(&buf[..], b"all the same");
        Ok::<_, wo_runtime::error::IoError>(())
    });
    ran.expect("the program runs to its end").expect("unregistered buffers work");
}

#[test]
fn a_pool_may_be_registered_again_after_its_loop() {
    let mut pool = BufPool::new(1, 64).expect("a small pool");
    for _ in 0..2 {
        let mut event_loop = wo_runtime::plane::EventLoop::<wo_runtime::plane::backend::uring::UringBackend>::new(
            &wo_runtime::plane::LoopConfig::default(),
        )
        .expect("a ring");
        event_loop.register_pool(&mut pool).expect("a page may be registered");
        assert!(pool.is_registered());
        event_loop.close().expect("nothing is in flight");
        assert!(!pool.is_registered());
    }
}
