//! Settling: a call becomes `call.__wo_settle().await`.
//!
//! The method is inherent on `Call`, the type every parking call has, and gives its future; every other type has
//! it from a trait, and gives a future that is ready with the value itself. Inherent methods win, so the type of
//! the call alone decides. A method call is a postfix, hence nothing around the call changes: not the order of
//! evaluation, not the scope of a temporary, not what binds tighter than what.

use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::token::{Await, Dot, Paren};
use syn::visit_mut::VisitMut;
use syn::{Attribute, Expr, ExprAwait, ExprCall, ExprMethodCall, Ident, parse_quote_spanned};

use super::{Rewriter, closures};
use crate::names::{self, Takes};

/// How to settle a call: where it ends, the attributes in front of it, which belong in front of the whole, and whether
/// it may be recursive, as it carries the name of the function it stands in. The future of a recursive call is boxed.
pub(super) struct Settling {
    attrs: Vec<Attribute>,
    end: Span,
    recursive: bool,
}

impl Settling {
    /// Puts `.__wo_settle().await` behind `call`. It claims to stand where the call ends, so that messages and lints
    /// show the whole as what the user wrote.
    pub(super) fn apply(self, call: &mut Expr) {
        let span = self.end;
        let method = if self.recursive { "__wo_settle_boxed" } else { "__wo_settle" };
        let settle = ExprMethodCall {
            attrs: Vec::new(),
            receiver: Box::new(std::mem::replace(call, Expr::PLACEHOLDER)),
            dot_token: Dot(span),
            method: Ident::new(method, span),
            turbofish: None,
            paren_token: Paren(span),
            args: Punctuated::new(),
        };
        *call = Expr::Await(ExprAwait {
            attrs: self.attrs,
            base: Box::new(Expr::MethodCall(settle)),
            dot_token: Dot(span),
            await_token: Await(span),
        });
    }
}

impl Rewriter<'_> {
    /// Walks the callee and the arguments of `call`, and says how to settle it, unless it is passed by, see [`names`].
    pub(super) fn function_call(&mut self, call: &mut ExprCall) -> Option<Settling> {
        self.callee_and_arguments(call);
        let function = match &*call.func {
            Expr::Path(function) => Some(&function.path),
            _ => None,
        };
        if function.is_some_and(names::passes_by_function) {
            return None;
        }
        let name = function.and_then(|function| function.segments.last()).map(|last| &last.ident);
        self.settled += 1;
        Some(Settling {
            recursive: name.is_some() && name == self.own_name,
            end: call.paren_token.span.close(),
            attrs: std::mem::take(&mut call.attrs),
        })
    }

    /// Walks the receiver and the arguments of `call`, and says how to settle it, unless it is passed by.
    pub(super) fn method_call(&mut self, call: &mut ExprMethodCall) -> Option<Settling> {
        self.receiver_and_arguments(call);
        if names::passes_by(&call.method) {
            return None;
        }
        self.settled += 1;
        Some(Settling {
            recursive: self.own_name == Some(&call.method),
            end: call.paren_token.span.close(),
            attrs: std::mem::take(&mut call.attrs),
        })
    }

    /// Walks what the user awaits already. A call there stays as it is, its await being there.
    pub(super) fn awaited(&mut self, base: &mut Expr) {
        match base {
            Expr::Call(call) => self.callee_and_arguments(call),
            Expr::MethodCall(call) => self.receiver_and_arguments(call),
            _ => self.visit_expr_mut(base),
        }
    }

    /// Closures handed to wo's own functions become fibers, or parts of this one.
    pub(super) fn callee_and_arguments(&mut self, call: &mut ExprCall) {
        let takes = match &*call.func {
            Expr::Path(function) => self.imports.takes(&function.path),
            _ => None,
        };
        self.visit_expr_mut(&mut call.func);
        for argument in &mut call.args {
            self.argument(argument, takes);
        }
    }

    /// The same of a method of a scope.
    pub(super) fn receiver_and_arguments(&mut self, call: &mut ExprMethodCall) {
        let starts = names::scope_starts(&call.method) && self.scopes.gives(&call.receiver);
        let takes = starts.then_some(Takes::Child);
        self.visit_expr_mut(&mut call.receiver);
        for argument in &mut call.args {
            self.argument(argument, takes);
        }
    }

    /// What is given to a function that takes closures so. Several may stand in a tuple or an array. In a plain closure
    /// there is nothing for a part of the fiber to park in.
    fn argument(&mut self, argument: &mut Expr, takes: Option<Takes>) {
        match (argument, takes.filter(|takes| !self.plain || matches!(takes, Takes::Fiber | Takes::Child))) {
            (Expr::Closure(closure), Some(Takes::Fiber)) => closures::into_fiber(self, closure, false),
            (Expr::Closure(closure), Some(Takes::Child)) => closures::into_fiber(self, closure, true),
            (Expr::Closure(closure), Some(takes)) => closures::into_part(self, closure, takes == Takes::Scope),
            (Expr::Tuple(several), Some(Takes::Part)) => {
                several.elems.iter_mut().for_each(|one| self.argument(one, takes));
            }
            (Expr::Array(several), Some(Takes::Part)) => {
                several.elems.iter_mut().for_each(|one| self.argument(one, takes));
            }
            (argument, _) => self.visit_expr_mut(argument),
        }
    }
}

/// Makes `(call,).0` of a settled `call` behind a `&`. Where a `&Foo` is expected, plain Rust takes `&call()` of a
/// `Box<Foo>`, a guard or a `&Foo` too, since what is expected of a call is but a hint; of an await it is a demand,
/// and the field of a tuple is what no demand reaches.
pub(super) fn forget_expected_type(operand: &mut Expr) {
    let place = match operand {
        Expr::Paren(inner) => return forget_expected_type(&mut inner.expr),
        Expr::Group(inner) => return forget_expected_type(&mut inner.expr),
        Expr::Await(wait) => wait.await_token.span,
        _ => return,
    };
    let call = std::mem::replace(operand, Expr::PLACEHOLDER);
    *operand = parse_quote_spanned! {place=> (#call,).0 };
}
