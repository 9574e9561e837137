-- Batches, payload bytes and items of each tenant and day (UTC), for GET /v1/usage. docs/usage.md describes them. A batch belongs
-- to the day on which it was received. When it becomes final, it adds a row, which waits for no other transaction. After a replay
-- it adds the difference from what it added before. `reconcile` adds the rows up. Both tables outlive the batches.
CREATE TABLE usage_additions (
    tenant_id uuid NOT NULL,
    day date NOT NULL,
    batches bigint NOT NULL,
    payload_bytes bigint NOT NULL,
    inserted bigint NOT NULL,
    updated bigint NOT NULL,
    unchanged bigint NOT NULL,
    stale bigint NOT NULL,
    failed bigint NOT NULL
);
CREATE TABLE usage_days (LIKE usage_additions, PRIMARY KEY (day, tenant_id));

-- What the batch has added, in the order of the columns above; null before its first end.
ALTER TABLE batches ADD COLUMN counted bigint[];

CREATE FUNCTION count_usage() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    known bigint[] := COALESCE(OLD.counted, ARRAY[0, 0, 0, 0, 0, 0, 0]::bigint[]);
    total bigint[] := ARRAY[1, COALESCE(NEW.payload_bytes, 0), NEW.inserted, NEW.updated, NEW.unchanged, NEW.stale,
        NEW.items_failed]::bigint[];
BEGIN
    INSERT INTO usage_additions (tenant_id, day, batches, payload_bytes, inserted, updated, unchanged, stale, failed)
    VALUES (NEW.tenant_id, (NEW.received_at AT TIME ZONE 'UTC')::date, total[1] - known[1], total[2] - known[2],
        total[3] - known[3], total[4] - known[4], total[5] - known[5], total[6] - known[6], total[7] - known[7]);
    NEW.counted := total;
    RETURN NEW;
END $$;

-- Before the change, so that the row keeps what it added. A batch that expired was never received.
CREATE TRIGGER count_usage BEFORE UPDATE OF status ON batches FOR EACH ROW
    WHEN (OLD.status NOT IN ('COMPLETED', 'PARTIAL_FAIL', 'FAILED') AND NEW.status IN ('COMPLETED', 'PARTIAL_FAIL', 'FAILED'))
    EXECUTE FUNCTION count_usage();
