-- Of each content's hash a chunk keeps 5 bytes instead of 8, one after the other in the order of key_hashes: an unchanged row writes nothing but
-- this and its key's hash. It is only compared with the content of the same product, so 40 bits are enough.
CREATE FUNCTION pg_temp.first_five(hashes bigint[]) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT coalesce(string_agg(substring(int8send(hash) FROM 1 FOR 5), '' ORDER BY place), '')
    FROM unnest(hashes) WITH ORDINALITY AS h (hash, place)
$$;
ALTER TABLE batch_chunks ALTER COLUMN row_hashes TYPE bytea USING pg_temp.first_five(row_hashes);
ALTER TABLE batch_chunks ALTER COLUMN row_hashes SET STORAGE EXTERNAL;

-- Room on each page for a product's next version. An update that stays on its page writes no index, and the room is free again with the next look at
-- the page; that is two thirds of what an update costs. Pages that are full already get it as they are written anew.
ALTER TABLE products SET (fillfactor = 90);
