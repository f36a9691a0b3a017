-- The rows of a segment. They are already compressed; TOAST only moves rows over 2 kB out of the table.
CREATE TABLE refactx.{table} (key bytea NOT NULL, piece bytea NOT NULL);
ALTER TABLE refactx.{table} ALTER COLUMN key SET STORAGE PLAIN, ALTER COLUMN piece SET STORAGE EXTERNAL;
