/// Object that a notification names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadNotice {
    /// Name of the bucket that sent the notification.
    pub bucket: String,
    /// Key of the S3 object, decoded.
    pub key: String,
    /// Version id of the object, if the bucket keeps versions.
    pub version_id: Option<String>,
}
