//! Where shards run.

use std::collections::BTreeSet;
use std::fs;
use std::process::{ExitCode, Termination};

use wo_runtime::fiber::{self, oneshot};
use wo_runtime::os::cpus;
use wo_runtime::plane::backend::{BackendKind, Selection};
use wo_runtime::plane::ops::Job;
use wo_runtime::shard::{self, Builder, MainOptions, Topology, run_main};

use super::{REAL, in_child, own_cpus, restrict_to};

/// What a shard's own thread says of itself: its number and its CPUs.
type Post = (i32, Vec<usize>);

async fn posts() -> Vec<Post> {
    let mut posts = Vec::new();
    for index in 0..shard::shards() {
        let (sender, receiver) = oneshot::oneshot();
        assert!(shard::post_to(index, move || {
            sender.send((rustix::thread::gettid().as_raw_nonzero().get(), own_cpus())).unwrap();
        }));
        posts.push(receiver.recv().await.unwrap());
    }
    posts
}

/// The posts of a program as `#[wo::main]` would run it.
fn posts_of_main(options: MainOptions) -> Vec<Post> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let status = run_main(options, || async move {
        sender.send(posts().await).unwrap();
        ExitCode::SUCCESS
    });
    assert_eq!(format!("{status:?}"), format!("{:?}", ExitCode::SUCCESS.report()));
    receiver.recv().unwrap()
}

fn threads(posts: &[Post]) -> usize {
    posts.iter().map(|(thread, _)| *thread).collect::<BTreeSet<_>>().len()
}

fn warnings(complained: &str) -> Vec<&str> {
    complained.lines().filter(|line| line.starts_with("wo:")).collect()
}

#[test]
fn on_one_cpu_there_is_one_shard_or_as_many_as_are_asked_for() {
    let complained = in_child("pins::on_one_cpu_there_is_one_shard_or_as_many_as_are_asked_for", &[], || {
        let only = *own_cpus().last().unwrap();
        restrict_to(only);
        assert_eq!((cpus::cores(), cpus::allowed()), (1, vec![only]));
        assert_eq!(posts_of_main(MainOptions::default()).len(), 1);
        for io in [Selection::Auto, Selection::Uring, Selection::Epoll] {
            let posts = posts_of_main(MainOptions { shards: Some(4), io: Some(io), ..MainOptions::default() });
            assert_eq!((posts.len(), threads(&posts)), (4, 4));
            assert!(posts.iter().all(|(_, cpus)| *cpus == [only]), "{posts:?}");
        }
        assert_eq!(own_cpus(), [only]);
    });
    if let Some(complained) = complained {
        assert_eq!(
            warnings(&complained),
            ["wo: 4 shards share 1 core(s), by affinity mask or quota; WO_SHARDS=1 is enough"]
        );
    }
}

#[test]
fn every_core_has_a_shard_by_default_and_each_its_cpu() {
    let complained = in_child("pins::every_core_has_a_shard_by_default_and_each_its_cpu", &[], || {
        let before = own_cpus();
        let posts = posts_of_main(MainOptions::default());
        assert_eq!((posts.len(), threads(&posts)), (cpus::cores(), cpus::cores()));
        if posts.len() > 1 {
            for (nth, (_, cpus)) in posts.iter().enumerate() {
                assert_eq!(*cpus, [before[nth]], "shard {nth}");
            }
        }
        assert_eq!(own_cpus(), before, "the thread has its CPUs back");
    });
    assert!(complained.is_none_or(|complained| warnings(&complained).is_empty()));
}

#[test]
fn the_environment_beats_the_attribute_and_one_shard_is_left_unpinned() {
    let test = "pins::the_environment_beats_the_attribute_and_one_shard_is_left_unpinned";
    let complained = in_child(test, &[("WO_SHARDS", "1")], || {
        let before = own_cpus();
        let posts = posts_of_main(MainOptions { shards: Some(3), ..MainOptions::default() });
        assert_eq!(posts.len(), 1);
        assert_eq!(posts[0].1, before);
    });
    assert!(complained.is_none_or(|complained| warnings(&complained).is_empty()));
}

