-- Events that are to be published. A row is written in the transaction of the fact that it tells of, and deleted once
-- the event is published. docs/events.md describes the events.
CREATE TABLE outbox (
    -- The order of the events of one batch: they are written under the batch's lock. It is the only key, so an INSERT
    -- waits for no other one.
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The event's id and idempotency key, the same however often it is published.
    event_id uuid NOT NULL,
    event_type text NOT NULL,
    -- No reference: the batch may be deleted before its events are published.
    batch_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    idempotency_key text NOT NULL,
    trace_id text NOT NULL,
    occurred_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    data jsonb NOT NULL,
    -- When the destination last refused this event while it took others.
    refused_at timestamptz
);
CREATE INDEX outbox_of_batch ON outbox (batch_id, sequence);
