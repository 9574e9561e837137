-- What was received, how far it is, and what came of it. docs/ingest.md explains the states.
CREATE TABLE batches (
    batch_id uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    load_type text NOT NULL CHECK (load_type IN ('delta', 'full')),
    media_type text NOT NULL,
    idempotency_key text NOT NULL,
    trace_id text NOT NULL,
    received_at timestamptz NOT NULL,
    -- The establishments that the tenant might load when the batch was accepted; null for any.
    allowed_cnpjs text[],

    payload_uri text NOT NULL,
    payload_bytes bigint,
    payload_checksum text,

    status text NOT NULL CHECK (status IN ('AWAITING_UPLOAD', 'RECEIVED', 'CHUNKING', 'PROCESSING', 'COMPLETED',
                                           'PARTIAL_FAIL', 'FAILED', 'EXPIRED')),
    generation integer NOT NULL DEFAULT 1 CHECK (generation > 0),
    -- The plan by which the payload is cut, pinned by the first run of the chunker.
    planner smallint,
    chunk_items smallint,
    started_at timestamptz,
    sealed_at timestamptz,
    finished_at timestamptz,

    -- What the payload held, known when it is sealed.
    items_parsed bigint NOT NULL DEFAULT 0,
    items_in_error bigint NOT NULL DEFAULT 0,
    unreadable_keys bigint NOT NULL DEFAULT 0,

    -- Derived from the chunks, in each transaction that changes one.
    items_failed bigint NOT NULL DEFAULT 0,
    inserted bigint NOT NULL DEFAULT 0,
    updated bigint NOT NULL DEFAULT 0,
    unchanged bigint NOT NULL DEFAULT 0,
    stale bigint NOT NULL DEFAULT 0,
    chunks_pending bigint NOT NULL DEFAULT 0,
    chunks_done bigint NOT NULL DEFAULT 0,
    chunks_failed bigint NOT NULL DEFAULT 0,

    deactivation jsonb NOT NULL,
    -- {code, detail, byte_offset} where the batch failed as a whole.
    error jsonb,

    UNIQUE (tenant_id, idempotency_key)
);

-- A tenant's batches, newest first: a batch's id begins with its time of receipt.
CREATE INDEX batches_of_tenant ON batches (tenant_id, batch_id DESC);
-- What is under way: few rows, whatever the age of the installation.
CREATE INDEX batches_under_way ON batches (status, received_at)
    WHERE status IN ('RECEIVED', 'CHUNKING', 'PROCESSING');

CREATE TABLE batch_chunks (
    chunk_id uuid PRIMARY KEY,
    batch_id uuid NOT NULL REFERENCES batches ON DELETE CASCADE,
    generation integer NOT NULL CHECK (generation > 0),
    chunk_index integer NOT NULL CHECK (chunk_index >= 0),
    chunk_uri text NOT NULL,
    first_cnpj character(14) COLLATE "C" NOT NULL,
    status text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'DONE', 'FAILED')),
    attempts integer NOT NULL DEFAULT 0,
    items bigint NOT NULL,

    inserted bigint NOT NULL DEFAULT 0,
    updated bigint NOT NULL DEFAULT 0,
    unchanged bigint NOT NULL DEFAULT 0,
    stale bigint NOT NULL DEFAULT 0,
    rejected bigint NOT NULL DEFAULT 0,

    -- Which products the chunk contained, and with what content: for each key the first 8 bytes of its hash and, at the same place,
    -- of its content's. There from the moment the chunk is done.
    key_hashes bigint[],
    row_hashes bigint[],

    last_error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    done_at timestamptz,

    UNIQUE (batch_id, chunk_index)
);
-- Hashes do not compress, so nobody should try.
ALTER TABLE batch_chunks ALTER COLUMN key_hashes SET STORAGE EXTERNAL, ALTER COLUMN row_hashes SET STORAGE EXTERNAL;

-- The establishments that a batch has products of.
CREATE TABLE batch_cnpjs (
    batch_id uuid NOT NULL REFERENCES batches ON DELETE CASCADE,
    cnpj character(14) COLLATE "C" NOT NULL,
    -- The batch's, so that the batches of an establishment can be found in the order of their receipt.
    received_at timestamptz NOT NULL,
    -- What a full load decided about the products of this establishment that it did not contain: 'done' or 'skipped'.
    deactivation text CHECK (deactivation IN ('done', 'skipped')),
    PRIMARY KEY (batch_id, cnpj)
);
CREATE INDEX batches_of_cnpj ON batch_cnpjs (cnpj, received_at, batch_id);

CREATE TABLE batch_item_errors (
    batch_id uuid NOT NULL REFERENCES batches ON DELETE CASCADE,
    item_index bigint NOT NULL,
    byte_offset bigint NOT NULL,
    code text NOT NULL,
    field text,
    detail text NOT NULL,
    -- The item's key as far as it could be read, and the hash of one that was read whole.
    key jsonb NOT NULL,
    key_hash bigint,
    PRIMARY KEY (batch_id, item_index)
);
