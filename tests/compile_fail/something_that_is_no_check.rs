struct Nothing;

#[tokio::main]
async fn main() -> kueue_check::Result<()> {
    kueue_check::main(Nothing).await
}
