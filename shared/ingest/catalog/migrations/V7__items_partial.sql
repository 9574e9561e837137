-- Items that lack members which other items of their payload have: what an item lacks is cleared. Known
-- when the batch is sealed.
ALTER TABLE batches ADD COLUMN items_partial bigint NOT NULL DEFAULT 0;