#[test]
fn more_shards_than_cpus_take_turns_on_them() {
    let cpus = own_cpus();
    let count = cpus.len() * 2 + 1;
    for io in REAL {
        let posts = Builder::new().io(io).shards(count).pin(true).run(posts).unwrap();
        assert_eq!((posts.len(), threads(&posts)), (count, count));
        for (nth, (_, own)) in posts.iter().enumerate() {
            assert_eq!(*own, [cpus[nth % cpus.len()]], "shard {nth}");
        }
    }
}

#[test]
fn a_builder_leaves_the_cpus_alone_unless_told() {
    let before = own_cpus();
    for io in REAL {
        let two = Builder::new().io(io).shards(2).run(posts).unwrap();
        assert!(two.iter().all(|(_, cpus)| *cpus == before), "{two:?}");
        let one = Builder::new().io(io).pin(true).run(posts).unwrap();
        assert_eq!(one[0].1, before[..1]);
        assert_eq!(own_cpus(), before);
    }
    let simulated = Builder::new().io(Selection::Sim).shards(2).pin(true).run(posts).unwrap();
    assert!(simulated.len() == 2 && simulated.iter().all(|(_, cpus)| *cpus == before), "{simulated:?}");
}

#[test]
fn a_pinned_shards_jobs_run_on_every_cpu_and_it_still_knows_how_many_there_are() {
    let before = own_cpus();
    for io in REAL {
        let (helper, known) = Builder::new()
            .io(io)
            .pin(true)
            .run(|| async { (fiber::verb(Job::new(own_cpus)).await.unwrap().unwrap(), cpus::allowed()) })
            .unwrap();
        assert_eq!((&helper, &known), (&before, &before));
    }
}

/// The kernel's workers of this thread's ring, each with the CPUs it may use, as the system writes them.
fn workers_of_this_thread() -> Vec<String> {
    let name = format!("iou-wrk-{}", rustix::thread::gettid());
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    let workers = threads.filter(|path| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name));
    let status = workers.filter_map(|path| fs::read_to_string(path.join("status")).ok());
    let list = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.map(|list| list.trim().to_owned())
    };
    status.filter_map(list).collect()
}

#[test]
fn a_pinned_rings_workers_run_on_the_other_cpus() {
    let cpus = own_cpus();
    let [pinned, other] = cpus[..] else {
        eprintln!("skipped: it takes two CPUs, and this process has {}", cpus.len());
        return;
    };
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("workers-{}", std::process::id()));
    let file = path.clone();
    let workers = Builder::new()
        .io(Selection::Uring)
        .pin(true)
        .run(move || async move {
            assert_eq!(own_cpus(), [pinned]);
            let caps = shard::backend().unwrap();
            assert!(caps.backend == BackendKind::Uring && caps.steps.is_empty(), "{:?}", caps.steps);
            let file = wo_runtime::os::fs::File::create(file).await.unwrap();
            file.write_all(b"x").await.unwrap();
            // A sync always goes to a worker.
            file.sync_all().await.unwrap();
            file.close().await.unwrap();
            workers_of_this_thread()
        })
        .unwrap();
    let _ = fs::remove_file(path);
    assert!(!workers.is_empty());
    assert!(workers.iter().all(|list| *list == other.to_string()), "{workers:?}");
}

#[test]
fn a_topology_of_main_is_heeded() {
    let several = MainOptions { shards: Some(3), ..MainOptions::default() };
    // The environment beats the attribute.
    let all = std::env::var("WO_SHARDS").map_or(3, |shards| shards.parse().unwrap());
    for (topology, shards) in [(Topology::Single, 1), (Topology::ThreadPerCore, all), (Topology::WorkStealing, all)] {
        assert_eq!(posts_of_main(MainOptions { topology: Some(topology), ..several }).len(), shards);
    }
}
