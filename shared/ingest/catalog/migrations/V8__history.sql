-- How far back the history of loads reaches. docs/ingest.md, "What grows", has the rules.
CREATE TABLE batch_history (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    -- Batches that were received before this are too old: nobody asks them anything, nobody writes their chunks, and they are
    -- deleted when they have been final for as long.
    kept_since timestamptz NOT NULL,
    -- When that was said. What it allows to delete is deleted once no transaction is left that may not know it.
    announced_at timestamptz NOT NULL
);
-- No batch is as old.
INSERT INTO batch_history (kept_since, announced_at) VALUES ('1970-01-01T00:00:00Z', now());

ALTER TABLE batches
    -- It is being deleted, and shown to nobody.
    ADD COLUMN is_pruned boolean NOT NULL DEFAULT false,
    -- Items that the database refused and the report does not list; derived from the chunks.
    ADD COLUMN rejected_unlisted bigint NOT NULL DEFAULT 0;
ALTER TABLE batch_chunks ADD COLUMN rejected_unlisted bigint NOT NULL DEFAULT 0;

-- What was final first is deleted first. A batch under way is not in it, so its updates in place stay such.
CREATE INDEX finished_batches ON batches (finished_at) WHERE finished_at IS NOT NULL;
