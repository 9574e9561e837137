use crate::words::words;

words! {
    /// Load type of a batch, which says what happens to products that the payload does not contain.
    LoadType {
        /// Products that the payload does not contain are left unchanged.
        Delta = "delta",
        /// Products that the payload does not contain are no longer in the catalogue, and become
        /// inactive.
        Full = "full",
    }
}

words! {
    /// Media type of a payload, which says how its items are framed.
    MediaType {
        /// The payload is a single JSON array of items.
        Json = "application/json",
        /// The payload has one item on each line.
        NdJson = "application/x-ndjson",
    }
}
