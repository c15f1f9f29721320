//! Where generated tokens claim to stand.

use proc_macro2::Span;

/// A span for a generated token that belongs to the user's token at `place`: messages show the user's line, while
/// names resolve as the macro's, and lints see generated code and keep quiet.
pub fn generated_at(place: Span) -> Span {
    Span::call_site().located_at(place)
}
