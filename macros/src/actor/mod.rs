//! `#[wo::actor]`: on an `impl`, makes its type an actor; on the type itself, says that it is one.
//!
//! [`block`] reads the `impl` and sorts its methods, [`shape`] holds them to what handlers look like, [`message`] reads
//! those marked `#[message]`, and [`generate`] writes what makes an actor of the whole.

mod block;
mod generate;
mod message;
mod shape;
mod types;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Error, Generics, Ident, Item};

use crate::function::{head, refused};
use crate::spans::generated_at;

/// Expands the attribute with `args` over `item`.
pub fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let parsed = match syn::parse2(item.clone()) {
        Ok(parsed) => parsed,
        Err(error) => return refused(&error, item),
    };
    match parsed {
        Item::Impl(block) => block::expand(args, block),
        Item::Struct(state) => mark(args, &state.ident, &state.generics, &state),
        Item::Enum(state) => mark(args, &state.ident, &state.generics, &state),
        other => {
            let words = "`#[wo::actor]` goes on the `impl` that has `receive`, and may go on its struct or enum";
            refused(&Error::new_spanned(head(&other), words), item)
        }
    }
}

/// The state's type, and a demand that it is an actor, where that can be told without knowing its parameters.
fn mark(args: TokenStream, name: &Ident, generics: &Generics, item: &impl ToTokens) -> TokenStream {
    if !args.is_empty() {
        let error = Error::new_spanned(args, "arguments go on the `impl` that has `receive`");
        return refused(&error, item.to_token_stream());
    }
    if !generics.params.is_empty() {
        return item.to_token_stream();
    }
    let check = quote_spanned! {generated_at(name.span())=>
        const _: fn() = ::wo::__rt::is_actor::<#name>;
    };
    quote! { #item #check }
}

/// Whether this is the attribute called `name`, written with `wo::` or without.
fn is_called(attribute: &syn::Attribute, name: &str) -> bool {
    let mut segments = attribute.path().segments.iter().map(|segment| &segment.ident);
    match (segments.next(), segments.next(), segments.next()) {
        (Some(own), None, None) => own == name,
        (Some(krate), Some(own), None) => krate == "wo" && own == name,
        _ => false,
    }
}
