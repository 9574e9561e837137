use crate::words::words;

words! {
    /// Meaning of a payload for the products that are not in it.
    LoadType {
        /// Products that are not in the payload are left unchanged.
        Delta = "delta",
        /// Products that are not in the payload are no longer in the catalogue.
        Full = "full",
    }
}

words! {
    /// Framing of the items of a payload.
    MediaType {
        /// The payload is one array of items.
        Json = "application/json",
        /// The payload has an item a line.
        NdJson = "application/x-ndjson",
    }
}
