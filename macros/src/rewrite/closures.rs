//! Closures that wo runs as fibers: `|| body` becomes `move || async move { body }`.
//!
//! A fiber may outlive the code that started it, so it owns what it captures. A `return` or `?` in the body leaves
//! the fiber, as it leaves the closure in plain Rust.

use syn::token::Move;
use syn::visit_mut::VisitMut;
use syn::{Expr, ExprClosure, ReturnType, parse_quote_spanned};

use super::Rewriter;
use crate::body::anchor;
use crate::spans::generated_at;

/// Makes a fiber body of `closure`. A closure that already gives a future, because it is `async` or its body is an
/// `async` block, is left alone.
pub(super) fn into_fiber(rewriter: &mut Rewriter, closure: &mut ExprClosure) {
    if closure.asyncness.is_some() || matches!(*closure.body, Expr::Async(_)) {
        return;
    }
    rewriter.visit_expr_mut(&mut closure.body);
    let place = generated_at(closure.or1_token.span);
    closure.capture.get_or_insert(Move(place));
    let output = std::mem::replace(&mut closure.output, ReturnType::Default);
    let anchor = match &output {
        ReturnType::Default => None,
        written => anchor(written),
    };
    let body = &closure.body;
    closure.body = parse_quote_spanned! {place=>
        async move { #anchor #body }
    };
}
