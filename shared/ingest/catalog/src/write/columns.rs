//! The columns of `products` in the order in which rows are copied, and the statements that name
//! all of them. The attributes are those of [`ATTRIBUTES`].

use std::sync::LazyLock;

use ingestion::product::ATTRIBUTES;

const KEY: [&str; 3] = ["cnpj", "shopid", "productid"];
/// Columns of a product row that each new version sets, in addition to the attributes.
const VERSION: [&str; 5] = ["row_hash", "last_batch_id", "last_received_at", "last_item_index", "active"];
/// Columns of a product row that are copied only into a new row.
const NEW: [&str; 2] = ["key_hash", "deactivated_at"];
/// Name of the first column of the staging table: the location of the row to update.
const PLACE: &str = "place";

/// Table that rows are copied into with PostgreSQL's COPY.
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

/// Statement that creates the staging table for changed rows, once a session; each commit empties
/// it. A table for each chunk would leave 20 KB in the system catalogue each time.
pub(super) static CREATE_STAGED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "CREATE TEMPORARY TABLE staged_products ON COMMIT DELETE ROWS AS SELECT ctid AS {PLACE}, {} \
         FROM products WITH NO DATA",
        version().join(", ")
    )
});
/// Statement that creates a table with the column types of `products` but without its constraints
/// and indexes, for the transaction that finds refused rows and is never committed.
pub(super) static CREATE_SUSPECTS: LazyLock<String> = LazyLock::new(|| {
    let columns = new_row().join(", ");
    format!(
        "CREATE TEMPORARY TABLE suspect_products ON COMMIT DROP AS SELECT {columns} FROM products WITH NO DATA"
    )
});
/// Statement that updates product rows from the staging table by their location. While the
/// establishments are locked, no row moves, so the statement finds each row without an index and
/// without row locks.
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

/// Returns the names of the columns that an update of a product row sets.
fn version() -> Vec<&'static str> {
    ATTRIBUTES.iter().map(|attribute| attribute.column).chain(VERSION).collect()
}
