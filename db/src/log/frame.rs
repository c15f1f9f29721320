//! The bytes of frames and of the headers in front of them; `FORMAT.md` draws them.
//!
//! Everything here is a function of bytes: nothing reads or writes a file. A frame proves itself alone, since its
//! checksum covers the database's number and the place it was written to as well: bytes of another database, of another
//! file or another place, and of a segment's former life, are no frames here, whatever they look like. What it says of
//! the frame before lets a reader see that none is missing.

/// The newest version of the format.
pub(crate) const VERSION: u32 = 1;

/// The number of a database, drawn when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseId(pub(crate) [u8; 16]);

/// Bytes in front of a segment's or a snapshot's first frame.
pub(crate) const FILE_HEADER_BYTES: usize = 64;
/// Bytes of a frame in front of its body.
pub(crate) const FRAME_HEADER_BYTES: usize = 40;
/// Bytes of the end mark.
pub(crate) const END_MARK_BYTES: usize = 4;
/// Frames begin at multiples of this.
pub(crate) const ALIGN_BYTES: usize = 8;
/// The largest file a segment can be, whatever its header says.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 41;
/// The largest sequence there can be: what a program could count in all its lives, and far from where sums overflow.
pub(crate) const SEQUENCE_MAX: u64 = 1 << 62;
/// The largest number a segment can have, likewise.
pub(crate) const SEGMENT_MAX: u32 = 1 << 31;
/// The longest body a frame can have, whatever the options say.
pub(crate) const BODY_BYTES_MAX: u32 = 1 << 30;

const SEGMENT_MAGIC: [u8; 8] = *b"wo-log\r\n";
const SNAPSHOT_MAGIC: [u8; 8] = *b"wo-snap\n";
pub(crate) const FRAME_MAGIC: [u8; 4] = *b"\xF7woF";

const _: () = assert!(FILE_HEADER_BYTES.is_multiple_of(ALIGN_BYTES) && FRAME_HEADER_BYTES.is_multiple_of(ALIGN_BYTES));

/// What kind of file a frame is in; it is part of the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Segment,
    Snapshot,
}

/// The bytes a frame with such a body takes in its file.
pub(crate) const fn frame_bytes(body: usize) -> usize {
    (FRAME_HEADER_BYTES + body + END_MARK_BYTES).next_multiple_of(ALIGN_BYTES)
}

/// What stands in front of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// Bytes of the body.
    pub(crate) length: u32,
    /// The number of the first entry.
    pub(crate) sequence: u64,
    /// How many entries the body has.
    pub(crate) entries: u32,
    /// Which life of the database wrote it.
    pub(crate) generation: u32,
    /// The number of the segment it is in; 0 in a snapshot.
    pub(crate) segment: u32,
    /// The catalogue in force when it was written, by checksum; 0 before the first.
    pub(crate) schema: u32,
    /// The checksum of the frame before; 0 for the first one.
    pub(crate) previous: u32,
    pub(crate) checksum: u32,
}

impl FrameHeader {
    /// The number of the last entry.
    pub(crate) fn last(&self) -> u64 {
        self.sequence.saturating_add(u64::from(self.entries).saturating_sub(1))
    }
}

/// Where frames are and whose they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) id: DatabaseId,
    pub(crate) kind: FileKind,
}

impl Place {
    fn seed(self, offset: u64) -> u32 {
        let mut bytes = [0; 25];
        bytes[..16].copy_from_slice(&self.id.0);
        bytes[16..24].copy_from_slice(&offset.to_le_bytes());
        bytes[24] = match self.kind {
            FileKind::Segment => 1,
            FileKind::Snapshot => 2,
        };
        crc32c::crc32c(&bytes)
    }
}

