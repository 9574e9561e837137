-- Counters that only grow, whatever is deleted: batches that became final, and what became of their items. docs/metrics.md
-- describes them. A final batch adds rows, which wait for no other transaction. `reconcile` adds them up.
CREATE TABLE metric_additions (
    metric text NOT NULL,
    label text NOT NULL,
    added bigint NOT NULL
);
CREATE TABLE metric_totals (
    metric text NOT NULL,
    label text NOT NULL,
    total bigint NOT NULL,
    PRIMARY KEY (metric, label)
);

CREATE FUNCTION count_final_batch() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    seconds double precision := GREATEST(0, extract(epoch FROM now()
        - CASE WHEN NEW.generation = 1 THEN NEW.received_at ELSE NEW.generation_began_at END));
BEGIN
    INSERT INTO metric_additions (metric, label, added)
    SELECT metric, label, added FROM (VALUES
        ('batches', NEW.status, 1::bigint),
        ('batch_duration', (ARRAY['1', '5', '15', '30', '60', '120', '300', '900', '1800', '3600', '14400', '86400', 'inf'])
            [width_bucket(seconds, ARRAY[1, 5, 15, 30, 60, 120, 300, 900, 1800, 3600, 14400, 86400]::double precision[]) + 1], 1),
        ('batch_milliseconds', '', (seconds * 1000)::bigint),
        ('items', 'inserted', NEW.inserted),
        ('items', 'updated', NEW.updated),
        ('items', 'unchanged', NEW.unchanged),
        ('items', 'stale', NEW.stale),
        ('items', 'failed', NEW.items_failed),
        ('item_errors', 'NOT_LISTED', NEW.errors_omitted + NEW.rejected_unlisted)
    ) AS counted (metric, label, added) WHERE added > 0
    UNION ALL
    SELECT 'item_errors', code, count(*) FROM batch_item_errors WHERE batch_id = NEW.batch_id GROUP BY code;
    RETURN NULL;
END $$;

CREATE TRIGGER count_final_batch AFTER UPDATE OF status ON batches FOR EACH ROW
    WHEN (OLD.status NOT IN ('COMPLETED', 'PARTIAL_FAIL', 'FAILED', 'EXPIRED')
        AND NEW.status IN ('COMPLETED', 'PARTIAL_FAIL', 'FAILED', 'EXPIRED'))
    EXECUTE FUNCTION count_final_batch();
