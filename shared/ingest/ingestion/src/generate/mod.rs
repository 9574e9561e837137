//! Realistic catalogues from a seed, for tests, benchmarks and demonstrations. Equal settings make
//! equal catalogues.
//!
//! ```
//! use ingestion::generate::{Catalogue, Layout};
//!
//! let catalogue = Catalogue { items: 3, ..Catalogue::default() };
//! let payload = catalogue.payload(Layout::Array);
//! assert_eq!(payload, catalogue.payload(Layout::Array));
//! ```

mod random;
mod words;

use std::fmt::Write as _;

use crate::Cnpj;
use crate::product::{ATTRIBUTES, Kind};
use random::Random;

/// Layout of the text of a generated catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A JSON array on a single line.
    Array,
    /// A JSON array, indented over many lines.
    Pretty,
    /// NDJSON: one item on each line.
    Lines,
}

/// Settings of a generated catalogue. Shares of items are in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Catalogue {
    /// Seed of all random values of the catalogue.
    pub seed: u64,
    /// Number of items of the payload, faulty ones included.
    pub items: u32,
    /// Number of establishments over which the items are spread.
    pub establishments: u32,
    /// Share of faulty items in thousandths. The kinds of faults alternate.
    pub bad: u32,
    /// Share of items in thousandths that repeat the key of an earlier item.
    pub duplicate: u32,
    /// Edition of the catalogue, from 0. In each edition, the share `newer` of the products has
    /// another price and a later date than in the previous edition.
    pub edition: u32,
    /// Share of products in thousandths that change from one edition to the next.
    pub newer: u32,
}

impl Default for Catalogue {
    fn default() -> Self {
        Self { seed: 1, items: 5000, establishments: 1, bad: 0, duplicate: 0, edition: 0, newer: 100 }
    }
}

impl Catalogue {
    /// Returns the establishments of the catalogue, some of which have letters in their CNPJ.
    #[must_use]
    pub fn cnpjs(&self) -> Vec<Cnpj> {
        (0..self.establishments.max(1)).filter_map(|index| self.cnpj(index)).collect()
    }

    /// Returns the whole catalogue as a payload in this layout.
    #[must_use]
    pub fn payload(&self, layout: Layout) -> Vec<u8> {
        let mut payload = Vec::new();
        self.write(layout, |part| payload.extend_from_slice(part));
        payload
    }

    /// Passes the catalogue to `sink` in parts of at most one item.
    pub fn write(&self, layout: Layout, mut sink: impl FnMut(&[u8])) {
        let (open, between, close): (&str, &str, &str) = match layout {
            Layout::Array => ("[", ",", "]"),
            Layout::Pretty => ("[\n", ",\n", "\n]\n"),
            Layout::Lines => ("", "\n", "\n"),
        };
        sink(open.as_bytes());
        for index in 0..self.items {
            if index > 0 {
                sink(between.as_bytes());
            }
            sink(self.item(index, layout).as_bytes());
        }
        sink(close.as_bytes());
    }

    /// Returns the item with this index, as JSON text in this layout.
    #[must_use]
    pub fn item(&self, index: u32, layout: Layout) -> String {
        let mut random = self.random(u64::from(index));
        let bad = random.share(self.bad);
        let number = if index > 0 && random.share(self.duplicate) { random.below(index) } else { index };
        let mut members = self.members(number);
        if bad {
            spoil(&mut members, index);
        }
        let text = write_members(&members, layout);
        // Broken off, as by a source that died, unless that would damage another item.
        if bad && layout == Layout::Lines && index.is_multiple_of(2) {
            return text.get(..text.floor_char_boundary(text.len() / 2)).unwrap_or_default().to_owned();
        }
        text
    }

    fn cnpj(&self, index: u32) -> Option<Cnpj> {
        let mut random = self.random(u64::from(index) + (1 << 40));
        let letters = index % 4 == 3;
        let root: String = (0..8).map(|_| random.base_character(letters)).collect();
        Cnpj::from_base(&format!("{root}{:04}", 1 + index % 9000)).ok()
    }

    fn random(&self, stream: u64) -> Random {
        Random::new(self.seed, stream)
    }

    /// Returns the number of editions, up to the catalogue's own, in which the product with this
    /// number changed.
    fn changes(&self, number: u32) -> u32 {
        let mut changes = 0;
        for edition in 1..=self.edition {
            let mut random = self.random(u64::from(number) + (u64::from(edition) << 41));
            changes += u32::from(random.share(self.newer));
        }
        changes
    }

    /// Builds a product's members: first those with values like a real source's, then the other
    /// members that the table of attributes has.
    fn members(&self, number: u32) -> Vec<(&'static str, String)> {
        let mut members = self.special_members(number);
        let mut random = self.random(u64::from(number) + (1 << 38));
        for attribute in ATTRIBUTES {
            for name in attribute.members() {
                if members.iter().all(|(member, _)| *member != name) {
                    members.push((name, plain(attribute.kind, &mut random)));
                }
            }
        }
        members
    }

