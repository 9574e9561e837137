-- What each tenant had stored at the end of a day is added up in slices of batches, in the order of their ids. The sums of the
-- day that is not whole yet are here, and the last id in them; then they go to usage_stored. An earlier version may add the day
-- by itself meanwhile: these sums are deleted then.
CREATE TABLE usage_stored_parts (
    day date NOT NULL,
    tenant_id uuid NOT NULL,
    bytes bigint NOT NULL,
    up_to uuid NOT NULL,
    PRIMARY KEY (day, tenant_id)
);
