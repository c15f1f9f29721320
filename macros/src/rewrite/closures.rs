//! Closures that wo runs: as fibers, `|| body` becomes `move || async move { body }`; as parts of the fiber that calls,
//! it becomes `async || body`.
//!
//! A fiber may outlive the code that started it, so it owns what it captures. A part ends before the call that runs it
//! does, so it captures as a plain closure would: what it changes outside is changed. A `return` or `?` in the body
//! leaves the fiber or the part, as it leaves the closure in plain Rust.

use quote::{quote, quote_spanned};
use syn::token::{Async, Move};
use syn::visit_mut::VisitMut;
use syn::{Expr, ExprBlock, ExprClosure, ReturnType, parse_quote_spanned};

use super::{Rewriter, endless::endless};
use crate::body::anchor;

/// Makes a fiber body of `closure`. A closure that already gives a future, because it is `async` or its body is an
/// `async` block, is left alone.
///
/// What one of a scope gives back is nothing or a `Result`. The type of a body that ends in a loop without end is open,
/// unless it is told.
pub(super) fn into_fiber(rewriter: &mut Rewriter, closure: &mut ExprClosure, of_scope: bool) {
    if gives_a_future(closure) {
        return;
    }
    let endless = of_scope.then(|| endless(closure)).flatten();
    let plain = std::mem::replace(&mut rewriter.plain, false);
    walk(rewriter, closure, false);
    rewriter.plain = plain;
    rewriter.settled += 1;
    let output = std::mem::replace(&mut closure.output, ReturnType::Default);
    let anchor = match &output {
        ReturnType::Default => endless.and_then(|endless| anchor(&endless)),
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

/// Makes a part of this fiber of `closure`, whose parameter is a scope or something else. What gives a future already
/// is left alone.
pub(super) fn into_part(rewriter: &mut Rewriter, closure: &mut ExprClosure, opens: bool) {
    if gives_a_future(closure) {
        return;
    }
    if let Some(output) = endless(closure)
        && matches!(closure.output, ReturnType::Default)
        && let Some(anchor) = anchor(&output)
    {
        let body = &closure.body;
        closure.body = parse_quote_spanned! {closure.or2_token.span=> { #anchor #body } };
    }
    walk(rewriter, closure, opens);
    closure.asyncness = Some(Async(closure.or1_token.span));
}

/// A closure that is nothing to wo. A fiber may be started in it all the same, which does not park.
pub(super) fn leave_plain(rewriter: &mut Rewriter, closure: &mut ExprClosure) {
    if closure.asyncness.is_some() {
        return;
    }
    let plain = std::mem::replace(&mut rewriter.plain, true);
    walk(rewriter, closure, false);
    rewriter.plain = plain;
}

fn gives_a_future(closure: &ExprClosure) -> bool {
    closure.asyncness.is_some() || matches!(*closure.body, Expr::Async(_))
}

/// Walks the body, in which the parameters hide what had their names outside.
fn walk(rewriter: &mut Rewriter, closure: &mut ExprClosure, opens: bool) {
    let outside = (rewriter.scopes.enter(), rewriter.imports.enter());
    for (index, parameter) in closure.inputs.iter().enumerate() {
        rewriter.imports.variable(parameter);
        if opens && index == 0 {
            rewriter.scopes.name(parameter);
        } else {
            rewriter.scopes.parameter(parameter);
        }
    }
    rewriter.visit_expr_mut(&mut closure.body);
    rewriter.scopes.leave(outside.0);
    rewriter.imports.leave(outside.1);
}
