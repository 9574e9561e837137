-- Bytes of the payloads that each tenant had stored at the end of each day (UTC), for GET /v1/usage. docs/usage.md defines them.
-- `reconcile` adds a day once it is over.
CREATE TABLE usage_stored (
    day date NOT NULL,
    tenant_id uuid NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (day, tenant_id)
);

-- The last day that was added, in one row. Days before the migration are unknown.
CREATE TABLE usage_stored_until (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    day date NOT NULL
);
INSERT INTO usage_stored_until (day) VALUES ((now() AT TIME ZONE 'UTC')::date - 1);
