-- A chunk that was given up may be written after all, when its batch is final. Its items count, too: `count_usage` adds the
-- difference from what the batch added before. A batch that was final before V16 has added nothing, and still does not.
DROP TRIGGER count_usage ON batches;
CREATE TRIGGER count_usage BEFORE UPDATE OF status ON batches FOR EACH ROW
    WHEN (NEW.status IN ('COMPLETED', 'PARTIAL_FAIL', 'FAILED') AND (OLD.status NOT IN ('COMPLETED', 'PARTIAL_FAIL', 'FAILED')
        OR (OLD.counted IS NOT NULL AND (OLD.inserted, OLD.updated, OLD.unchanged, OLD.stale, OLD.items_failed)
            IS DISTINCT FROM (NEW.inserted, NEW.updated, NEW.unchanged, NEW.stale, NEW.items_failed))))
    EXECUTE FUNCTION count_usage();
