-- One row an index with its sizes on disk: rows, their B-tree, and TOAST; and the names beside them. Only of ready ones:
-- asking for the size of a table waits for whoever is filling it.
SELECT
    i.id, i.name, i.state, i.format, i.tokenizer, i.fingerprint, i.vocabulary_size, i.trigger, i.terminator,
    i.source, i.report, i.created, count(s.id) AS segments,
    coalesce(sum(s.sign * s.facts), 0)::bigint AS facts,
    coalesce(sum(s.sign * s.tokens), 0)::bigint AS tokens,
    coalesce(max(s.levels), 0) AS levels,
    coalesce(max(s.cut), 0) AS cut,
    coalesce(sum(pg_relation_size(t.oid)), 0)::bigint AS table_bytes,
    coalesce(sum(pg_indexes_size(t.oid)), 0)::bigint AS index_bytes,
    coalesce(sum(pg_total_relation_size(t.oid) - pg_relation_size(t.oid) - pg_indexes_size(t.oid)), 0)::bigint
        + coalesce(sum(length(s.codes) + length(s.dictionary)), 0)::bigint AS toast_bytes,
    coalesce(max(pg_total_relation_size(n.oid)), 0)::bigint AS names_bytes
FROM refactx.indexes AS i
LEFT JOIN refactx.segments AS s ON s.index_id = i.id
LEFT JOIN pg_class AS t ON i.state = 'ready' AND t.oid = to_regclass('refactx.pieces_' || s.id)
LEFT JOIN pg_class AS n ON i.state = 'ready' AND n.oid = to_regclass('refactx.names_' || i.id)
WHERE (%(name)s::text IS NULL OR i.name = %(name)s) AND (%(all)s OR i.state = 'ready')
GROUP BY i.id
ORDER BY i.name, i.id
