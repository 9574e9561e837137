use catalog::{BatchRow, ChunkingOutcome, Database, Seal, SealOutcome, SealedChunk, WriteOutcome};
use ingestion::Cnpj;
use ingestion::batch::BatchStatus;
use ingestion::chunk::{Chunk, ChunkReady, Generation, Plan, Planner};
use ingestion::payload::{LoadType, MediaType, PayloadMetadata, chunk_key};
use ingestion::product::{
    Attributes, BatchStamp, CnpjAccess, ItemError, ItemErrorCode, MemberSet, PartialKey, Product, ProductKey,
};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

pub(crate) const TENANT: Uuid = Uuid::from_u128(0x1111_1111_1111_4111_8111_1111_1111_1111);
pub(crate) const OTHER_TENANT: Uuid = Uuid::from_u128(0x2222_2222_2222_4222_8222_2222_2222_2222);

/// Item of a test's load in short form: number of the product, number that makes up its content,
/// and the source's date in seconds of the tests' time. `None` means that the source gives no date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) key: u32,
    pub(crate) content: u32,
    pub(crate) updated_at: Option<i64>,
}

impl Item {
    pub(crate) const fn of(key: u32, content: u32) -> Self {
        Self { key, content, updated_at: None }
    }
}

/// Returns the time that is `second` seconds after 2026-11-21 10:00:00 UTC, where the tests' time
/// begins.
pub(crate) fn at(second: i64) -> Timestamp {
    "2026-11-21T10:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second)
}

pub(crate) fn cnpj(number: u32) -> Cnpj {
    Cnpj::from_base(&format!("{:012}", 112_223_330_000_u64 + u64::from(number) + 1)).unwrap()
}

/// Returns the product that an item stands for. Products with even and with odd keys belong to two
/// establishments.
pub(crate) fn product(item: Item) -> Product<'static> {
    Product {
        key: key(item.key),
        attributes: Attributes {
            title: Some(format!("Dipirona {}", item.content).into()),
            source_updated_at: item.updated_at.map(at),
            ..Attributes::default()
        },
        members: MemberSet::default(),
    }
}

fn key(number: u32) -> ProductKey {
    ProductKey { cnpj: cnpj(number % 2), shop_id: 1, product_id: format!("p{number:04}") }
}

/// Batch that a test loads into the database, with its chunks and its items in error.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) batch: BatchRow,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) errors: Vec<ItemError>,
    items: u64,
}

impl Load {
    pub(crate) fn new(load_type: LoadType, received_at: i64) -> Self {
        let batch_id = Uuid::now_v7();
        let metadata = PayloadMetadata {
            batch_id,
            tenant_id: TENANT,
            load_type,
            media_type: MediaType::Json,
            idempotency_key: Uuid::new_v4().to_string(),
            received_at: at(received_at),
            checksum: None,
            trace_id: "trace".to_owned(),
            partial: ingestion::product::PartialPolicy::Warn,
            source: None,
        };
        let payload_uri = format!("s3://payloads/{}", metadata.key());
        let batch = BatchRow { metadata, payload_uri, payload_bytes: None, cnpjs: CnpjAccess::Any };
        Self { batch, chunks: Vec::new(), errors: Vec::new(), items: 0 }
    }

    pub(crate) fn full(received_at: i64) -> Self {
        Self::new(LoadType::Full, received_at)
    }

    pub(crate) fn delta(received_at: i64) -> Self {
        Self::new(LoadType::Delta, received_at)
    }

    /// Changes the load into a load of the tenant [`OTHER_TENANT`].
    pub(crate) fn of_other_tenant(mut self) -> Self {
        self.batch.metadata.tenant_id = OTHER_TENANT;
        self
    }

    pub(crate) const fn tenant(&self) -> Uuid {
        self.batch.metadata.tenant_id
    }

    pub(crate) const fn id(&self) -> Uuid {
        self.batch.metadata.batch_id
    }

    /// Returns the URI of a chunk's object, or that of the first chunk if no chunk has this index.
    pub(crate) fn uri(&self, index: u32) -> String {
        let mut chunks = self.seal().chunks;
        let index = usize::try_from(index).unwrap();
        chunks.swap_remove(if index < chunks.len() { index } else { 0 }).uri
    }

