-- The dropped object that a batch was made of: its bucket, key, ETag and version.
ALTER TABLE batches ADD COLUMN source jsonb;

-- A sender looks for the batches of its object. Batches that came by requests are not in the index.
CREATE INDEX batches_of_source ON batches (tenant_id, (source->>'key'), batch_id) WHERE source IS NOT NULL;
