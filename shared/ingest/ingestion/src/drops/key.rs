//! Keys of dropped objects: `drop/<tenant>/<delta|full>/<any name>.json|.ndjson[.gz]`.

use crate::payload::{LoadType, MediaType, encoded_key};
use uuid::Uuid;

/// Prefix of the S3 keys under which tenants drop catalogues.
pub const PREFIX: &str = "drop/";
/// Prefix of the S3 keys under which the results of dropped objects are written.
const RESULTS: &str = "drop-results/";

/// Maximum number of bytes of a dropped object's key when it is percent-encoded. S3 limits
/// metadata, in which the payload's object has the key, to 2 KB, and the longer key of the result
/// to 1024 bytes.
const MAX_ENCODED: usize = 1000;

/// Endings of the names of unfinished files and of tools' markers, which are ignored.
const UNFINISHED: [&str; 11] = [
    "~",
    ".tmp",
    ".temp",
    ".part",
    ".partial",
    ".filepart",
    ".crdownload",
    ".inprogress",
    ".swp",
    "._copying_",
    "_$folder$",
];

/// Parts of a dropped object's key: tenant, load type and format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropKey {
    /// Id of the tenant whose products the object contains.
    pub tenant_id: Uuid,
    /// Load type of the catalogue: a delta, or a full load whose missing products become inactive.
    pub load_type: LoadType,
    /// Format of the object's items. Compression with gzip is recognized by the content, not by the
    /// name.
    pub media_type: MediaType,
}

/// Reason why a key is not that of a dropped catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropKeyError {
    /// The key is to be ignored: it names a folder, a marker or an unfinished file, or does not
    /// begin with `drop/`.
    Ignored,
    /// The key is malformed, although it was probably meant for a catalogue, so that it is refused
    /// with a result.
    Unknown(UnknownKey),
}

/// Fault of a malformed key that was probably meant for a catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum UnknownKey {
    #[error("the key must be drop/<tenant id in lower case>/<delta or full>/<name>")]
    Form,
    #[error("the name must end with .json, .ndjson, .json.gz or .ndjson.gz")]
    Ending,
    #[error("the key must have no control characters")]
    Control,
    #[error("the percent-encoded key must have at most {MAX_ENCODED} characters")]
    Length,
}

impl DropKey {
    /// Parses the key of a dropped object.
    ///
    /// # Errors
    /// If the key is to be ignored, or is malformed.
    pub fn read(key: &str) -> Result<Self, DropKeyError> {
        let path = key.strip_prefix(PREFIX).ok_or(DropKeyError::Ignored)?;
        let is_folder = path.is_empty() || path.ends_with('/');
        if is_folder || path.split('/').any(is_hidden) || is_unfinished(path) {
            return Err(DropKeyError::Ignored);
        }
        if key.contains(char::is_control) {
            return Err(DropKeyError::Unknown(UnknownKey::Control));
        }
        if encoded_key(key).len() > MAX_ENCODED {
            return Err(DropKeyError::Unknown(UnknownKey::Length));
        }
        Self::of(path).map_err(DropKeyError::Unknown)
    }

    fn of(path: &str) -> Result<Self, UnknownKey> {
        let mut segments = path.splitn(3, '/');
        let mut next = || segments.next().ok_or(UnknownKey::Form);
        let (tenant, load_type, name) = (next()?, next()?, next()?);
        let tenant_id = tenant_id(tenant).ok_or(UnknownKey::Form)?;
        let load_type = load_type.parse().map_err(|_| UnknownKey::Form)?;
        Ok(Self { tenant_id, load_type, media_type: media_type(name)? })
    }
}

/// True if an object with this key and this length in bytes gets neither tags nor a result. An
/// empty object is left alone only if its name is not that of a catalogue: otherwise an export has
/// failed, and its owner waits for a result.
#[must_use]
pub fn is_left_alone(key: &str, length: u64) -> bool {
    DropKey::read(key) == Err(DropKeyError::Ignored) || (length == 0 && media_type(key).is_err())
}

