-- The end of a full load goes on in slices of establishments, each a short transaction.
ALTER TABLE batches
    -- Products that the batch deactivated so far, while its deactivation is carried out; null before that is allowed.
    ADD COLUMN deactivated_so_far bigint,
    -- Items in error that the report counts and does not list.
    ADD COLUMN errors_omitted bigint NOT NULL DEFAULT 0,
    -- For readers of this table.
    ADD COLUMN items_processed bigint NOT NULL GENERATED ALWAYS AS (inserted + updated + unchanged + stale) STORED;

-- The last establishment of the chunk; null in chunks of earlier versions. With the first it says which chunks a slice has to
-- read.
ALTER TABLE batch_chunks ADD COLUMN last_cnpj character(14) COLLATE "C";

-- Null is not decided, in the batch's present generation. 'skipped' is left to a later full load; 'too_late' says that more
-- has come since than can be looked through.
ALTER TABLE batch_cnpjs
    DROP CONSTRAINT batch_cnpjs_deactivation_check,
    ADD CHECK (deactivation IN ('done', 'skipped', 'too_late')),
    -- Whether the batch is a full load that says of each product of the establishment whether it is there, so that earlier
    -- full loads leave the establishment to it.
    ADD COLUMN decides boolean NOT NULL DEFAULT false;
UPDATE batch_cnpjs c SET decides = true FROM batches b
    WHERE b.batch_id = c.batch_id AND b.load_type = 'full' AND b.items_in_error = 0;
UPDATE batch_cnpjs c SET deactivation = NULL FROM batches b
    WHERE b.batch_id = c.batch_id AND c.deactivation = 'skipped' AND b.deactivation->>'state' = 'pending';
CREATE INDEX deciding_loads_of_cnpj ON batch_cnpjs (cnpj, received_at, batch_id) WHERE decides;
