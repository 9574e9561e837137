-- `s3://bucket/key` of the file of all items in error that the payload was found to hold. Null if there is none: no item
-- is in error, the batch is not sealed, or an earlier version sealed it.
ALTER TABLE batches ADD COLUMN errors_uri text;
