-- The rows of a segment ({pieces}) and the names of its index ({names}). Rows are compressed already; TOAST only moves
-- what is over 2 kB out of the table.
CREATE TABLE refactx.{pieces} (key bytea NOT NULL, piece bytea NOT NULL);
ALTER TABLE refactx.{pieces} ALTER COLUMN key SET STORAGE PLAIN, ALTER COLUMN piece SET STORAGE EXTERNAL;
CREATE TABLE refactx.{names} (key bytea NOT NULL, block bytea NOT NULL);
ALTER TABLE refactx.{names} ALTER COLUMN key SET STORAGE PLAIN, ALTER COLUMN block SET STORAGE EXTERNAL;
