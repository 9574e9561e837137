//! Tests that the table `products` has a column for each product attribute, and that writes fill
//! it.

use std::borrow::Cow;
use std::convert::Infallible;

use ingestion::batch::{BatchStatus, Changes};
use ingestion::product::{
    ATTRIBUTES, Attribute, AttributeReader, AttributeWriter, Attributes, Decimal, Kind, Price, Product,
};
use jiff::Timestamp;
use serde_json::Value;

use crate::support::{Item, Load, at, cnpj, database_test, product};

/// Names of the columns of `products` that hold no product attribute.
const OTHER_COLUMNS: [&str; 12] = [
    "cnpj",
    "shopid",
    "productid",
    "key_hash",
    "row_hash",
    "last_batch_id",
    "last_received_at",
    "last_item_index",
    "active",
    "deactivated_at",
    "first_seen_at",
    "updated_at",
];

/// Source of test values that gives each attribute an edge value of its type. The number of reads
/// so far selects the value in the list of the type.
#[derive(Default)]
struct Edges {
    given: usize,
}

impl Edges {
    fn next<T: Copy, const N: usize>(&mut self, edges: [T; N]) -> T {
        self.given += 1;
        edges[self.given % N]
    }
}

impl AttributeReader<'static> for Edges {
    type Error = Infallible;

    fn text(&mut self, attribute: &'static Attribute) -> Result<Option<Cow<'static, str>>, Infallible> {
        let edge = self.next(["Ácido \"acetil\" \\ 100 mg", "linha\n\ttabulação", "7891234567895", ""]);
        // Only the empty ones are alike.
        let text = if edge.is_empty() { String::new() } else { format!("{} {edge}", attribute.name) };
        Ok(Some(text.into()))
    }

    fn price(&mut self, _: &'static Attribute) -> Result<Option<Price>, Infallible> {
        let edge = self.next([199_900, -1, 99_999_999_999_999]);
        Ok(Some(Price::from_ten_thousandths(edge).unwrap()))
    }

    fn decimal(&mut self, _: &'static Attribute) -> Result<Option<Decimal>, Infallible> {
        let edge = self.next([
            "0",
            "99999999999999999999999999999999999999",
            "-0.00000000000000000000000000000000000012",
            "123456789012345678.90123",
        ]);
        Ok(Some(edge.parse().unwrap()))
    }

    fn integer(&mut self, _: &'static Attribute) -> Result<Option<i32>, Infallible> {
        Ok(Some(self.next([i32::MIN, i32::MAX])))
    }

    fn time(&mut self, _: &'static Attribute) -> Result<Option<Timestamp>, Infallible> {
        Ok(Some(self.next([at(-1_000_000_000), "2200-02-28T23:59:59.999999Z".parse().unwrap()])))
    }

    fn json(&mut self, _: &'static Attribute) -> Result<Option<Cow<'static, str>>, Infallible> {
        Ok(Some(r#"{"LAB":"x","N":[1,2.5,null]}"#.into()))
    }
}

/// Returns an edge value for every attribute. The source date is later than those of the tests'
/// other items.
fn attributes() -> Attributes<'static> {
    let Ok(attributes) = Attributes::read(&mut Edges::default());
    Attributes { source_updated_at: Some("2026-11-21T10:00:00.123456Z".parse().unwrap()), ..attributes }
}

/// Expected values of the attributes' columns as text, in the order of the attributes. `None` means
/// NULL.
#[derive(Default)]
struct Expected(Vec<Option<String>>);

impl AttributeWriter for Expected {
    fn absent(&mut self, _: &'static Attribute) {
        self.0.push(None);
    }

    fn text(&mut self, _: &'static Attribute, text: &str) {
        self.0.push(Some(text.to_owned()));
    }

    fn price(&mut self, _: &'static Attribute, price: Price) {
        self.0.push(Some(price.to_string()));
    }

    fn decimal(&mut self, _: &'static Attribute, number: Decimal) {
        self.0.push(Some(number.to_string()));
    }

    fn integer(&mut self, _: &'static Attribute, number: i32) {
        self.0.push(Some(number.to_string()));
    }

    fn time(&mut self, _: &'static Attribute, time: Timestamp) {
        self.0.push(Some(time.as_microsecond().to_string()));
    }

    fn json(&mut self, _: &'static Attribute, json: &str) {
        self.0.push(Some(json.parse::<Value>().unwrap().to_string()));
    }
}

/// Returns the SQL expression that shows an attribute's column as text. A time is shown in
/// microseconds since 1970.
fn shown(attribute: &Attribute) -> String {
    let column = attribute.column;
    match attribute.kind {
        Kind::Time => format!("(extract(epoch FROM {column}) * 1000000)::bigint::text"),
        _ => format!("{column}::text"),
    }
}

fn columns() -> Vec<&'static str> {
    ATTRIBUTES.iter().map(|attribute| attribute.column).collect()
}

#[test]
fn the_table_has_a_column_for_each_attribute_in_the_order_of_the_list() {
    database_test(async |test| {
        let rows = test
            .rows(
                "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute \
                 WHERE attrelid = 'products'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            )
            .await;
        let table: Vec<(String, String)> = rows
            .iter()
            .map(|row| (row.get(0), row.get(1)))
            .filter(|(name, _): &(String, String)| !OTHER_COLUMNS.contains(&name.as_str()))
            .collect();
        let list = ATTRIBUTES.iter().map(|attribute| {
            let of_kind = match attribute.kind {
                Kind::Text => "text",
                Kind::Price => "numeric(14,4)",
                Kind::Decimal => "numeric",
                Kind::Integer => "integer",
                Kind::Time => "timestamp with time zone",
                Kind::Json => "jsonb",
            };
            (attribute.column.to_owned(), of_kind.to_owned())
        });
        assert_eq!(table, list.collect::<Vec<_>>(), "add a migration, and append to the list of attributes");
    });
}

#[test]
fn every_column_comes_back_as_it_was_sent() {
    database_test(async |test| {
        let sent = Product { attributes: attributes(), ..product(Item::of(1, 1)) };
        let load = Load::delta(86_400).products([sent]).products([product(Item::of(2, 2))]);
        let database = test.open();
        assert_eq!(load.run(&database).await, BatchStatus::Completed);
        let select: Vec<String> = ATTRIBUTES.iter().map(shown).collect();
        let select = format!("SELECT {} FROM products WHERE productid = 'p0001'", select.join(", "));
        let row = &test.rows(&select).await[0];
        let mut values: Vec<Option<String>> = (0..ATTRIBUTES.len()).map(|column| row.get(column)).collect();
        for (value, attribute) in values.iter_mut().zip(ATTRIBUTES) {
            if attribute.kind == Kind::Json {
                *value = value.take().map(|json| json.parse::<Value>().unwrap().to_string());
            }
        }
        let mut expected = Expected::default();
        attributes().write(&mut expected);
        assert_eq!(values, expected.0);
        // What was not sent is absent.
        let absent = columns().join(", ");
        let absent = format!("SELECT num_nulls({absent})::bigint FROM products WHERE productid = 'p0002'");
        assert_eq!(test.number(&absent).await, i64::try_from(ATTRIBUTES.len()).unwrap() - 1);
    });
}

#[test]
fn a_new_row_says_which_item_brought_it() {
    database_test(async |test| {
        let load = Load::delta(86_400).products([product(Item::of(1, 1)), product(Item::of(2, 2))]);
        assert_eq!(load.run(&test.open()).await, BatchStatus::Completed);
        test.execute("SET timezone = 'UTC'").await;
        let rows = test
            .rows(
                "SELECT shopid::text, cnpj::text, active::text, deactivated_at::text, last_item_index::text, \
                 last_received_at::text, last_batch_id::text FROM products WHERE productid = 'p0001'",
            )
            .await;
        let values: Vec<Option<String>> = (0..7).map(|column| rows[0].get(column)).collect();
        let (batch_id, cnpj) = (load.id().to_string(), cnpj(1).to_string());
        let expected = [
            Some("1"),
            Some(cnpj.as_str()),
            Some("true"),
            None,
            Some("0"),
            Some("2026-11-22 10:00:00+00"),
            Some(batch_id.as_str()),
        ];
        assert_eq!(values.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
        // By their key's hash, products are found in their chunks.
        let hashes =
            "SELECT count(*) FROM products WHERE key_hash IN (SELECT unnest(key_hashes) FROM batch_chunks)";
        assert_eq!(test.number(hashes).await, 2);
    });
}

#[test]
fn an_update_writes_every_column_that_an_insert_writes() {
    database_test(async |test| {
        let database = test.open();
        Load::delta(-100).items(&[Item::of(3, 9)]).run(&database).await;
        let sent = |key| Product { attributes: attributes(), ..product(Item::of(key, 1)) };
        let load = Load::delta(86_400).products([sent(1), sent(3)]);
        load.prepare(&database).await;
        let written = database.write_chunk(&load.chunks[0]).await.unwrap();
        let catalog::WriteOutcome::Done { result, .. } = written else { panic!("{written:?}") };
        assert_eq!(result.changes(), Changes { inserted: 1, updated: 1, ..Changes::default() });
        let different = format!(
            "SELECT count(DISTINCT ({}, row_hash, last_batch_id, last_received_at, active, deactivated_at, \
             last_item_index - CASE productid WHEN 'p0003' THEN 1 ELSE 0 END)) FROM products",
            columns().join(", ")
        );
        assert_eq!(test.number(&different).await, 1);
    });
}
