//! The macros of `std` whose arguments are expressions: those are walked like any other expression. The rest of
//! the world's macros are left alone, since nobody can tell what their tokens mean.
//!
//! `assert!` and `dbg!` show the source text of their argument, so they get the text as the user wrote it.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{Parse, ParseStream, Parser, Result};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Expr, Macro, Pat, Token, parse_quote};

use super::Rewriter;
use crate::names::{self, Arguments};

impl Rewriter<'_> {
    /// Walks the arguments of `mac` if it is one of `std`'s that [`names`] knows. Its tokens stay untouched when
    /// they do not parse (the compiler says why, better than this macro could) and when nothing in them settles.
    pub(super) fn std_macro(&mut self, mac: &mut Macro) {
        let Some(arguments) = names::std_macro(&mac.path) else {
            return;
        };
        let before = self.settled;
        let tokens = mac.tokens.clone();
        let rewritten = match arguments {
            Arguments::Expressions => self.expressions(tokens),
            Arguments::Vector => self.vector(tokens),
            Arguments::Assertion => self.assertion(tokens),
            Arguments::Pattern => self.pattern(tokens),
            // Rewritten by `shown`, as it becomes another expression.
            Arguments::Shown => return,
        };
        if let Ok(rewritten) = rewritten
            && self.settled > before
        {
            mac.tokens = rewritten;
        }
    }

    /// `a, b, name = c`; a named argument of a format parses as an assignment, whose left side holds no call.
    fn expressions(&mut self, tokens: TokenStream) -> Result<TokenStream> {
        let mut arguments = list.parse2(tokens)?;
        for argument in &mut arguments {
            self.visit_expr_mut(argument);
        }
        Ok(arguments.into_token_stream())
    }

    /// `a, b, c` or `a; n`.
    fn vector(&mut self, tokens: TokenStream) -> Result<TokenStream> {
        match repeated.parse2(tokens.clone()) {
            Ok((mut element, semicolon, mut length)) => {
                self.visit_expr_mut(&mut element);
                self.visit_expr_mut(&mut length);
                Ok(quote! { #element #semicolon #length })
            }
            Err(_) => self.expressions(tokens),
        }
    }

    /// `condition` or `condition, "format", a, b`. The standard message quotes the condition, so a rewritten one
    /// brings along the message of the original.
    fn assertion(&mut self, tokens: TokenStream) -> Result<TokenStream> {
        let mut arguments = list.parse2(tokens)?;
        let message = match arguments.first() {
            Some(condition) if arguments.len() == 1 => Some(quote! {
                , "{}", ::core::concat!("assertion failed: ", ::core::stringify!(#condition))
            }),
            _ => None,
        };
        for argument in &mut arguments {
            self.visit_expr_mut(argument);
        }
        arguments.pop_punct();
        Ok(quote! { #arguments #message })
    }

    /// `expression, pattern` or `expression, pattern if guard`.
    fn pattern(&mut self, tokens: TokenStream) -> Result<TokenStream> {
        let mut question: Question = syn::parse2(tokens)?;
        self.visit_expr_mut(&mut question.expression);
        if let Some((_, guard)) = &mut question.guard {
            self.visit_expr_mut(guard);
        }
        Ok(question.into_token_stream())
    }

    /// What `dbg!` stands for, with the text of its arguments as the user wrote it, or nothing if `mac` is no
    /// `dbg!` or nothing in it settles.
    pub(super) fn shown(&mut self, mac: &Macro) -> Option<Expr> {
        let Some(Arguments::Shown) = names::std_macro(&mac.path) else {
            return None;
        };
        let before = self.settled;
        let arguments = list.parse2(mac.tokens.clone()).ok()?;
        // `line!` and `column!` answer for the place these tokens claim, the user's own.
        let place = mac.path.span();
        let mut values = Vec::new();
        for argument in &arguments {
            let mut value = argument.clone();
            self.visit_expr_mut(&mut value);
            values.push(quote_spanned! {place=>
                match #value {
                    __wo_value => {
                        ::std::eprintln!(
                            "[{}:{}:{}] {} = {:#?}",
                            ::core::file!(),
                            ::core::line!(),
                            ::core::column!(),
                            ::core::stringify!(#argument),
                            &__wo_value,
                        );
                        __wo_value
                    }
                }
            });
        }
        if self.settled == before {
            return None;
        }
        match &values[..] {
            [value] => Some(parse_quote!((#value))),
            values => Some(parse_quote!((#(#values,)*))),
        }
    }
}

fn list(input: ParseStream) -> Result<Punctuated<Expr, Token![,]>> {
    Punctuated::parse_terminated(input)
}

fn repeated(input: ParseStream) -> Result<(Expr, Token![;], Expr)> {
    Ok((input.parse()?, input.parse()?, input.parse()?))
}

/// The arguments of `matches!`.
struct Question {
    expression: Expr,
    comma: Token![,],
    pattern: Pat,
    guard: Option<(Token![if], Expr)>,
}

impl Parse for Question {
    fn parse(input: ParseStream) -> Result<Self> {
        let question = Question {
            expression: input.parse()?,
            comma: input.parse()?,
            pattern: Pat::parse_multi_with_leading_vert(input)?,
            guard: match input.parse()? {
                Some(keyword) => Some((keyword, input.parse()?)),
                None => None,
            },
        };
        input.parse::<Option<Token![,]>>()?;
        Ok(question)
    }
}

impl ToTokens for Question {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.expression.to_tokens(tokens);
        self.comma.to_tokens(tokens);
        self.pattern.to_tokens(tokens);
        if let Some((keyword, guard)) = &self.guard {
            keyword.to_tokens(tokens);
            guard.to_tokens(tokens);
        }
    }
}