/// Finishes the frame at the end of `buf`, which begins at `start` with room for the header and goes on with the body:
/// writes the header, the end mark and the padding. Answers the checksum.
pub(crate) fn seal(buf: &mut Vec<u8>, start: usize, place: Place, offset: u64, mut header: FrameHeader) -> u32 {
    let body = buf.len() - start - FRAME_HEADER_BYTES;
    header.length = u32::try_from(body).expect("bodies are bounded when they are made");
    let head = &mut buf[start..start + FRAME_HEADER_BYTES];
    head[0..4].copy_from_slice(&FRAME_MAGIC);
    head[4..8].copy_from_slice(&header.length.to_le_bytes());
    head[8..16].copy_from_slice(&header.sequence.to_le_bytes());
    head[16..20].copy_from_slice(&header.entries.to_le_bytes());
    head[20..24].copy_from_slice(&header.generation.to_le_bytes());
    head[24..28].copy_from_slice(&header.segment.to_le_bytes());
    head[28..32].copy_from_slice(&header.schema.to_le_bytes());
    head[32..36].copy_from_slice(&header.previous.to_le_bytes());
    let checksum = checksum(&buf[start..], place, offset);
    buf[start + 36..start + 40].copy_from_slice(&checksum.to_le_bytes());
    buf.extend_from_slice(&(!checksum).to_le_bytes());
    buf.resize(start + frame_bytes(body), 0);
    checksum
}

/// Over everything but itself, what stands behind the body, and what can be told from the place.
fn checksum(head_and_body: &[u8], place: Place, offset: u64) -> u32 {
    let crc = crc32c::crc32c_append(place.seed(offset), &head_and_body[..36]);
    crc32c::crc32c_append(crc, &head_and_body[FRAME_HEADER_BYTES..])
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Nothing was ever written here.
    Blank,
    /// Fewer bytes than a header has.
    Short,
    /// Something else than a frame begins here.
    Magic,
    /// Longer than the file, or than a frame may be.
    Length(u32),
    /// The checksum does not fit.
    Checksum,
    /// The checksum fits, but not what stands behind the body.
    EndMark,
    /// Whole, but it does not continue the frame before.
    Chain,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Blank => f.write_str("nothing is written here"),
            Broken::Short => f.write_str("it ends within the frame's header"),
            Broken::Magic => f.write_str("no frame begins here"),
            Broken::Length(length) => write!(f, "a length of {length} bytes, more than there can be"),
            Broken::Checksum => f.write_str("the checksum does not fit"),
            Broken::EndMark => f.write_str("the end mark does not fit"),
            Broken::Chain => f.write_str("the frame does not continue the one before"),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// Reads the header at the beginning of `bytes`, of which nothing is proved yet. `room` is how many bytes there are
/// from its beginning to the end of the file.
pub(crate) fn peek(bytes: &[u8], room: u64) -> Result<FrameHeader, Broken> {
    let Some(head) = bytes.get(..FRAME_HEADER_BYTES) else {
        return Err(if bytes.iter().all(|byte| *byte == 0) { Broken::Blank } else { Broken::Short });
    };
    if head[..4] != FRAME_MAGIC {
        return Err(if head.iter().all(|byte| *byte == 0) { Broken::Blank } else { Broken::Magic });
    }
    let length = word(head, 4);
    if length > BODY_BYTES_MAX || frame_bytes(length as usize) as u64 > room {
        return Err(Broken::Length(length));
    }
    Ok(FrameHeader {
        length,
        sequence: long(head, 8),
        entries: word(head, 16),
        generation: word(head, 20),
        segment: word(head, 24),
        schema: word(head, 28),
        previous: word(head, 32),
        checksum: word(head, 36),
    })
}

/// Proves the frame at the beginning of `bytes`, whose header was read by [`peek`]; answers its body.
pub(crate) fn prove<'a>(bytes: &'a [u8], header: &FrameHeader, place: Place, offset: u64) -> Result<&'a [u8], Broken> {
    let body_end = FRAME_HEADER_BYTES + header.length as usize;
    let whole = bytes.get(..frame_bytes(header.length as usize)).ok_or(Broken::Length(header.length))?;
    if checksum(&whole[..body_end], place, offset) != header.checksum {
        return Err(Broken::Checksum);
    }
    let (mark, padding) = whole[body_end..].split_at(END_MARK_BYTES);
    if word(mark, 0) != !header.checksum || padding.iter().any(|byte| *byte != 0) {
        return Err(Broken::EndMark);
    }
    Ok(&whole[FRAME_HEADER_BYTES..body_end])
}

/// What stands at the beginning of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) id: DatabaseId,
    /// No entry in this segment has a smaller number.
    pub(crate) sequence: u64,
    /// Segments are counted from 1; a file's next life has another number.
    pub(crate) segment: u32,
    pub(crate) generation: u32,
    /// The checksum of the last frame of the segment before.
    pub(crate) previous: u32,
    /// The bytes of the file when it was made ready.
    pub(crate) bytes: u64,
    /// The file had a life before: what is behind the last frame are old frames, not zeros.
    pub(crate) recycled: bool,
}