/// Returns the tenant in whose folder a key is, whether or not the rest of the key is valid; `None`
/// if it is in no tenant's folder.
#[must_use]
pub fn tenant_of(key: &str) -> Option<Uuid> {
    let (tenant, _) = key.strip_prefix(PREFIX)?.split_once('/')?;
    tenant_id(tenant)
}

/// Parses a tenant's id in its canonical spelling only (lower case, with hyphens), since access
/// policies compare prefixes as text.
fn tenant_id(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok().filter(|id| id.to_string() == text)
}

/// Returns the S3 key of a dropped object's result.
#[must_use]
pub fn result_key(key: &str) -> String {
    format!("{RESULTS}{}.json", key.strip_prefix(PREFIX).unwrap_or(key))
}

/// Returns the S3 key of the file with a dropped object's items in error.
#[must_use]
pub fn errors_key(key: &str) -> String {
    format!("{RESULTS}{}.errors.ndjson", key.strip_prefix(PREFIX).unwrap_or(key))
}

/// True if a part of a key is hidden, as Hadoop and Spark understand it: it begins with `_` or `.`,
/// such as `_SUCCESS`, `_temporary/…` and `.part-0.crc`. An empty part is not hidden: it results
/// from a prefix that ends with a slash and a name that begins with one.
fn is_hidden(segment: &str) -> bool {
    segment.starts_with(['_', '.'])
}

fn is_unfinished(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    UNFINISHED.iter().any(|ending| path.ends_with(ending))
}

