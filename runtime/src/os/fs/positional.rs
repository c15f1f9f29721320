//! Reading and writing a file at offsets, which neither use nor move its position.
//!
//! A positional op takes nothing away from the file, so these need no turn: any number may be in flight at once.

use crate::error::OpKind;
use crate::fiber::{Call, verb};
use crate::os::fs::explain::{ended_early, took_nothing, torn};
use crate::os::fs::file::File;
use crate::plane::buf::{BufResult, IoBuf, IoBufMut, Slice};
use crate::plane::ops::{Read, ReadVectored, Write, WriteVectored};

impl File {
    /// Reads at `offset`, from the buffer's first byte up to its capacity. Answers the count, which may be short, and
    /// is 0 at the end of the file.
    ///
    /// # Errors
    ///
    /// `EBADF` when the file is not open for reading, `EISDIR` for a directory, `ESPIPE` for a stream, which has no
    /// offsets.
    pub fn read_at<B: IoBufMut>(&self, buf: B, offset: u64) -> Call<impl Future<Output = BufResult<usize, B>>> {
        Call::new(async move {
            if let Err(error) = self.check_offset(offset, OpKind::Read) {
                return (Err(self.explain(error)), buf);
            }
            let (result, buf) = verb(Read::at(self.fd(), buf, offset)).await;
            (result.map_err(|error| self.explain(error)), buf)
        })
    }

    /// Reads at `offset` until the buffer is full to its capacity.
    ///
    /// # Errors
    ///
    /// `ENODATA` when the file ends before; the buffer then holds what there was. Else as [`read_at`](File::read_at).
    pub fn read_exact_at<B: IoBufMut>(&self, buf: B, offset: u64) -> Call<impl Future<Output = BufResult<(), B>>> {
        Call::new(async move {
            let (result, buf) = self.read_all_at(buf, offset).await;
            (result.map_err(|error| self.explain(error)), buf)
        })
    }

    async fn read_all_at<B: IoBufMut>(&self, mut buf: B, offset: u64) -> BufResult<(), B> {
        let wanted = buf.capacity();
        let mut filled = 0;
        while filled < wanted {
            let at = offset.saturating_add(filled as u64);
            if let Err(error) = self.check_offset(at, OpKind::Read) {
                return (Err(error), buf);
            }
            let result;
            (result, buf) = verb(Read::at(self.fd(), buf, at).behind(filled)).await;
            match result {
                Ok(0) => return (Err(ended_early(filled, wanted)), buf),
                Ok(count) => filled += count,
                Err(error) => return (Err(torn(error, filled, wanted)), buf),
            }
        }
        (Ok(()), buf)
    }

    /// Writes at `offset`. Answers how many bytes were written, which may be short. In a file opened for appending
    /// they are written at its end. Writing behind the end leaves a hole that reads as zeros.
    ///
    /// Dropped half-way, none, some or all of the bytes have been written.
    ///
    /// # Errors
    ///
    /// `EBADF` when the file is not open for writing, `ENOSPC` when the file system is full, `EFBIG`, `ESPIPE`.
    pub fn write_at<B: IoBuf>(&self, buf: B, offset: u64) -> Call<impl Future<Output = BufResult<usize, B>>> {
        Call::new(async move {
            if let Err(error) = self.check_offset(offset, OpKind::Write) {
                return (Err(self.explain(error)), buf);
            }
            let (result, buf) = verb(Write::at(self.fd(), buf, offset)).await;
            (result.map_err(|error| self.explain(error)), buf)
        })
    }

    /// Writes at `offset`, and answers only once what was written is on the disk, with the metadata needed to read it
    /// back: a [`write_at`](File::write_at) and a [`sync_data`](File::sync_data) of those bytes in one call.
    ///
    /// A short count covers that much and no more. Dropped half-way, none, some or all of the bytes have been written,
    /// and nobody is told whether they are on the disk.
    ///
    /// # Errors
    ///
    /// As [`write_at`](File::write_at) and [`sync_data`](File::sync_data), and nothing tells which of the two it was:
    /// after any error the bytes may be on the disk or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wo::fiber]
    /// # fn example() -> wo::IoResult<()> {
    /// let file = wo::fs::File::create("/tmp/ledger")?;
    /// let (count, _) = file.write_durable_at(b"paid 5\n".to_vec(), 0);
    /// assert_eq!(count?, 7);
    /// # Ok(())
    /// # }
    /// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
    /// ```
    pub fn write_durable_at<B: IoBuf>(&self, buf: B, offset: u64) -> Call<impl Future<Output = BufResult<usize, B>>> {
        Call::new(async move {
            if let Err(error) = self.check_offset(offset, OpKind::Write) {
                return (Err(self.explain(error)), buf);
            }
            let (result, buf) = verb(Write::at(self.fd(), buf, offset).durable()).await;
            (result.map_err(|error| self.explain(error)), buf)
        })
    }

    /// Writes all the bytes at `offset`. A short write continues where it ended.
    ///
    /// # Errors
    ///
    /// As [`write_at`](File::write_at), saying how many bytes had been written.
    pub fn write_all_at<B: IoBuf>(&self, buf: B, offset: u64) -> Call<impl Future<Output = BufResult<(), B>>> {
        Call::new(async move {
            let (result, buf) = self.write_rest_at(buf, offset).await;
            (result.map_err(|error| self.explain(error)), buf)
        })
    }

    async fn write_rest_at<B: IoBuf>(&self, mut buf: B, offset: u64) -> BufResult<(), B> {
        let len = buf.len();
        let mut done = 0;
        while done < len {
            let at = offset.saturating_add(done as u64);
            if let Err(error) = self.check_offset(at, OpKind::Write) {
                return (Err(error), buf);
            }
            let (result, rest) = verb(Write::at(self.fd(), Slice::new(buf, done..len), at)).await;
            buf = rest.into_inner();
            match result {
                Ok(0) => return (Err(took_nothing(done, len)), buf),
                Ok(count) => done += count,
                Err(error) => return (Err(torn(error, done, len)), buf),
            }
        }
        (Ok(()), buf)
    }

    /// Reads at `offset` into several buffers, each up to its capacity, in order. Answers the count in all; every
    /// buffer holds only what this read brought it.
    ///
    /// # Errors
    ///
    /// As [`read_at`](File::read_at).
    pub fn read_vectored_at<B: IoBufMut>(
        &self,
        bufs: Vec<B>,
        offset: u64,
    ) -> Call<impl Future<Output = BufResult<usize, Vec<B>>>> {
        Call::new(async move {
            if let Err(error) = self.check_offset(offset, OpKind::ReadVectored) {
                return (Err(self.explain(error)), bufs);
            }
            let (result, bufs) = verb(ReadVectored::at(self.fd(), bufs, offset)).await;
            (result.map_err(|error| self.explain(error)), bufs)
        })
    }

    /// Writes several buffers at `offset`, in order. Answers how many bytes were written in all.
    ///
    /// # Errors
    ///
    /// As [`write_at`](File::write_at).
    pub fn write_vectored_at<B: IoBuf>(
        &self,
        bufs: Vec<B>,
        offset: u64,
    ) -> Call<impl Future<Output = BufResult<usize, Vec<B>>>> {
        Call::new(async move {
            if let Err(error) = self.check_offset(offset, OpKind::WriteVectored) {
                return (Err(self.explain(error)), bufs);
            }
            let (result, bufs) = verb(WriteVectored::at(self.fd(), bufs, offset)).await;
            (result.map_err(|error| self.explain(error)), bufs)
        })
    }
}