/// What stands at the beginning of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotHeader {
    pub(crate) id: DatabaseId,
    /// The last transaction that is in it for sure.
    pub(crate) as_of: u64,
    pub(crate) generation: u32,
}

/// What the first bytes of a file say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileStart<H> {
    /// Nothing was written there yet.
    Blank,
    Whole(H),
    /// Ours by its first bytes, and broken.
    Broken,
    /// Not ours.
    Foreign,
    Newer(u32),
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; FILE_HEADER_BYTES] {
        let mut head = start(SEGMENT_MAGIC, u32::from(self.recycled), self.id);
        head[32..40].copy_from_slice(&self.sequence.to_le_bytes());
        head[40..44].copy_from_slice(&self.segment.to_le_bytes());
        head[44..48].copy_from_slice(&self.generation.to_le_bytes());
        head[48..52].copy_from_slice(&self.previous.to_le_bytes());
        head[52..60].copy_from_slice(&self.bytes.to_le_bytes());
        close(head)
    }

    pub(crate) fn decode(bytes: &[u8]) -> FileStart<SegmentHeader> {
        let read = |head: &[u8], id| SegmentHeader {
            id,
            sequence: long(head, 32),
            segment: word(head, 40),
            generation: word(head, 44),
            previous: word(head, 48),
            bytes: long(head, 52),
            recycled: word(head, 12) & 1 == 1,
        };
        match read_start(bytes, SEGMENT_MAGIC, read) {
            // Nobody makes such a file, and whoever opens it would go on from there.
            FileStart::Whole(header)
                if header.bytes > SEGMENT_BYTES_MAX
                    || header.sequence > SEQUENCE_MAX
                    || !(1..=SEGMENT_MAX).contains(&header.segment) =>
            {
                FileStart::Broken
            }
            start => start,
        }
    }
}

impl SnapshotHeader {
    pub(crate) fn encode(&self) -> [u8; FILE_HEADER_BYTES] {
        let mut head = start(SNAPSHOT_MAGIC, 0, self.id);
        head[32..40].copy_from_slice(&self.as_of.to_le_bytes());
        head[44..48].copy_from_slice(&self.generation.to_le_bytes());
        close(head)
    }

    pub(crate) fn decode(bytes: &[u8]) -> FileStart<SnapshotHeader> {
        read_start(bytes, SNAPSHOT_MAGIC, |head, id| SnapshotHeader {
            id,
            as_of: long(head, 32),
            generation: word(head, 44),
        })
    }
}

fn start(magic: [u8; 8], flags: u32, id: DatabaseId) -> [u8; FILE_HEADER_BYTES] {
    let mut head = [0; FILE_HEADER_BYTES];
    head[..8].copy_from_slice(&magic);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..16].copy_from_slice(&flags.to_le_bytes());
    head[16..32].copy_from_slice(&id.0);
    head
}

fn close(mut head: [u8; FILE_HEADER_BYTES]) -> [u8; FILE_HEADER_BYTES] {
    let checksum = crc32c::crc32c(&head[..60]);
    head[60..].copy_from_slice(&checksum.to_le_bytes());
    head
}

