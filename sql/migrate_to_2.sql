-- From catalogue 1, after schema.sql, in its transaction: each index gets a knowledge base of its own with the same id,
-- and its names, which were in names_{index}, become the name table of that knowledge base. No row of data is changed.
INSERT INTO refactx.knowledge_bases (id, created) OVERRIDING SYSTEM VALUE SELECT id, created FROM refactx.indexes;
INSERT INTO refactx.name_tables (id, knowledge_base, ready, created) OVERRIDING SYSTEM VALUE
    SELECT id, id, state = 'ready', created FROM refactx.indexes;
SELECT setval(pg_get_serial_sequence('refactx.' || t, 'id'), coalesce(max(i.id), 1), max(i.id) IS NOT NULL)
    FROM (VALUES ('knowledge_bases'), ('name_tables')) AS tables (t) LEFT JOIN refactx.indexes AS i ON true GROUP BY t;

ALTER TABLE refactx.indexes ADD COLUMN knowledge_base integer REFERENCES refactx.knowledge_bases;
UPDATE refactx.indexes SET knowledge_base = id;
ALTER TABLE refactx.indexes ALTER COLUMN knowledge_base SET NOT NULL;

ALTER TABLE refactx.segments
    ADD COLUMN ready boolean NOT NULL DEFAULT false, ADD COLUMN created timestamptz NOT NULL DEFAULT now();
UPDATE refactx.segments AS s SET ready = i.state = 'ready', created = i.created
    FROM refactx.indexes AS i WHERE i.id = s.index_id;