    fn special_members(&self, number: u32) -> Vec<(&'static str, String)> {
        let mut random = self.random(u64::from(number) + (1 << 39));
        let cnpj = self.cnpj(number % self.establishments.max(1)).map(String::from).unwrap_or_default();
        let changes = self.changes(number);
        let cents = 199 + random.below(30_000) + changes * 7;
        let brand = random.pick(words::BRANDS);
        let title = format!(
            "{} {} {}",
            random.pick(words::PRODUCTS),
            random.pick(words::STRENGTHS),
            random.pick(words::PACKS)
        );
        let description = (0..24).map(|_| random.pick(words::PROSE)).collect::<Vec<_>>().join(" ");
        let quantity = random.below(500);
        let ean = ean(&format!("789{:09}", random.below(1_000_000_000)));
        let day = 1 + random.below(28);
        vec![
            ("CNPJ", text(&cnpj)),
            ("SHOPID", (1 + number % self.establishments.max(1)).to_string()),
            ("PRODUCTID", text(&(10_000 + number).to_string())),
            ("TITLE", text(&title)),
            ("DESCRIPTION", text(&format!("{title}, {brand}: {description}."))),
            ("EAN", text(&ean)),
            ("BRAND", text(brand)),
            ("NCM", text(&format!("3004{:04}", random.below(10_000)))),
            ("CATEGORY", text(random.pick(words::CATEGORIES))),
            ("IMAGELINK", text(&format!("https://imagens.example/produtos/{ean}.jpg"))),
            ("COLOR", "null".to_owned()),
            ("PRICE", text(&money(cents))),
            ("PRICEPROMO", money(cents - cents / 10)),
            ("WHOLESALEPRICE", money(cents - cents / 5)),
            ("QUANTITY", format!("{quantity}.000")),
            ("SIZE", "1".to_owned()),
            ("MEASURE", "1".to_owned()),
            ("WHOLESALEMIN", "6".to_owned()),
            ("INDICE", number.to_string()),
            ("DATACADASTROPRODUTO", text(&format!("2023-{:02}-{day:02} 08:30:00", 1 + number % 12))),
            ("DATAATUALIZACAOPRODUTO", text(&format!("2026-01-{day:02} 10:{:02}:00", changes % 60))),
            ("DATAATUALIZACAOESTOQUE", text(&format!("2025-12-{day:02} 18:00:00"))),
            ("REGISTROMS", text(&format!("1{:012}", random.below(1_000_000_000)))),
        ]
    }
}

/// Returns a random value of this kind, as JSON text.
fn plain(kind: Kind, random: &mut Random) -> String {
    match kind {
        Kind::Text => text(random.pick(words::PROSE)),
        Kind::Price | Kind::Decimal => money(random.below(30_000)),
        Kind::Integer => random.below(1000).to_string(),
        Kind::Time => text(&format!("2024-01-{:02} 08:30:00", 1 + random.below(28))),
        Kind::Json => "null".to_owned(),
    }
}

/// Changes an item's members so that it has one of the faults of real sources, by its index.
fn spoil(members: &mut Vec<(&'static str, String)>, index: u32) {
    let (name, value) = match index % 5 {
        0 => ("CNPJ", text("11222333000182")),
        1 => ("PRICE", text("12,90")),
        2 => ("DATAATUALIZACAOPRODUTO", text("2026-02-30 10:00:00")),
        3 => {
            members.retain(|(name, _)| *name != "PRODUCTID");
            return;
        }
        _ => ("TITLE", text("caixa com 20\0 comprimidos")),
    };
    if let Some((_, member)) = members.iter_mut().find(|(member, _)| *member == name) {
        *member = value;
    }
}

fn write_members(members: &[(&'static str, String)], layout: Layout) -> String {
    let (open, between, colon, close) = match layout {
        Layout::Array | Layout::Lines => ("{", ",", ":", "}"),
        Layout::Pretty => ("  {\n    ", ",\n    ", ": ", "\n  }"),
    };
    let mut json = open.to_owned();
    for (index, (name, value)) in members.iter().enumerate() {
        let before = if index == 0 { "" } else { between };
        // Writing to a string cannot fail.
        let _ = write!(json, "{before}\"{name}\"{colon}{value}");
    }
    json.push_str(close);
    json
}

fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn money(cents: u32) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// Completes twelve digits to an EAN-13 with its check digit.
fn ean(digits: &str) -> String {
    let sum: u32 = digits
        .bytes()
        .zip([1, 3].into_iter().cycle())
        .map(|(digit, weight)| u32::from(digit - b'0') * weight)
        .sum();
    format!("{digits}{}", (10 - sum % 10) % 10)
}

#[cfg(test)]
mod tests;