    pub(crate) fn announced(&self, chunk_index: u32, uri: &str) -> ChunkReady {
        let (batch_id, generation) = (self.id(), Generation::FIRST);
        ChunkReady { batch_id, generation, chunk_index, chunk_uri: uri.to_owned(), cnpj: cnpj(0), items: 1 }
    }

    /// Adds a chunk with these products to the load.
    pub(crate) fn products(mut self, products: impl IntoIterator<Item = Product<'static>>) -> Self {
        let stamp = BatchStamp::new(self.batch.metadata.received_at, self.id());
        let plan = Plan { items: 2000.try_into().unwrap(), ..Plan::default() };
        let mut planner = Planner::new(plan, stamp, Generation::FIRST);
        for product in products {
            assert!(planner.push(product, self.items).is_empty(), "more than a chunk");
            self.items += 1;
        }
        let index = u32::try_from(self.chunks.len()).unwrap();
        let [chunk]: [Chunk; 1] = planner.finish().try_into().unwrap();
        self.chunks.push(chunk.numbered(index));
        self
    }

    /// Adds a chunk with the products of these items to the load.
    pub(crate) fn items(self, items: &[Item]) -> Self {
        self.products(items.iter().copied().map(product))
    }

    /// Adds a chunk with the products of these keys to the load. All have the same content and no
    /// source date.
    pub(crate) fn keys(self, keys: impl IntoIterator<Item = u32>) -> Self {
        self.products(keys.into_iter().map(|key| product(Item::of(key, 0))))
    }

    /// Adds an item in error to the load: with the product key of number `readable`, or with a key
    /// that could not be read if `None`.
    pub(crate) fn error(mut self, readable: Option<u32>) -> Self {
        let partial = readable.map(key).map(|key| PartialKey {
            cnpj: Some(key.cnpj),
            shop_id: Some(key.shop_id),
            product_id: Some(key.product_id),
        });
        self.errors.push(ItemError {
            item_index: self.items,
            byte_offset: self.items * 100,
            code: ItemErrorCode::FieldInvalid,
            field: Some("PRICE".into()),
            detail: "not a number".into(),
            key: partial.unwrap_or_default(),
        });
        self.items += 1;
        self
    }

    pub(crate) fn seal(&self) -> Seal {
        let count = |errors: usize| u64::try_from(errors).unwrap();
        let unreadable = self.errors.iter().filter(|error| error.settled_key().is_none());
        let chunks = self.chunks.iter().map(|chunk| SealedChunk {
            index: chunk.index,
            uri: format!("s3://payloads/{}", chunk_key(self.id(), Generation::FIRST, chunk.index)),
            items: chunk.items,
            first_cnpj: chunk.cnpjs()[0],
            cnpjs: chunk.cnpjs(),
        });
        Seal {
            payload_bytes: self.items * 100,
            checksum: "ab".repeat(32),
            items_parsed: self.items,
            items_in_error: count(self.errors.len()),
            unreadable_keys: count(unreadable.count()),
            items_partial: 0,
            errors_omitted: 0,
            errors_uri: None,
            chunks: chunks.collect(),
        }
    }

    /// Records the load in the database as the chunker does: the batch, its items in error, and the
    /// seal that lists its chunks.
    pub(crate) async fn prepare(&self, database: &Database) -> SealOutcome {
        let begun = database.begin_chunking(&self.batch, Plan::default()).await.unwrap();
        assert!(matches!(begun, ChunkingOutcome::Chunk { .. }), "{begun:?}");
        database.record_item_errors(self.id(), Generation::FIRST, &self.errors).await.unwrap();
        database.seal(self.id(), Generation::FIRST, &self.seal()).await.unwrap()
    }

    /// Records the load in the database, and writes all of its chunks. Returns the status of the
    /// batch after the last one.
    pub(crate) async fn run(&self, database: &Database) -> BatchStatus {
        let outcome = self.prepare(database).await;
        let SealOutcome::Sealed(mut status) = outcome else { panic!("{outcome:?}") };
        for chunk in &self.chunks {
            let written = database.write_chunk(chunk).await.unwrap();
            let WriteOutcome::Done { batch, .. } = written else { panic!("{written:?}") };
            status = batch;
        }
        status
    }
}
