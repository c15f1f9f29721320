//! `#[derive(wo::Message)]`: has each field of a message checked where it stands.
//!
//! Whatever is `Send` and `'static` is a message; the derive adds nothing but words. The bound on a message as a whole
//! can only name the part that breaks it, not the field that part is in.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Result};

use crate::spans::generated_at;

/// Expands the derive for `item`.
pub fn expand(item: TokenStream) -> TokenStream {
    syn::parse2(item).and_then(|input| checks(&input)).unwrap_or_else(|error| error.to_compile_error())
}

fn checks(input: &DeriveInput) -> Result<TokenStream> {
    let fields: Vec<_> = match &input.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(data) => return Err(Error::new_spanned(data.union_token, "a message is a struct or an enum")),
    };
    let name = &input.ident;
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        // A message of any one type is checked where it is sent.
        parameter.bounds.push(syn::parse_quote!(::core::marker::Send));
        parameter.bounds.push(syn::parse_quote!('static));
    }
    let (parameters, applied, conditions) = generics.split_for_impl();
    let checks = fields.iter().map(|field| {
        let (ty, place) = (&field.ty, generated_at(field.ty.span()));
        quote_spanned! {place=> ::wo::__rt::crosses::field::<#ty, #name #applied, _>(); }
    });
    Ok(quote! {
        #[allow(dead_code, clippy::all, clippy::pedantic)]
        const _: () = {
            fn crosses #parameters () #conditions { #(#checks)* }
        };
    })
}
