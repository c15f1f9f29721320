//! Writes segments and snapshots as `FORMAT.md` draws them, independently of the library, with whatever is asked for in
//! every field: so that bytes get past the checksums and reach what lies behind them.

/// The number of the databases made here.
pub const ID: [u8; 16] = *b"the fuzzer's own";
/// Bytes of a file's header.
pub const HEADER_BYTES: usize = 64;

/// A fuzzer's bytes, taken one after the other; zeros when they are used up.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// True about once in so many times; the first time when the bytes are used up.
    pub fn one_in(&mut self, times: u8) -> bool {
        self.byte().is_multiple_of(times)
    }

    /// Below this bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        u64::from(self.byte()) % bound
    }

    pub fn long(&mut self) -> u64 {
        let mut long = [0; 8];
        let taken = self.take(8);
        long[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(long)
    }

    /// Mostly what is right, sometimes near it, now and then anything.
    pub fn near(&mut self, right: u64) -> u64 {
        match self.byte() {
            0..224 => right,
            224..232 => right.wrapping_add(1),
            232..240 => right.wrapping_sub(1),
            240..248 => 0,
            _ => self.long(),
        }
    }

    /// Some of them, up to this many.
    pub fn piece(&mut self, most: usize) -> &'a [u8] {
        let count = usize::from(self.byte()) * most / 255;
        self.take(count)
    }
}

/// What stands in a frame's header.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frame {
    pub sequence: u64,
    pub entries: u32,
    pub generation: u32,
    pub segment: u32,
    pub schema: u32,
    pub previous: u32,
}

/// What kind of file a frame is in.
pub const SEGMENT: u8 = 1;
/// See [`SEGMENT`].
pub const SNAPSHOT: u8 = 2;

/// Appends a frame, proved, at the end of a file; answers its checksum.
pub fn put_frame(file: &mut Vec<u8>, kind: u8, frame: Frame, body: &[u8]) -> u32 {
    let mut place = ID.to_vec();
    place.extend_from_slice(&(file.len() as u64).to_le_bytes());
    place.push(kind);
    let mut head = vec![0xf7, b'w', b'o', b'F'];
    head.extend_from_slice(&(body.len() as u32).to_le_bytes());
    head.extend_from_slice(&frame.sequence.to_le_bytes());
    for word in [frame.entries, frame.generation, frame.segment, frame.schema, frame.previous] {
        head.extend_from_slice(&word.to_le_bytes());
    }
    let checksum = crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&place), &head), body);
    file.extend_from_slice(&head);
    file.extend_from_slice(&checksum.to_le_bytes());
    file.extend_from_slice(body);
    file.extend_from_slice(&(!checksum).to_le_bytes());
    file.resize(file.len().next_multiple_of(8), 0);
    checksum
}

/// Appends an entry to a body.
pub fn put_entry(body: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    body.push(kind);
    let mut length = bytes.len();
    while length >= 0x80 {
        body.push(length as u8 | 0x80);
        length >>= 7;
    }
    body.push(length as u8);
    body.extend_from_slice(bytes);
}

/// The header of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub sequence: u64,
    pub segment: u32,
    pub generation: u32,
    pub previous: u32,
    pub bytes: u64,
    pub recycled: bool,
}

/// The first bytes of a segment.
pub fn segment_header(segment: Segment) -> Vec<u8> {
    let mut head = start(b"wo-log\r\n", u32::from(segment.recycled));
    head.extend_from_slice(&segment.sequence.to_le_bytes());
    for word in [segment.segment, segment.generation, segment.previous] {
        head.extend_from_slice(&word.to_le_bytes());
    }
    head.extend_from_slice(&segment.bytes.to_le_bytes());
    close(head)
}

/// The first bytes of a snapshot.
pub fn snapshot_header(as_of: u64, generation: u32) -> Vec<u8> {
    let mut head = start(b"wo-snap\n", 0);
    head.extend_from_slice(&as_of.to_le_bytes());
    head.extend_from_slice(&[0; 4]);
    head.extend_from_slice(&generation.to_le_bytes());
    head.extend_from_slice(&[0; 12]);
    close(head)
}

/// The body of a snapshot's last frame.
pub fn snapshot_end(until: u64, first_segment: u32, entries: u64) -> Vec<u8> {
    [&until.to_le_bytes()[..], &first_segment.to_le_bytes(), &entries.to_le_bytes()].concat()
}

fn start(magic: &[u8; 8], flags: u32) -> Vec<u8> {
    [&magic[..], &1_u32.to_le_bytes(), &flags.to_le_bytes(), &ID].concat()
}

fn close(mut head: Vec<u8>) -> Vec<u8> {
    let checksum = crc32c::crc32c(&head);
    head.extend_from_slice(&checksum.to_le_bytes());
    assert_eq!(head.len(), HEADER_BYTES);
    head
}
