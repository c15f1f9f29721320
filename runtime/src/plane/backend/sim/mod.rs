//! The simulated kernel.

use std::convert::Infallible;
use std::time::Duration;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::plane::addr::SocketAddress;
use crate::plane::backend::{
    Backend, BackendConfig, Caps, Full, RawCompletion, SocketKind, SocketOption, SocketOptionName, Waker,
};
use crate::plane::fd::{Fd, RawDescriptor};
use crate::plane::op::{RawOp, RawSlice};
use crate::plane::time::Instant;
use crate::plane::token::Token;

/// The simulated kernel.
#[derive(Debug)]
pub struct SimBackend(Infallible);

impl Backend for SimBackend {
    fn open(_config: &BackendConfig) -> IoResult<SimBackend> {
        Err(IoError::new(errno::ENOSYS, OpKind::Setup, Stage::Setup).with_context("sim"))
    }

    fn caps(&self) -> &Caps {
        match self.0 {}
    }

    unsafe fn submit(&mut self, _token: Token, _op: RawOp) -> Result<(), Full> {
        match self.0 {}
    }

    fn cancel(&mut self, _target: Token) -> Result<(), Full> {
        match self.0 {}
    }

    fn flush(&mut self) -> IoResult<()> {
        match self.0 {}
    }

    fn wait(&mut self, _timeout: Option<Duration>) -> IoResult<()> {
        match self.0 {}
    }

    fn has_completions(&mut self) -> bool {
        match self.0 {}
    }

    fn reap(&mut self, _out: &mut Vec<RawCompletion>) {
        match self.0 {}
    }

    fn submission_space(&self) -> usize {
        match self.0 {}
    }

    fn unsubmitted(&self) -> usize {
        match self.0 {}
    }

    fn waker(&self) -> Waker {
        match self.0 {}
    }

    fn now(&self) -> Instant {
        match self.0 {}
    }

    unsafe fn register_buffer(&mut self, _memory: RawSlice) -> Option<u16> {
        match self.0 {}
    }

    fn socket(&mut self, _domain: socket2::Domain, _kind: SocketKind) -> IoResult<Fd> {
        match self.0 {}
    }

    fn socket_pair(&mut self, _kind: SocketKind) -> IoResult<(Fd, Fd)> {
        match self.0 {}
    }

    fn pipe(&mut self) -> IoResult<(Fd, Fd)> {
        match self.0 {}
    }

    fn bind(&mut self, _fd: &Fd, _address: &SocketAddress) -> IoResult<()> {
        match self.0 {}
    }

    fn listen(&mut self, _fd: &Fd, _backlog: u32) -> IoResult<()> {
        match self.0 {}
    }

    fn local_address(&mut self, _fd: &Fd) -> IoResult<SocketAddress> {
        match self.0 {}
    }

    fn peer_address(&mut self, _fd: &Fd) -> IoResult<SocketAddress> {
        match self.0 {}
    }

    fn set_socket_option(&mut self, _fd: &Fd, _option: SocketOption) -> IoResult<()> {
        match self.0 {}
    }

    fn socket_option(&mut self, _fd: &Fd, _name: SocketOptionName) -> IoResult<SocketOption> {
        match self.0 {}
    }

    unsafe fn try_send(&mut self, _fd: &Fd, _buf: RawSlice) -> Option<i32> {
        match self.0 {}
    }

    fn adopt(&mut self, _raw: RawDescriptor) -> Fd {
        match self.0 {}
    }

    fn foreign(&mut self, _raw: RawDescriptor) -> IoResult<Fd> {
        match self.0 {}
    }

    fn close(self) {
        match self.0 {}
    }
}
