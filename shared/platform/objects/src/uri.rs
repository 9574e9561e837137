/// Returns the `s3://bucket/key` URI of an object.
#[must_use]
pub fn uri_of(bucket: &str, key: &str) -> String {
    format!("s3://{bucket}/{key}")
}

/// Returns the key in an `s3://bucket/key` URI; `None` if the URI names another bucket.
pub(crate) fn key_in<'a>(bucket: &str, uri: &'a str) -> Option<&'a str> {
    let (found, key) = uri.strip_prefix("s3://")?.split_once('/')?;
    (found == bucket && !key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_uris_in_the_bucket_have_a_key() {
        assert_eq!(key_in("payloads", &uri_of("payloads", "chunks/1/2")), Some("chunks/1/2"));
        for uri in ["s3://other/chunks/1", "s3://payloads/", "s3://payloads", "https://payloads/chunks/1", ""]
        {
            assert_eq!(key_in("payloads", uri), None, "{uri}");
        }
    }
}
