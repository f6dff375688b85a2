//! `#[main]`.

use proc_macro2::TokenStream;
use quote::quote;

/// tokio's own macro, with the SDK's tokio.
pub(crate) fn expand(arguments: TokenStream, function: TokenStream) -> TokenStream {
    quote! {
        #[::kueue_check::tokio::main(crate = "::kueue_check::tokio", #arguments)]
        #function
    }
}
