//! What a test has to know of the bytes of a segment, to change them behind the log's back.

/// Where the frames of a segment are: each one's offset and size.
pub fn frames(segment: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 64;
    while segment.len() >= at + 40 && segment[at..at + 4] == *b"\xF7woF" {
        let length = u32::from_le_bytes(segment[at + 4..at + 8].try_into().expect("four bytes")) as usize;
        let size = (40 + length + 4).next_multiple_of(8);
        found.push((at, size));
        at += size;
    }
    found
}
