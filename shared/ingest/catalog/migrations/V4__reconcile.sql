-- For the scheduled look at what stopped on its way (docs/ingest.md, "What a crash leaves").
ALTER TABLE batches
    -- When the batch last went on: a run of the chunker began, it was sealed, or a chunk changed its state.
    ADD COLUMN moved_at timestamptz NOT NULL DEFAULT now(),
    -- When its present generation began.
    ADD COLUMN generation_began_at timestamptz NOT NULL DEFAULT now(),
    -- When it was last set going again.
    ADD COLUMN reconciled_at timestamptz;

-- None of these columns is indexed, so that changing them stays an update in place (HOT). batches_under_way leads to the few rows that matter.

CREATE FUNCTION batch_generation_begins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.moved_at := now();
    NEW.generation_began_at := now();
    NEW.reconciled_at := NULL;
    RETURN NEW;
END $$;

-- Whoever begins a generation, its time begins with it.
CREATE TRIGGER batch_generation_begins BEFORE UPDATE OF generation ON batches
    FOR EACH ROW WHEN (OLD.generation IS DISTINCT FROM NEW.generation) EXECUTE FUNCTION batch_generation_begins();
