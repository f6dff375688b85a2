struct Nothing;

#[kueue_check::main]
async fn main() -> kueue_check::Result<()> {
    kueue_check::main(Nothing).await
}
