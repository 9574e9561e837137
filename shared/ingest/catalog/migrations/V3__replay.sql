-- A full load's deactivation that somebody confirmed: the guard does not hold it. Of the batch's last generation.
ALTER TABLE batches ADD COLUMN deactivation_confirmed boolean NOT NULL DEFAULT false;

-- Each replay, by the generation that it began. A request that is executed again finds here what it began, and with what answer.
CREATE TABLE batch_replays (
    batch_id uuid NOT NULL REFERENCES batches ON DELETE CASCADE,
    generation integer NOT NULL CHECK (generation > 1),
    idempotency_key text NOT NULL,
    -- When the request was claimed first. Long after, the same key may ask for another replay.
    requested_at timestamptz NOT NULL,
    scope text NOT NULL CHECK (scope IN ('failed', 'all')),
    confirm_deactivation boolean NOT NULL,
    -- The batch's state after it, and the number of chunks that became pending.
    status text NOT NULL,
    chunks bigint NOT NULL,
    begun_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (batch_id, generation),
    UNIQUE (batch_id, idempotency_key, requested_at)
);
