//! The columns of `products` in the order in which rows are copied, and the statements that name
//! all of them. The attributes are those of [`ATTRIBUTES`].

use std::sync::LazyLock;

use ingestion::product::ATTRIBUTES;

const KEY: [&str; 3] = ["cnpj", "shopid", "productid"];
/// Columns that every version of a product has, after the attributes.
const VERSION: [&str; 5] = ["row_hash", "last_batch_id", "last_received_at", "last_item_index", "active"];
/// Columns that are only set in a new row.
const NEW: [&str; 2] = ["key_hash", "deactivated_at"];
/// First column of a staged row: the location of the row that it replaces.
const PLACE: &str = "place";

/// Table that rows are copied into.
pub(super) struct CopyTarget {
    pub(super) sql: String,
    /// Number of columns of each COPY row.
    pub(super) columns: i16,
}

pub(super) static NEW_PRODUCTS: LazyLock<CopyTarget> =
    LazyLock::new(|| CopyTarget::of("products", &new_row()));
pub(super) static STAGED_PRODUCTS: LazyLock<CopyTarget> =
    LazyLock::new(|| CopyTarget::of("staged_products", &[vec![PLACE], version()].concat()));
pub(super) static SUSPECT_PRODUCTS: LazyLock<CopyTarget> =
    LazyLock::new(|| CopyTarget::of("suspect_products", &new_row()));

/// Creates one table a session, emptied by each commit: a table for each chunk would leave 20 KB in
/// the system catalogue each time.
pub(super) static CREATE_STAGED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "CREATE TEMPORARY TABLE staged_products ON COMMIT DELETE ROWS AS SELECT ctid AS {PLACE}, {} \
         FROM products WITH NO DATA",
        version().join(", ")
    )
});
/// Creates a table with the types of the real one's columns and nothing else, for one transaction,
/// which is never committed.
pub(super) static CREATE_SUSPECTS: LazyLock<String> = LazyLock::new(|| {
    let columns = new_row().join(", ");
    format!(
        "CREATE TEMPORARY TABLE suspect_products ON COMMIT DROP AS SELECT {columns} FROM products WITH NO DATA"
    )
});
/// Updates rows by location, since under the establishments' locks no row moves: neither the index
/// nor the row's lock is needed to find it again.
pub(super) static UPDATE: LazyLock<String> = LazyLock::new(|| {
    let columns: Vec<String> = version().iter().map(|column| format!("{column} = s.{column}")).collect();
    format!(
        "UPDATE products p SET {}, updated_at = now(), \
         deactivated_at = CASE WHEN s.active THEN NULL ELSE p.deactivated_at END \
         FROM staged_products s WHERE p.ctid = s.{PLACE}",
        columns.join(", ")
    )
});

impl CopyTarget {
    fn of(table: &str, columns: &[&str]) -> Self {
        let sql = format!("COPY {table} ({}) FROM STDIN (FORMAT binary)", columns.join(", "));
        Self { sql, columns: i16::try_from(columns.len()).unwrap_or(i16::MAX) }
    }
}

/// Returns the names of the columns of a new product row.
fn new_row() -> Vec<&'static str> {
    [KEY.to_vec(), version(), NEW.to_vec()].concat()
}

/// Returns the columns that a new version of a row sets.
fn version() -> Vec<&'static str> {
    ATTRIBUTES.iter().map(|attribute| attribute.column).chain(VERSION).collect()
}
