//! Submitting, completing, cancelling, whatever the op.

use std::sync::Mutex;

use wo_runtime::plane::Fd;
use wo_runtime::plane::backend::{Backend, Full};
use wo_runtime::plane::job::JobCell;
use wo_runtime::plane::op::RawOp;
use wo_runtime::plane::token::{Class, Token};

use super::rig::Subject;

pub fn nop_completes_once<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let token = rig.start(RawOp::Nop);
    assert_eq!(rig.backend().unsubmitted(), 1);
    assert_eq!(rig.finish(token), 0);
    assert_eq!(rig.backend().unsubmitted(), 0);
    rig.expect_silence();
}

/// `Full` means "flush and try again", and nothing else.
pub fn full_flush_retry<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig_with(|config| config.submission_entries = 8);
    let space = rig.backend().submission_space();
    let tokens: Vec<_> = (0..space).map(|_| rig.start(RawOp::Nop)).collect();
    if rig.backend().submission_space() == 0 {
        let refused = rig.token();
        // SAFETY: the op points at nothing.
        assert_eq!(unsafe { rig.backend().submit(refused, RawOp::Nop) }, Err(Full));
        assert_eq!(rig.backend().cancel(tokens[0]), Err(Full));
        rig.backend().flush().unwrap();
        assert_eq!((rig.backend().submission_space(), rig.backend().unsubmitted()), (space, 0));
    }
    let last = rig.start(RawOp::Nop);
    for token in tokens.into_iter().chain([last]) {
        assert_eq!(rig.finish(token), 0);
    }
}

/// A completion queue that overflows loses nothing.
pub fn ten_thousand_nops<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig_with(|config| (config.submission_entries, config.completion_entries) = (8, 16));
    let tokens: Vec<_> = (0..10_000).map(|_| rig.start(RawOp::Nop)).collect();
    for token in tokens {
        assert_eq!(rig.finish(token), 0);
    }
    rig.expect_silence();
}

/// A flush makes what is ready reapable, without a wait.
pub fn flush_then_reap<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let tokens: Vec<_> = (0..4).map(|_| rig.start(RawOp::Nop)).collect();
    rig.backend().flush().unwrap();
    assert!(rig.backend().has_completions());
    let mut out = Vec::new();
    rig.backend().reap(&mut out);
    let mut seen: Vec<_> = out.iter().map(|completion| (completion.token.index(), completion.res)).collect();
    seen.sort_unstable();
    assert_eq!(seen, tokens.iter().map(|token| (token.index(), 0)).collect::<Vec<_>>());
    assert!(!rig.backend().has_completions());
    // The rig has not seen them; it would wait for them at its end.
    rig.forget(&tokens);
}

pub fn cancel_of_nothing_is_ignored<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    rig.cancel(Token::new(Class::User, 9, 99));
    let ended = rig.start(RawOp::Nop);
    rig.finish(ended);
    rig.cancel(ended);
    rig.expect_silence();
}

/// The loop may give ops of its own any class; their completions are the loop's too.
pub fn tokens_come_back_as_they_are<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let tokens = [Token::new(Class::Internal, 0, 0), Token::new(Class::User, 0x00ff_ffff, u32::MAX)];
    for token in tokens {
        // SAFETY: the op points at nothing.
        unsafe { rig.backend().submit(token, RawOp::Nop) }.unwrap();
        rig.adopt_token(token);
        assert_eq!(rig.finish(token), 0);
    }
}

pub fn close_closes<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (a, b) = rig.pair();
    let raw = a.raw();
    // The op closes the number, so nobody else may: kept for as long as the process lives.
    static KEPT: Mutex<Vec<Fd>> = Mutex::new(Vec::new());
    KEPT.lock().unwrap().push(a);
    assert_eq!(rig.run(RawOp::Close { fd: raw }), 0);
    assert_eq!(rig.recv(&b, 1), b"");
    // The number itself may be another test's by now.
    assert_eq!(rig.run(RawOp::Close { fd: -1 }), -libc::EBADF);
}

pub fn jobs_answer<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let tokens: Vec<_> = (0..20)
        .map(|number| {
            let cell = rig.operand(JobCell::new(move || number));
            rig.start(RawOp::Job { cell })
        })
        .collect();
    for (number, token) in (0..).zip(tokens) {
        assert_eq!(rig.finish(token), number);
    }
}
