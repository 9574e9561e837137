/// S3 object with a payload that a notification names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadNotice {
    /// Name of the bucket that sent the notification.
    pub bucket: String,
    /// Key of the S3 object, decoded.
    pub key: String,
    /// Version id of the object; `None` if the bucket keeps no versions.
    pub version_id: Option<String>,
}
