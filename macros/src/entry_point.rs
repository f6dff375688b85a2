//! `#[main]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ItemFn;

/// Expands to tokio's own macro, with the SDK's tokio. A function that is not async is reported
/// here, because tokio's macro would also report that there is no crate `tokio`.
pub(crate) fn expand(arguments: TokenStream, function: TokenStream) -> TokenStream {
    if let Ok(parsed) = syn::parse2::<ItemFn>(function.clone())
        && parsed.sig.asyncness.is_none()
    {
        let message = "`main` must be async: `async fn main() -> kueue_check::Result<()>`";
        let error = syn::Error::new_spanned(parsed.sig.fn_token, message).into_compile_error();
        return quote!(#error #function);
    }
    quote! {
        #[::kueue_check::tokio::main(crate = "::kueue_check::tokio", #arguments)]
        #function
    }
}
