//! The budget check: the first thing each turn of a loop does, after the jump has landed, so that a loop that
//! never parks still lets the other fibers of its shard run.

use proc_macro2::Span;
use syn::{Block, parse_quote_spanned};

use crate::spans::generated_at;

/// Puts the check at the head of `body`, the body of the loop whose keyword stands at `keyword`.
pub(super) fn check_budget(body: &mut Block, keyword: Span) {
    let check = parse_quote_spanned! {generated_at(keyword)=>
        if ::wo::__rt::spend() {
            ::wo::__rt::yield_turn().await;
        }
    };
    body.stmts.insert(0, check);
}
