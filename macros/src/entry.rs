//! `#[wo::main]`: the program's `main`, run as the first fiber.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Result, ReturnType};

use crate::args::MainArgs;
use crate::body::{async_block, output_type};
use crate::function::{Function, Refusals, refused};
use crate::rewrite;
use crate::spans::generated_at;

/// Expands the attribute with `args` over `item`.
pub fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let main = Function::under("main", item.clone()).and_then(|function| {
        check(&function)?;
        let args = syn::parse2(args)?;
        main(&args, function)
    });
    main.unwrap_or_else(|error| refused(&error, item))
}

fn check(function: &Function) -> Result<()> {
    function.check()?;
    let sig = &function.sig;
    let mut refusals = Refusals::default();
    if sig.ident != "main" {
        refusals.add(&sig.ident, "`#[wo::main]` goes on the function `main`; others that park take `#[wo::fiber]`");
    }
    if !sig.inputs.is_empty() {
        refusals.add(&sig.inputs, "`main` takes no parameters; `std::env::args` has the command line");
    }
    if !sig.generics.params.is_empty() {
        refusals.add(&sig.generics, "`main` cannot be generic");
    }
    if let Some(keyword) = &sig.unsafety {
        refusals.add(keyword, "`main` cannot be unsafe");
    }
    refusals.into_result()
}

fn main(args: &MainArgs, function: Function) -> Result<TokenStream> {
    let Function { attrs, vis, mut sig, body } = function;
    let Some(mut body) = body else {
        return Err(Error::new_spanned(sig, "`main` needs a body"));
    };
    rewrite::body(&mut body, None);
    let checked = termination_check(&sig.output);
    let future = async_block(&sig.output, &TokenStream::new(), &body);
    sig.output = ReturnType::Default;
    Ok(quote! {
        #(#attrs)*
        #[allow(clippy::await_holding_lock, clippy::await_holding_refcell_ref)]
        #vis #sig -> ::std::process::ExitCode {
            #checked
            ::wo::__rt::run_main(#args, || ::wo::__rt::Call::new(#future))
        }
    })
}

/// Makes the compiler complain at the user's type, and not somewhere in the expansion, where `main` cannot return it.
fn termination_check(output: &ReturnType) -> Option<TokenStream> {
    let ReturnType::Type(_, output_written) = output else {
        return None;
    };
    let output = output_type(output);
    Some(quote_spanned! {generated_at(output_written.span())=>
        let _ = <#output as ::std::process::Termination>::report;
    })
}
