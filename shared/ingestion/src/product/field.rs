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

/// The longest of their names.
const LONGEST: usize = 22;

impl Field {
    /// How many fields there are.
    pub(super) const COUNT: usize = 22;

    /// Its place in a list of all fields.
    pub(super) const fn place(self) -> usize {
        self as usize
    }

    /// The field of a member's name in any case: the source writes `PRICEPROMO`, others `pricepromo` or `pricePromo`.
    pub(super) fn of(name: &str) -> Option<Self> {
        let mut upper = [0_u8; LONGEST];
        let upper = upper.get_mut(..name.len())?;
        upper.copy_from_slice(name.as_bytes());
        upper.make_ascii_uppercase();
        Some(match &*upper {
            b"CNPJ" => Self::Cnpj,
            b"SHOPID" => Self::ShopId,
            b"PRODUCTID" => Self::ProductId,
            b"TITLE" => Self::Title,
            b"DESCRIPTION" => Self::Description,
            b"EAN" => Self::Ean,
            b"BRAND" => Self::Brand,
            b"NCM" => Self::Ncm,
            b"CATEGORY" => Self::Category,
            b"IMAGELINK" => Self::ImageLink,
            b"COLOR" => Self::Color,
            b"PRICE" => Self::Price,
            b"PRICEPROMO" => Self::PricePromo,
            b"WHOLESALEPRICE" => Self::WholesalePrice,
            b"QUANTITY" => Self::Quantity,
            b"SIZE" => Self::Size,
            b"MEASURE" => Self::Measure,
            b"WHOLESALEMIN" => Self::WholesaleMin,
            b"INDICE" => Self::Indice,
            b"DATACADASTROPRODUTO" => Self::Created,
            b"DATAATUALIZACAOPRODUTO" => Self::Updated,
            b"DATAATUALIZACAOESTOQUE" => Self::StockUpdated,
            _ => return None,
        })
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
