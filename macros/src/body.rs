//! The `async` block that a plain body becomes.

use std::iter;

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, ReturnType, Stmt, Type, parse_quote, parse_quote_spanned};

use crate::spans::generated_at;

/// The `async` block of a function with this `output` and this rewritten `body`. `opening` stands before the body, in a
/// scope of its own around it, as parameters do.
pub fn async_block(output: &ReturnType, opening: &TokenStream, mut body: Block) -> TokenStream {
    let place = generated_at(body.brace_token.span.open());
    let settle = parse_quote_spanned! {place=>
        #[allow(unused_imports)]
        use ::wo::__rt::SettleOrdinary as _;
    };
    body.stmts.splice(0..0, iter::once(settle).chain(anchor(output)));
    if opening.is_empty() {
        quote_spanned! {place=> async move #body }
    } else {
        quote_spanned! {place=> async move { #opening #body } }
    }
}

/// The lints that would blame the user for what the expansion does: behind a call that never comes back there stands an
/// await; guards live across every call, and nearly none of those parks; a call of a plain function that gives nothing
/// passes on its nothing; and the type of a call has the user's type inside.
pub fn allowed() -> TokenStream {
    quote! {
        #[allow(
            unreachable_code,
            clippy::async_yields_async,
            clippy::await_holding_lock,
            clippy::await_holding_refcell_ref,
            clippy::diverging_sub_expression,
            clippy::type_complexity,
            clippy::unit_arg
        )]
    }
}

/// What a future that stands for a function with this `output` gives.
pub fn output_type(output: &ReturnType) -> TokenStream {
    match output {
        ReturnType::Default => quote! { () },
        ReturnType::Type(_, output) if is_never(output) => quote_spanned! {output.span()=> ::wo::__rt::Never },
        ReturnType::Type(_, output) => quote! { #output },
    }
}

/// A statement that never runs and tells the compiler what the `async` block around it returns, so that `return`, `?`
/// and the last expression convert to `output` as in a function. There is none for `!`, to which nothing converts.
pub fn anchor(output: &ReturnType) -> Option<Stmt> {
    let (place, output) = match output {
        ReturnType::Default => (Span::call_site(), quote! { () }),
        ReturnType::Type(_, output) if is_never(output) => return None,
        ReturnType::Type(_, output) => {
            let mut nameable = output.clone();
            ImplTraitToInferred.visit_type_mut(&mut nameable);
            (output.span(), quote! { #nameable })
        }
    };
    Some(parse_quote_spanned! {generated_at(place)=>
        if false {
            return ::wo::__rt::output::<#output>();
        }
    })
}

fn is_never(output: &Type) -> bool {
    match output {
        Type::Never(_) => true,
        Type::Group(inner) => is_never(&inner.elem),
        Type::Paren(inner) => is_never(&inner.elem),
        _ => false,
    }
}

/// Leaves to inference what has no name in a body: `Result<impl Iterator, E>` becomes `Result<_, E>`.
struct ImplTraitToInferred;

impl VisitMut for ImplTraitToInferred {
    fn visit_type_mut(&mut self, written: &mut Type) {
        match written {
            Type::ImplTrait(_) => *written = parse_quote!(_),
            _ => visit_mut::visit_type_mut(self, written),
        }
    }
}
