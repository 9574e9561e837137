ALTER TABLE batches
    -- How far the guard looked through a full load of more than a slice, in its present generation: up to which establishment,
    -- how many products are missing there, and whether it holds for one of them.
    ADD COLUMN judged_to character(14) COLLATE "C",
    ADD COLUMN judged_missing bigint NOT NULL DEFAULT 0,
    ADD COLUMN judged_held boolean NOT NULL DEFAULT false,
    -- Whether the objects of a final batch have the tag by which they expire. Batches of earlier versions count as tagged.
    ADD COLUMN objects_let_go boolean NOT NULL DEFAULT true;
ALTER TABLE batches ALTER COLUMN objects_let_go SET DEFAULT false;
UPDATE batches SET objects_let_go = false WHERE status IN ('RECEIVED', 'CHUNKING', 'PROCESSING');

-- Final batches whose objects are still to be tagged: few rows, whatever the age of the installation.
CREATE INDEX batches_to_let_go ON batches (finished_at) WHERE finished_at IS NOT NULL AND NOT objects_let_go;
