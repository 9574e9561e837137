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

-- The first 8 bytes of a product key's hash, as `ingestion::product::KeyHash` makes it.
CREATE FUNCTION product_key_hash(cnpj character, shopid integer, productid text) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ('x' || encode(substring(
        sha256(convert_to(cnpj::text, 'UTF8') || int4send(shopid) || convert_to(productid, 'UTF8')) FOR 8
    ), 'hex'))::bit(64)::bigint;
