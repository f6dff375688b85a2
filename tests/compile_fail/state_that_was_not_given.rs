use kueue_check::prelude::*;

#[derive(Clone)]
struct Ledger;

#[admission_check(controller = "example.com/check")]
async fn check(State(_ledger): State<Ledger>) -> Verdict {
    Verdict::ready("ok")
}

#[kueue_check::main]
async fn main() -> kueue_check::Result<()> {
    kueue_check::main(check).await
}