fn media_type(name: &str) -> Result<MediaType, UnknownKey> {
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let (stem, ending) = name.rsplit_once('.').ok_or(UnknownKey::Ending)?;
    match ending {
        _ if stem.is_empty() || stem.ends_with('/') => Err(UnknownKey::Ending),
        "json" => Ok(MediaType::Json),
        "ndjson" => Ok(MediaType::NdJson),
        _ => Err(UnknownKey::Ending),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TENANT: &str = "11111111-1111-4111-8111-111111111111";

    fn read(rest: &str) -> Result<DropKey, DropKeyError> {
        DropKey::read(&format!("drop/{TENANT}/{rest}"))
    }

    #[test]
    fn an_object_without_bytes_is_left_alone_unless_its_name_is_a_catalogue_s() {
        for (rest, is_marker) in [
            ("full/loja-12.json", false),
            ("full/loja-12.ndjson.gz", false),
            ("everything/loja-12.json", false),
            ("full/loja-12.csv", true),
            ("full/loja-12", true),
            ("full", true),
        ] {
            let key = format!("drop/{TENANT}/{rest}");
            assert_eq!(is_left_alone(&key, 0), is_marker, "{rest}");
            assert!(!is_left_alone(&key, 1), "{rest}");
        }
        for rest in ["full/", "full/_SUCCESS", "full/a.json.tmp"] {
            assert!(
                [0, 1].iter().all(|length| is_left_alone(&format!("drop/{TENANT}/{rest}"), *length)),
                "{rest}"
            );
        }
    }

    #[test]
    fn a_key_says_whose_products_it_has_and_how() {
        for (rest, load_type, media_type) in [
            ("delta/loja-12.json", LoadType::Delta, MediaType::Json),
            ("full/loja-12.ndjson", LoadType::Full, MediaType::NdJson),
            ("full/2026/11/22/part-00000.json.gz", LoadType::Full, MediaType::Json),
            ("delta/PREÇOS de hoje+1.NDJSON.GZ", LoadType::Delta, MediaType::NdJson),
            ("delta/a.b.c_.json", LoadType::Delta, MediaType::Json),
            ("full//loja-12.ndjson", LoadType::Full, MediaType::NdJson),
            ("full/2026//11///loja-12.json", LoadType::Full, MediaType::Json),
        ] {
            let tenant_id = TENANT.parse().unwrap();
            assert_eq!(read(rest), Ok(DropKey { tenant_id, load_type, media_type }), "{rest}");
        }
    }

    #[test]
    fn markers_and_unfinished_files_are_left_alone() {
        for rest in [
            "",
            "full/",
            "full/folder/",
            "full//",
            "/",
            "full//.hidden.json",
            "full//_temporary//part-0.json",
            "full/_SUCCESS",
            "full/_temporary/0/part-0.json",
            "full/.part-0.json.crc",
            "full/.hidden.json",
            "full/a.json.tmp",
            "full/a.json.TMP",
            "full/a.json.part",
            "full/a.json.filepart",
            "full/a.json~",
            "full/job_$folder$",
            "full/a.json._COPYING_",
        ] {
            assert_eq!(read(rest), Err(DropKeyError::Ignored), "{rest}");
        }
        for key in ["drop/", "incoming/a.json", "drop-results/a.json.json", "Drop/a.json"] {
            assert_eq!(DropKey::read(key), Err(DropKeyError::Ignored), "{key}");
        }
    }

    #[test]
    fn keys_that_somebody_may_have_meant_something_by_are_refused() {
        for (key, why) in [
            (format!("drop/{TENANT}"), UnknownKey::Form),
            (format!("drop/{TENANT}/full"), UnknownKey::Form),
            (format!("drop/{TENANT}/Full/a.json"), UnknownKey::Form),
            (format!("drop/{TENANT}//full/a.json"), UnknownKey::Form),
            (format!("drop//{TENANT}/full/a.json"), UnknownKey::Form),
            (format!("drop/{TENANT}/full//a.csv"), UnknownKey::Ending),
            (format!("drop/{TENANT}/all/a.json"), UnknownKey::Form),
            ("drop/AAAAAAAA-1111-4111-8111-111111111111/full/a.json".to_owned(), UnknownKey::Form),
            ("drop/11111111111141118111111111111111/full/a.json".to_owned(), UnknownKey::Form),
            ("drop/pharmacy/full/a.json".to_owned(), UnknownKey::Form),
            (format!("drop/{TENANT}/full/a\0.json"), UnknownKey::Control),
            (format!("drop/{TENANT}/full/a\tb\u{1}.json"), UnknownKey::Control),
            (format!("drop/{TENANT}/full/a"), UnknownKey::Ending),
            (format!("drop/{TENANT}/full/a.csv"), UnknownKey::Ending),
            (format!("drop/{TENANT}/full/a.json.zip"), UnknownKey::Ending),
            (format!("drop/{TENANT}/full/a.gz"), UnknownKey::Ending),
            (format!("drop/{TENANT}/full/{}.json", "é".repeat(160)), UnknownKey::Length),
        ] {
            assert_eq!(DropKey::read(&key), Err(DropKeyError::Unknown(why)), "{key}");
        }
        assert!(read(&format!("full/{}.json", "é".repeat(150))).is_ok());
    }

    #[test]
    fn a_key_that_is_not_understood_may_still_name_its_tenant() {
        assert_eq!(tenant_of(&format!("drop/{TENANT}/all/a\0.csv")), TENANT.parse().ok());
        for key in [format!("drop/{TENANT}"), format!("{TENANT}/a"), "drop/pharmacy/full/a.json".to_owned()] {
            assert_eq!(tenant_of(&key), None, "{key}");
        }
    }

    #[test]
    fn results_lie_beside_their_objects() {
        let key = format!("drop/{TENANT}/full/a/b.json");
        assert_eq!(result_key(&key), format!("drop-results/{TENANT}/full/a/b.json.json"));
        assert_eq!(errors_key(&key), format!("drop-results/{TENANT}/full/a/b.json.errors.ndjson"));
    }

    proptest! {
        #[test]
        fn what_is_read_leaves_room_for_its_result(key in "\\PC{0,1100}") {
            let key = format!("drop/{TENANT}/full/{key}.json");
            if DropKey::read(&key).is_ok() {
                prop_assert!(errors_key(&key).len() <= 1024);
            }
        }
    }
}