/// The magic and the version keep their places in every version to come.
fn read_start<H>(bytes: &[u8], magic: [u8; 8], read: impl FnOnce(&[u8], DatabaseId) -> H) -> FileStart<H> {
    if bytes.iter().take(FILE_HEADER_BYTES).all(|byte| *byte == 0) {
        return FileStart::Blank;
    }
    let Some(head) = bytes.get(..FILE_HEADER_BYTES) else {
        return if bytes.starts_with(&magic) || magic.starts_with(bytes) {
            FileStart::Broken
        } else {
            FileStart::Foreign
        };
    };
    let whole = crc32c::crc32c(&head[..60]) == word(head, 60);
    if head[..8] != magic {
        return FileStart::Foreign;
    }
    match word(head, 8) {
        version if version > VERSION && version < 1 << 16 => FileStart::Newer(version),
        VERSION if whole => {
            let mut id = [0; 16];
            id.copy_from_slice(&head[16..32]);
            FileStart::Whole(read(head, DatabaseId(id)))
        }
        _ => FileStart::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { id: DatabaseId([7; 16]), kind: FileKind::Segment };

    fn header() -> FrameHeader {
        FrameHeader {
            length: 0,
            sequence: 9,
            entries: 2,
            generation: 3,
            segment: 4,
            schema: 5,
            previous: 6,
            checksum: 0,
        }
    }

    fn frame(body: &[u8], offset: u64) -> Vec<u8> {
        let mut buf = vec![0; FRAME_HEADER_BYTES];
        buf.extend_from_slice(body);
        seal(&mut buf, 0, PLACE, offset, header());
        buf
    }

    #[test]
    fn frame_comes_back_as_it_was_sealed() {
        for body in [&b""[..], b"x", b"four", b"12345678", &[9; 5000]] {
            let frame = frame(body, 64);
            assert_eq!(frame.len(), frame_bytes(body.len()));
            assert_eq!(frame.len() % ALIGN_BYTES, 0);
            let head = peek(&frame, frame.len() as u64).unwrap();
            assert_eq!((head.sequence, head.last(), head.generation, head.segment), (9, 10, 3, 4));
            assert_eq!((head.schema, head.previous), (5, 6));
            assert_eq!(prove(&frame, &head, PLACE, 64).unwrap(), body);
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let whole = frame(b"a body of some bytes", 4096);
        for bit in 0..whole.len() * 8 {
            let mut broken = whole.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            let answer = peek(&broken, broken.len() as u64).and_then(|head| {
                let place = PLACE;
                prove(&broken, &head, place, 4096).map(<[u8]>::len)
            });
            assert!(answer.is_err(), "bit {bit}");
        }
        for bit in 0..FILE_HEADER_BYTES * 8 {
            let mut broken = segment().encode();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(SegmentHeader::decode(&broken), FileStart::Whole(_)), "bit {bit}");
        }
    }

    #[test]
    fn frame_is_none_elsewhere() {
        let frame = frame(b"body", 64);
        let head = peek(&frame, 1 << 20).unwrap();
        assert_eq!(prove(&frame, &head, PLACE, 128), Err(Broken::Checksum));
        assert_eq!(prove(&frame, &head, Place { id: DatabaseId([8; 16]), ..PLACE }, 64), Err(Broken::Checksum));
        assert_eq!(prove(&frame, &head, Place { kind: FileKind::Snapshot, ..PLACE }, 64), Err(Broken::Checksum));
    }

    #[test]
    fn lengths_are_not_trusted() {
        let mut frame = frame(b"body", 64);
        let room = frame.len() as u64;
        for length in [u32::MAX, BODY_BYTES_MAX + 1, 5 + 8, BODY_BYTES_MAX] {
            frame[4..8].copy_from_slice(&length.to_le_bytes());
            assert_eq!(peek(&frame, room), Err(Broken::Length(length)));
        }
        for length in [0u32, 1] {
            frame[4..8].copy_from_slice(&length.to_le_bytes());
            let head = peek(&frame, room).unwrap();
            assert_eq!(prove(&frame, &head, PLACE, 64), Err(Broken::Checksum));
        }
        assert_eq!(peek(&[0; 10], 10), Err(Broken::Blank));
        assert_eq!(peek(&[1; 10], 10), Err(Broken::Short));
        assert_eq!(peek(&[1; 40], 40), Err(Broken::Magic));
    }

    fn segment() -> SegmentHeader {
        SegmentHeader {
            id: PLACE.id,
            sequence: 1,
            segment: 2,
            generation: 3,
            previous: 4,
            bytes: 1 << 24,
            recycled: true,
        }
    }

    #[test]
    fn starts_of_files_are_told_apart() {
        let head = segment().encode();
        assert_eq!(SegmentHeader::decode(&head), FileStart::Whole(segment()));
        assert_eq!(SegmentHeader::decode(&[]), FileStart::Blank);
        assert_eq!(SegmentHeader::decode(&[0; 100]), FileStart::Blank);
        assert_eq!(SegmentHeader::decode(&head[..30]), FileStart::Broken);
        assert_eq!(SegmentHeader::decode(b"# notes of mine"), FileStart::Foreign);
        let mut newer = head;
        newer[8] = 2;
        assert_eq!(SegmentHeader::decode(&newer), FileStart::Newer(2));
        let snapshot = SnapshotHeader { id: PLACE.id, as_of: 77, generation: 3 };
        assert_eq!(SnapshotHeader::decode(&snapshot.encode()), FileStart::Whole(snapshot));
        assert_eq!(SnapshotHeader::decode(&head), FileStart::Foreign);
    }
}
