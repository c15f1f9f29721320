//! Closures that wo runs as fibers: `|| body` becomes `move || async move { body }`.
//!
//! A fiber may outlive the code that started it, so it owns what it captures. A `return` or `?` in the body leaves
//! the fiber, as it leaves the closure in plain Rust.

use quote::{quote, quote_spanned};
use syn::token::Move;
use syn::visit_mut::VisitMut;
use syn::{Expr, ExprBlock, ExprClosure, ReturnType, parse_quote_spanned};

use super::Rewriter;
use crate::body::anchor;

/// Makes a fiber body of `closure`. A closure that already gives a future, because it is `async` or its body is an
/// `async` block, is left alone.
pub(super) fn into_fiber(rewriter: &mut Rewriter, closure: &mut ExprClosure) {
    if closure.asyncness.is_some() || matches!(*closure.body, Expr::Async(_)) {
        return;
    }
    rewriter.visit_expr_mut(&mut closure.body);
    let output = std::mem::replace(&mut closure.output, ReturnType::Default);
    let anchor = match &output {
        ReturnType::Default => None,
        written => anchor(written),
    };
    // The user's places throughout: what a fiber may not borrow is told of the closure as it stands there.
    let place = closure.or2_token.span;
    closure.capture.get_or_insert(Move(place));
    let body = match &*closure.body {
        Expr::Block(ExprBlock { attrs, label: None, block }) if attrs.is_empty() => {
            let mut block = block.clone();
            block.stmts.splice(0..0, anchor);
            quote! { #block }
        }
        body => quote_spanned! {place=> { #anchor #body } },
    };
    closure.body = parse_quote_spanned! {place=> async move #body };
}
