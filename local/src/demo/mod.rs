pub(crate) async fn show(_base_url: &str) -> Result<(), crate::failure::Failure> {
    Ok(())
}
