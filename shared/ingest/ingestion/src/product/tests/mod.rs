mod items;
mod pinned;
mod properties;

use jiff::tz::{Offset, TimeZone};

use super::*;

fn rules() -> ItemRules {
    ItemRules {
        zone: TimeZone::fixed(Offset::constant(-3)),
        cnpjs: CnpjAccess::Any,
        partial: PartialPolicy::Warn,
    }
}

fn parse(item: &[u8]) -> Result<Product<'_>, ItemError> {
    rules().parse(ItemPlace { index: 17, offset: 10_993 }, item)
}
