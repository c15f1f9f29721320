//! The code of a record.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, LitStr, Type};

use crate::record::attributes::{Marks, RecordArgs};
use crate::spans::generated_at;

pub fn record(input: &DeriveInput, args: &RecordArgs, columns: &[Marks<'_>]) -> TokenStream {
    let record = &input.ident;
    let rt = quote! { ::wo::__rt::db };
    let table = args.table.clone().unwrap_or_else(|| LitStr::new(&snake_case(&record.to_string()), record.span()));
    let version = args.version();
    let keys: Vec<&Marks<'_>> = columns.iter().filter(|marks| marks.key.is_some()).collect();
    let (key_type, key) = match keys.as_slice() {
        [one] => {
            let (ty, name) = (&one.field.ty, &one.field.ident);
            (quote! { #ty }, quote! { ::core::clone::Clone::clone(&self.#name) })
        }
        all => {
            let types = all.iter().map(|marks| &marks.field.ty);
            let names = all.iter().map(|marks| &marks.field.ident);
            (quote! { (#(#types,)*) }, quote! { (#(::core::clone::Clone::clone(&self.#names),)*) })
        }
    };
    let described = columns.iter().map(|marks| described(&rt, marks));
    let encoded = columns.iter().map(|marks| {
        let (name, function) = (&marks.field.ident, function(&rt, &marks.field.ty, "encode"));
        quote! { ({ #function })(&self.#name, output); }
    });
    let decoded = columns.iter().map(|marks| {
        let (ident, name, function) = (&marks.field.ident, marks.name(), function(&rt, &marks.field.ty, "decode"));
        quote! { #ident: input.field(#name, |input| #function(input))? }
    });
    let assembled = columns.iter().enumerate().map(|(at, marks)| {
        let (ident, name, function) = (&marks.field.ident, marks.name(), function(&rt, &marks.field.ty, "decode"));
        match &marks.default {
            None => quote! { #ident: parts.take(#at, #name, |input| #function(input))? },
            Some(default) => quote! { #ident: parts.take_or(#at, #name, |input| #function(input), || #default)? },
        }
    });
    let indexes: Vec<&Marks<'_>> =
        columns.iter().filter(|marks| marks.unique.is_some() || marks.index.is_some()).collect();
    let empty = indexes.iter().map(|marks| {
        let (ident, name, place) = (&marks.field.ident, marks.name(), generated_at(marks.field.ty.span()));
        let make = if marks.unique.is_some() {
            quote! { unique }
        } else {
            quote! { plain }
        };
        quote_spanned! {place=> #rt::#make(#name, |row: &#record| &row.#ident) }
    });
    let constants = indexes.iter().enumerate().map(|(at, marks)| constant(&rt, record, marks, at));
    let upgrades = args.upgrades.iter().map(|(from, function)| {
        let place = generated_at(function.span());
        quote_spanned! {place=> #rt::upgrade::<#record>(#from, #function) }
    });
    let automatic = keys.iter().find(|marks| marks.automatic).map(|marks| {
        let (name, ty, place) = (&marks.field.ident, &marks.field.ty, generated_at(marks.field.ty.span()));
        quote_spanned! {place=>
            const AUTOMATIC: bool = true;

            fn assign_key(&mut self, last: ::core::option::Option<&#ty>) -> bool {
                let (is_unset, behind) = (<#ty as #rt::Automatic>::is_unset, <#ty as #rt::Automatic>::behind);
                if is_unset(&self.#name) {
                    match behind(last) {
                        ::core::option::Option::Some(key) => self.#name = key,
                        ::core::option::Option::None => return false,
                    }
                }
                true
            }
        }
    });
    quote! {
        #[automatically_derived]
        #[allow(clippy::all, clippy::pedantic)]
        impl #rt::Record for #record {
            type Key = #key_type;

            const TABLE: &'static str = #table;
            const VERSION: u32 = #version;

            fn key(&self) -> Self::Key {
                #key
            }

            fn columns() -> ::std::vec::Vec<#rt::ColumnOf> {
                ::std::vec![#(#described),*]
            }

            fn encode(&self, output: &mut #rt::Output) {
                #(#encoded)*
            }

            fn decode(input: &mut #rt::Input<'_>) -> ::core::result::Result<Self, #rt::Undecodable> {
                ::core::result::Result::Ok(#record { #(#decoded),* })
            }

            fn assemble(parts: &mut #rt::Parts<'_>) -> ::core::result::Result<Self, #rt::Undecodable> {
                ::core::result::Result::Ok(#record { #(#assembled),* })
            }

            fn indexes() -> ::std::vec::Vec<::std::boxed::Box<dyn #rt::AnyIndex<Self>>> {
                ::std::vec![#(#empty),*]
            }

            fn upgrades() -> ::std::vec::Vec<(u32, #rt::Upgrade<Self>)> {
                ::std::vec![#(#upgrades),*]
            }

            #automatic
        }

        #[allow(dead_code, non_upper_case_globals)]
        impl #record {
            #(#constants)*
        }
    }
}

/// A function of a field's type. Named so, and alike everywhere, a type that has none is told of once, at the type; a
/// variable that holds it, an argument of the type, or a bound further on would be told of as well.
pub fn function(rt: &TokenStream, ty: &Type, name: &str) -> TokenStream {
    let (place, name) = (generated_at(ty.span()), format_ident!("{}", name));
    quote_spanned! {place=> <#ty as #rt::Field>::#name }
}

fn described(rt: &TokenStream, marks: &Marks<'_>) -> TokenStream {
    let (ty, name, place) = (&marks.field.ty, marks.name(), generated_at(marks.field.ty.span()));
    let (key, automatic) = (marks.key.is_some(), marks.automatic);
    let (unique, index) = (marks.unique.is_some(), marks.index.is_some());
    let has_default = marks.default.is_some();
    let was = match &marks.was {
        Some(was) => quote! { ::core::option::Option::Some(#was) },
        None => quote! { ::core::option::Option::None },
    };
    let describe = function(rt, ty, "describe");
    quote_spanned! {place=>
        #rt::ColumnOf {
            name: #name,
            ty: #describe,
            role: #rt::Role { key: #key, automatic: #automatic, unique: #unique, index: #index },
            was: #was,
            has_default: #has_default,
        }
    }
}

/// The constant that queries by a field take.
fn constant(rt: &TokenStream, record: &Ident, marks: &Marks<'_>, at: usize) -> TokenStream {
    let (ty, vis, name) = (&marks.field.ty, &marks.field.vis, marks.name());
    let span = marks.field.ident.as_ref().map_or_else(Span::call_site, Ident::span);
    let constant = format_ident!("{}", name.to_uppercase(), span = span);
    let (kind, doc) = if marks.unique.is_some() {
        (quote! { Unique }, format!("The unique field `{name}`, for `find` and for queries."))
    } else {
        (quote! { Index }, format!("The index over the field `{name}`, for queries."))
    };
    quote! {
        #[doc = #doc]
        #vis const #constant: #rt::#kind<#record, #ty> = #rt::#kind::at(#at);
    }
}

/// `UserAccount` becomes `user_account`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut after_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && after_lower {
            snake.push('_');
        }
        after_lower = !c.is_uppercase();
        snake.extend(c.to_lowercase());
    }
    snake
}
