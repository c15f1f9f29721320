//! What opening makes of directories that a crash, a disk or a person left in another state.

use wo_db::log::error::OpenError;

use super::rig::{commit, files, frames, keys, on_every_kernel, open, put_files, refusal, written};

#[test]
fn db1_torn_tail_is_cut_and_counted_at_every_byte() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let whole = written(&dir, 50).await?;
        let segment = &whole["log.0"];
        let all = frames(segment);
        assert_eq!(all.len(), 50);
        let (begin, size) = all[49];
        let cut_dir = scratch.join("cut");
        // A shorter file, as a copy that broke off; and zeros, as blocks that never reached the disk.
        for zeros in [false, true] {
            for cut in begin..begin + size {
                let mut torn = whole.clone();
                let bytes = torn.get_mut("log.0").expect("it is there");
                if zeros {
                    bytes[cut..begin + size].fill(0);
                } else {
                    bytes.truncate(cut);
                }
                put_files(&cut_dir, &torn).await;
                let (log, recovery, model) = open(&cut_dir).await?;
                assert_eq!(keys(&model), (0..49).collect::<Vec<_>>(), "cut at {cut}");
                let torn = recovery.torn_tail_bytes as usize;
                if zeros {
                    let left = segment[begin..cut].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                    assert!((left..=size).contains(&torn), "{torn} bytes at {cut}");
                    assert_eq!(torn == 0, cut == begin);
                } else {
                    assert_eq!(torn, cut - begin);
                }
                if torn > 0 {
                    let tail = recovery.torn_tail.expect("it says where");
                    assert_eq!((tail.file, tail.offset), (cut_dir.join("log.0"), begin as u64));
                }
                assert!(files(&cut_dir).await["log.0"][begin..].iter().all(|byte| *byte == 0), "cut to the boundary");
                commit(&log, 1000, b"new").await?;
                log.close().await?;
                let (_log, recovery, model) = open(&cut_dir).await?;
                assert_eq!((recovery.torn_tail_bytes, model.rows.len()), (0, 50));
            }
        }
        Ok(())
    });
}

#[test]
fn db5_flipped_bit_in_the_middle_is_refused_and_nothing_touched() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let whole = written(&dir, 5).await?;
        let (begin, size) = frames(&whole["log.0"])[2];
        for bit in 0..size * 8 {
            let mut broken = whole.clone();
            broken.get_mut("log.0").expect("it is there")[begin + bit / 8] ^= 1 << (bit % 8);
            put_files(&dir, &broken).await;
            match refusal(&dir).await {
                OpenError::CorruptMiddle { file, offset, .. } => {
                    assert_eq!((file, offset), (dir.join("log.0"), begin as u64), "bit {bit}");
                }
                other => panic!("bit {bit}: {other}"),
            }
            assert!(files(&dir).await == broken, "bit {bit}: the refusal changed something");
        }
        Ok(())
    });
}
