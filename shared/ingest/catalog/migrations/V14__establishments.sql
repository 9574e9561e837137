-- The owner of each establishment: only its items are written. docs/access.md, "Owners of establishments", has the rules.
CREATE TABLE establishments (
    cnpj character(14) COLLATE "C" PRIMARY KEY,
    tenant_id uuid NOT NULL,
    assigned_at timestamptz NOT NULL DEFAULT now(),
    -- Who assigned it: the administrator as named by the request, 'first load', or this migration.
    assigned_by text NOT NULL
);
CREATE INDEX establishments_of_tenant ON establishments (tenant_id, cnpj);

-- Establishments that have products become those of the tenant whose batch was received last, of all batches that are kept and
-- wrote a chunk. Every batch that a product names is among them as long as it is kept. What is left has no owner.
INSERT INTO establishments (cnpj, tenant_id, assigned_by)
SELECT loaded.cnpj, loaded.last_tenant,
    CASE WHEN loaded.tenants > 1 THEN 'upgrade: several tenants loaded it' ELSE 'upgrade' END
FROM (SELECT c.cnpj, (array_agg(b.tenant_id ORDER BY c.received_at DESC, c.batch_id DESC))[1] AS last_tenant,
        count(DISTINCT b.tenant_id) AS tenants
    FROM batch_cnpjs c JOIN batches b ON b.batch_id = c.batch_id
    WHERE EXISTS (SELECT FROM batch_chunks k WHERE k.batch_id = b.batch_id AND k.key_hashes IS NOT NULL)
    GROUP BY c.cnpj) AS loaded
WHERE EXISTS (SELECT FROM products p WHERE p.cnpj = loaded.cnpj);

-- 'not_owned' says that the establishment was not the tenant's when the load was decided. No row has it yet, so nothing has to be
-- checked.
ALTER TABLE batch_cnpjs
    -- Whether items of it were refused because the tenant does not own it, since the last replay of all chunks. Such a load does not
    -- decide about it.
    ADD COLUMN refused boolean NOT NULL DEFAULT false,
    DROP CONSTRAINT batch_cnpjs_deactivation_check,
    ADD CONSTRAINT batch_cnpjs_deactivation_check
        CHECK (deactivation IN ('done', 'skipped', 'too_late', 'not_owned')) NOT VALID;
