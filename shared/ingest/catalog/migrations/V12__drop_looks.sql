-- How far `reconcile` has listed the dropped objects of each bucket. docs/pipelines.md says what it looks for.
CREATE TABLE drop_looks (
    bucket text PRIMARY KEY,
    -- The key after which the next run goes on; null at the end. Keys may have characters that text does not take.
    after_key bytea,
    -- When the pass over the bucket began, and the one before it.
    began_at timestamptz NOT NULL,
    began_before timestamptz
);
