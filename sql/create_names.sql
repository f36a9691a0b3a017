-- The blocks of a name table (refactx.index.names).
CREATE TABLE refactx.{table} (key bytea NOT NULL, block bytea NOT NULL);
ALTER TABLE refactx.{table} ALTER COLUMN key SET STORAGE PLAIN, ALTER COLUMN block SET STORAGE EXTERNAL;
