//! The `async` block that a plain body becomes.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Block, ReturnType, Type, TypeImplTrait};

use crate::spans::generated_at;

/// The `async` block of a function with this `output` and this rewritten `body`. `opening` stands before the body.
pub fn async_block(output: &ReturnType, opening: &TokenStream, body: &Block) -> TokenStream {
    let anchor = anchor(output);
    quote_spanned! {generated_at(body.brace_token.span.open())=>
        async move {
            #[allow(unused_imports)]
            use ::wo::__rt::SettleOrdinary as _;
            #anchor
            #opening
            #body
        }
    }
}

/// What a future that stands for a function with this `output` gives.
pub fn output_type(output: &ReturnType) -> TokenStream {
    match output {
        ReturnType::Default => quote! { () },
        ReturnType::Type(_, output) => match &**output {
            Type::Never(never) => quote_spanned! {generated_at(never.span())=> ::wo::__rt::Never },
            output => quote! { #output },
        },
    }
}

/// A statement that never runs and tells the compiler what the `async` block around it returns, so that `return`, `?`
/// and the last expression convert to `output` as in a function. There is none where `output` holds an `impl Trait`,
/// which cannot be written there.
pub fn anchor(output: &ReturnType) -> Option<TokenStream> {
    let place = match output {
        ReturnType::Default => Span::call_site(),
        ReturnType::Type(_, output) if holds_impl_trait(output) => return None,
        ReturnType::Type(_, output) => output.span(),
    };
    let output = output_type(output);
    Some(quote_spanned! {generated_at(place)=>
        if false {
            return ::wo::__rt::output::<#output>();
        }
    })
}

fn holds_impl_trait(output: &Type) -> bool {
    struct Finder(bool);
    impl Visit<'_> for Finder {
        fn visit_type_impl_trait(&mut self, _: &TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut finder = Finder(false);
    finder.visit_type(output);
    finder.0
}
