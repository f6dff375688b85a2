//! Each likely mistake, and what the compiler says about it.
//!
//! The messages are those of the toolchain in `rust-toolchain.toml`. `TRYBUILD=overwrite cargo test --test it compile_fail` writes them anew; read them
//! before you commit them, as the author of a check would.

#[test]
fn each_likely_mistake_is_explained() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
