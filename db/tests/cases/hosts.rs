//! DB29 between hosts: a database on one, its callers on two others, each with several shards, and the power of the
//! first one goes at one step after the other.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wo::db::{Db, Error};
use wo::net::{TcpListener, TcpStream};
use wo::sim::World;
use wo_runtime::fiber;
use wo_runtime::plane::backend::Selection;

use super::b1::bytes::builder;
use super::crashes::found;
use super::rig::{Account, SIMULATED, account, at, ids};
use crate::backends::{EVERY, those_of};

/// Asks for every account instead of adding one.
const ALL: u64 = u64::MAX;

type Seen = Arc<Mutex<BTreeSet<u64>>>;

#[test]
fn db29_no_answer_to_another_host_is_ahead_of_the_disk() {
    if !those_of(EVERY).contains(&Selection::Sim) {
        return;
    }
    let (mut cuts, mut answers) = (0, 0);
    for cut in 0..60_u64 {
        let mut world = World::new(cut);
        let (server, client, reader) = (world.host("server"), world.host("client"), world.host("reader"));
        let wide = || wo::Builder::new().shards(3);
        let _serving = world.start_with(&server, wide(), serve);
        world.run_for(Duration::from_millis(200));
        let (acknowledged, shown) = (Seen::default(), Seen::default());
        let (ip, told, seen) = (server.ip(), Arc::clone(&acknowledged), Arc::clone(&shown));
        let _writing =
            world.start_with(&client, wide(), move || on_each_shard(move |shard| add(ip, shard, told.clone())));
        let _reading = world.start_with(&reader, wide(), move || on_each_shard(move |_| look(ip, seen.clone())));
        server.cut_power_at(server.steps() + 20 + cut * 11);
        world.run_for(Duration::from_secs(2));
        cuts += u32::from(server.is_cut());
        let (acknowledged, shown) = (acknowledged.lock().unwrap().clone(), shown.lock().unwrap().clone());
        answers += acknowledged.len();
        for left in server.disk().some_images(4, cut) {
            let there: BTreeSet<u64> = found(left).into_iter().collect();
            assert!(there.is_superset(&acknowledged), "cut {cut} lost something acknowledged");
            assert!(there.is_superset(&shown), "cut {cut} lost something that was shown");
        }
    }
    assert!(cuts >= 40 && answers >= 100, "{cuts} cuts, {answers} answers");
}

/// Runs a client on each of three shards.
async fn on_each_shard<F>(client: impl Fn(u64) -> F + Clone + Send + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let mut running = Vec::new();
    for shard in 0..3 {
        let client = client.clone();
        running.push(fiber::spawn(move || at(shard, move || client(shard as u64))));
    }
    for client in running {
        let _ = client.join().await;
    }
}

/// Adds accounts, one after the other, as long as there are answers.
async fn add(server: Ipv4Addr, shard: u64, told: Seen) {
    let Ok(stream) = TcpStream::connect((server, 7000)).await else { return };
    for id in shard * 100..shard * 100 + 20 {
        match ask(&stream, id).await {
            Some(answer) => assert_eq!(answer, [id]),
            None => return,
        }
        told.lock().unwrap().insert(id);
    }
}

/// Looks at all of them, again and again.
async fn look(server: Ipv4Addr, seen: Seen) {
    let Ok(stream) = TcpStream::connect((server, 7000)).await else { return };
    for _ in 0..20 {
        let Some(answer) = ask(&stream, ALL).await else { return };
        seen.lock().unwrap().extend(answer);
    }
}

async fn ask(stream: &TcpStream, word: u64) -> Option<Vec<u64>> {
    stream.write_all(&word.to_le_bytes()).await.ok()?;
    let mut number = [0; 8];
    stream.read_exact(&mut number).await.ok()?;
    let mut answer = Vec::new();
    for _ in 0..u64::from_le_bytes(number) {
        stream.read_exact(&mut number).await.ok()?;
        answer.push(u64::from_le_bytes(number));
    }
    Some(answer)
}

/// Serves connections; each one's calls of the database come from another shard.
async fn serve() {
    let db = builder().open(SIMULATED).await.expect("it opens");
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 7000)).await.expect("the port is free");
    for shard in 0.. {
        let Ok((stream, _)) = listener.accept().await else { return };
        drop(fiber::spawn(move || answer(db, stream, shard)));
    }
}

async fn answer(db: Db, stream: TcpStream, shard: usize) {
    let mut word = [0; 8];
    while stream.read_exact(&mut word).await.is_ok() {
        let word = u64::from_le_bytes(word);
        let answer = at(shard, move || async move {
            if word == ALL {
                return ids(db).await;
            }
            let added = db.table::<Account>().await?.insert(account(word)).await?;
            Ok::<_, Error>(vec![added])
        });
        let Ok(answer) = answer.await else { return };
        let mut bytes = (answer.len() as u64).to_le_bytes().to_vec();
        answer.iter().for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
