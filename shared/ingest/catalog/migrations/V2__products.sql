-- One row a product, always its latest version. Key columns are ordered by bytes, as chunks are.
CREATE TABLE products (
    cnpj character(14) COLLATE "C" NOT NULL,
    shopid integer NOT NULL,
    productid text COLLATE "C" NOT NULL,

    title text,
    description text,
    ean text,
    brand text,
    ncm text,
    category text,
    imagelink text,
    color text,
    price numeric(14, 4),
    pricepromo numeric(14, 4),
    wholesaleprice numeric(14, 4),
    quantity numeric,
    size numeric,
    measure numeric,
    wholesalemin numeric,
    indice integer,
    source_created_at timestamptz,
    source_updated_at timestamptz,
    extra jsonb,

    -- The first 8 bytes of the key's hash, as batch_chunks.key_hashes has it.
    key_hash bigint NOT NULL,
    -- Over the content, and which item of which batch brought it.
    row_hash bytea NOT NULL,
    last_batch_id uuid NOT NULL,
    last_received_at timestamptz NOT NULL,
    last_item_index bigint NOT NULL,

    active boolean NOT NULL DEFAULT true,
    deactivated_at timestamptz,
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),

    PRIMARY KEY (cnpj, shopid, productid)
);
