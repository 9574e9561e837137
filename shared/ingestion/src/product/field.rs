/// A member of an item that has a column of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Cnpj,
    ShopId,
    ProductId,
    Title,
    Description,
    Ean,
    Brand,
    Ncm,
    Category,
    ImageLink,
    Color,
    Price,
    PricePromo,
    WholesalePrice,
    Quantity,
    Size,
    Measure,
    WholesaleMin,
    Indice,
    Created,
    Updated,
    StockUpdated,
}

impl Field {
    /// How many fields there are.
    pub(super) const COUNT: usize = 22;

    /// Its place in a list of all fields.
    pub(super) const fn place(self) -> usize {
        self as usize
    }

    /// The field of a member's name in any case: the source writes `PRICEPROMO`, others
    /// `pricepromo` or `pricePromo`.
    pub(super) fn of(name: &str) -> Option<Self> {
        let [first, .., last] = name.as_bytes() else { return None };
        // Length, first and last letter leave one field whose name it may be.
        let field = match (name.len(), first.to_ascii_uppercase(), last.to_ascii_uppercase()) {
            (3, b'E', _) => Self::Ean,
            (3, ..) => Self::Ncm,
            (4, b'C', _) => Self::Cnpj,
            (4, ..) => Self::Size,
            (5, b'T', _) => Self::Title,
            (5, b'B', _) => Self::Brand,
            (5, b'C', _) => Self::Color,
            (5, ..) => Self::Price,
            (6, b'S', _) => Self::ShopId,
            (6, ..) => Self::Indice,
            (7, ..) => Self::Measure,
            (8, b'C', _) => Self::Category,
            (8, ..) => Self::Quantity,
            (9, b'P', _) => Self::ProductId,
            (9, ..) => Self::ImageLink,
            (10, ..) => Self::PricePromo,
            (11, ..) => Self::Description,
            (12, ..) => Self::WholesaleMin,
            (14, ..) => Self::WholesalePrice,
            (19, ..) => Self::Created,
            (22, _, b'O') => Self::Updated,
            (22, ..) => Self::StockUpdated,
            _ => return None,
        };
        let known = field.name();
        (name == known || name.eq_ignore_ascii_case(known)).then_some(field)
    }

    /// Its name as the source writes it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cnpj => "CNPJ",
            Self::ShopId => "SHOPID",
            Self::ProductId => "PRODUCTID",
            Self::Title => "TITLE",
            Self::Description => "DESCRIPTION",
            Self::Ean => "EAN",
            Self::Brand => "BRAND",
            Self::Ncm => "NCM",
            Self::Category => "CATEGORY",
            Self::ImageLink => "IMAGELINK",
            Self::Color => "COLOR",
            Self::Price => "PRICE",
            Self::PricePromo => "PRICEPROMO",
            Self::WholesalePrice => "WHOLESALEPRICE",
            Self::Quantity => "QUANTITY",
            Self::Size => "SIZE",
            Self::Measure => "MEASURE",
            Self::WholesaleMin => "WHOLESALEMIN",
            Self::Indice => "INDICE",
            Self::Created => "DATACADASTROPRODUTO",
            Self::Updated => "DATAATUALIZACAOPRODUTO",
            Self::StockUpdated => "DATAATUALIZACAOESTOQUE",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Field; Field::COUNT] = [
        Field::Cnpj,
        Field::ShopId,
        Field::ProductId,
        Field::Title,
        Field::Description,
        Field::Ean,
        Field::Brand,
        Field::Ncm,
        Field::Category,
        Field::ImageLink,
        Field::Color,
        Field::Price,
        Field::PricePromo,
        Field::WholesalePrice,
        Field::Quantity,
        Field::Size,
        Field::Measure,
        Field::WholesaleMin,
        Field::Indice,
        Field::Created,
        Field::Updated,
        Field::StockUpdated,
    ];

    #[test]
    fn each_field_has_a_place_and_is_found_by_its_name_in_any_case() {
        for (place, field) in ALL.into_iter().enumerate() {
            assert_eq!(field.place(), place);
            let name = field.name();
            let mixed: String = name[..1].to_lowercase() + &name[1..];
            for name in [name, &name.to_lowercase(), &mixed] {
                assert_eq!(Field::of(name), Some(field), "{name}");
            }
        }
    }

    proptest! {
        #[test]
        fn other_names_have_no_field(
            field in prop::sample::select(ALL.to_vec()),
            place in any::<prop::sample::Index>(),
            letter in "[A-Za-z \u{131}\u{17f}\u{212a}]?",
        ) {
            let name = field.name();
            let place = place.index(name.len());
            let changed = format!("{}{letter}{}", &name[..place], &name[place + 1..]);
            let expected = ALL.into_iter().find(|field| field.name().eq_ignore_ascii_case(&changed));
            prop_assert_eq!(Field::of(&changed), expected);
        }
    }
}
