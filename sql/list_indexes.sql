-- One row per index with its sizes on disk: rows, their B-tree, TOAST, and the names, which indexes of one knowledge
-- base share. Sizes are only of what is ready: a query for the size of a table waits for the session that fills it.
-- `unfinished`: segments that are being written, or were left by a killed writer.
SELECT
    i.id, i.name, i.state, i.format, i.tokenizer, i.fingerprint, i.vocabulary_size, i.trigger, i.terminator,
    i.source, i.report, i.created, i.knowledge_base,
    count(s.id) FILTER (WHERE s.ready) AS segments,
    count(s.id) FILTER (WHERE i.state = 'ready' AND NOT s.ready) AS unfinished,
    coalesce(sum(s.sign * s.facts) FILTER (WHERE s.ready), 0)::bigint AS facts,
    coalesce(sum(s.sign * s.tokens) FILTER (WHERE s.ready), 0)::bigint AS tokens,
    coalesce(max(s.levels) FILTER (WHERE s.ready), 0) AS levels,
    coalesce(max(s.cut) FILTER (WHERE s.ready), 0) AS cut,
    coalesce(sum(pg_relation_size(t.oid)), 0)::bigint AS table_bytes,
    coalesce(sum(pg_indexes_size(t.oid)), 0)::bigint AS index_bytes,
    coalesce(sum(pg_total_relation_size(t.oid) - pg_relation_size(t.oid) - pg_indexes_size(t.oid)), 0)::bigint
        + coalesce(sum(length(s.codes) + length(s.dictionary)), 0)::bigint AS toast_bytes,
    (
        SELECT coalesce(sum(pg_total_relation_size(to_regclass('refactx.names_' || n.id))), 0)::bigint
        FROM refactx.name_tables AS n WHERE n.knowledge_base = i.knowledge_base AND n.ready
    ) AS names_bytes
FROM refactx.indexes AS i
LEFT JOIN refactx.segments AS s ON s.index_id = i.id
LEFT JOIN pg_class AS t ON s.ready AND t.oid = to_regclass('refactx.pieces_' || s.id)
WHERE (%(name)s::text IS NULL OR i.name = %(name)s) AND (%(all)s OR i.state = 'ready')
GROUP BY i.id
ORDER BY i.name, i.id
