//! Wakers used at odd times: by their own poll, and after their runtime has ended.

use std::fs::File;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use wo_runtime::plane::backend::{AnyBackend, BackendConfig};
use wo_runtime::plane::{EventLoop, LoopConfig};

use crate::backends::{EVERY, on_every_backend, run, those_of};
use crate::child::{self, test_path};

async fn wakes_itself() {
    for turns in [1, 2, 1000] {
        let mut left = turns;
        poll_fn(|cx| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

#[test]
fn r30_self_wake_root() {
    on_every_backend(wakes_itself);
}

async fn leave_wakers_behind(kept: Arc<Mutex<Vec<Waker>>>, held: Arc<()>) {
    // Fiber 0's own, and that of a fiber which is parked when the program ends.
    poll_fn(|cx| {
        kept.lock().expect("nobody panicked").push(cx.waker().clone());
        Poll::Ready(())
    })
    .await;
    let parked = Arc::clone(&kept);
    wo::spawn(move || async move {
        let _held = held;
        poll_fn(|cx| {
            parked.lock().expect("nobody panicked").push(cx.waker().clone());
            Poll::<()>::Pending
        })
        .await;
    });
    while kept.lock().expect("nobody panicked").len() < 2 {
        wo::yield_now().await.expect("yield");
    }
}

// In a process of its own, where nobody else opens or closes descriptors.
#[test]
fn r28_wake_after_drop() {
    child::run(test_path!(), wakes_after_the_end);
}

fn wakes_after_the_end() {
    for backend in those_of(EVERY) {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let held = Arc::new(());
        let (into, holding) = (Arc::clone(&kept), Arc::clone(&held));
        run(backend, |builder| builder, move || leave_wakers_behind(into, holding));
        assert_eq!(Arc::strong_count(&held), 1, "on {backend}: the parked fiber's future is freed");

        // And the doorbell of a loop by itself, which nobody has rung yet.
        let loop_alone = AnyBackend::select(backend, &BackendConfig::default()).expect("it is here");
        let loop_alone = EventLoop::over(loop_alone, &LoopConfig::default());
        let doorbell = loop_alone.waker();
        drop(loop_alone);

        // Files take the numbers the runtime gave back; a wake that writes to an old number would write to one.
        let dir = tempfile::tempdir().expect("a folder for the files");
        let files: Vec<File> =
            (0..64).map(|number| File::create(dir.path().join(number.to_string())).expect("create")).collect();
        let wakers = std::mem::take(&mut *kept.lock().expect("nobody panicked"));
        assert_eq!(wakers.len(), 2);
        let waking = std::thread::spawn(move || {
            for _ in 0..1000 {
                wakers.iter().for_each(Waker::wake_by_ref);
                doorbell.wake();
            }
            wakers.into_iter().for_each(Waker::wake);
        });
        waking.join().expect("waking after the end does nothing");
        for file in files {
            assert_eq!(file.metadata().expect("metadata").len(), 0, "on {backend}: a wake wrote to a recycled number");
        }
    }
}
