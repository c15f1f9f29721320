//! The entries in a frame's body: a kind, a length, the bytes; one behind the other, nothing between.
//!
//! The log knows no more of an entry than its kind. A body that does not come out even is refused as a whole, although
//! its checksum fits: then it was not written by this format.

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The description of every table, in force from here on.
    Catalogue,
    /// What one transaction changed.
    Transaction,
}

impl Entry {
    const fn code(self) -> u8 {
        match self {
            Entry::Transaction => 1,
            Entry::Catalogue => 2,
        }
    }

    const fn of(code: u8) -> Option<Entry> {
        match code {
            1 => Some(Entry::Transaction),
            2 => Some(Entry::Catalogue),
            _ => None,
        }
    }
}

/// The most bytes an entry takes besides its own.
pub(crate) const ENTRY_HEADER_BYTES_MAX: usize = 6;

/// Appends an entry. Its length is at most that of a body.
pub(crate) fn put(buf: &mut Vec<u8>, entry: Entry, bytes: &[u8]) {
    buf.push(entry.code());
    let mut length = u32::try_from(bytes.len()).expect("entries are bounded before they are put");
    while length >= 0x80 {
        buf.push(length as u8 | 0x80);
        length >>= 7;
    }
    buf.push(length as u8);
    buf.extend_from_slice(bytes);
}

/// A body that does not come out even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uneven;

/// The entries of a body, in order; after an [`Uneven`] there are no more.
#[derive(Clone, Debug)]
pub(crate) struct Entries<'a>(&'a [u8]);

/// Takes a body apart.
pub(crate) fn entries(body: &[u8]) -> Entries<'_> {
    Entries(body)
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(Entry, &'a [u8]), Uneven>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let taken = take(self.0);
        self.0 = taken.map_or(&[], |(_, _, rest)| rest);
        Some(taken.map(|(entry, bytes, _)| (entry, bytes)).ok_or(Uneven))
    }
}

fn take(body: &[u8]) -> Option<(Entry, &[u8], &[u8])> {
    let (code, mut rest) = body.split_first()?;
    let entry = Entry::of(*code)?;
    let mut length = 0u64;
    for shift in (0..35).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        rest = behind;
        length |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let (bytes, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            return Some((entry, bytes, rest));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_in_order() {
        let long = vec![3; 70_000];
        let put_in = [
            (Entry::Catalogue, &b"tables"[..]),
            (Entry::Transaction, b""),
            (Entry::Transaction, &long),
            (Entry::Transaction, &[1; 127]),
            (Entry::Transaction, &[2; 128]),
        ];
        let mut body = Vec::new();
        for (entry, bytes) in put_in {
            let before = body.len();
            put(&mut body, entry, bytes);
            assert!(body.len() - before <= bytes.len() + ENTRY_HEADER_BYTES_MAX);
        }
        let read: Result<Vec<_>, _> = entries(&body).collect();
        assert_eq!(read.unwrap(), put_in);
        assert_eq!(entries(&[]).count(), 0);
    }

    #[test]
    fn anything_else_is_uneven() {
        for body in [&[0u8, 0][..], &[1], &[1, 5, 1, 2], &[1, 0x80], &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 1], &[9, 0]] {
            let mut read = entries(body);
            assert_eq!(read.next(), Some(Err(Uneven)), "{body:?}");
            assert_eq!(read.next(), None);
        }
    }
}
