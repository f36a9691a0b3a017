-- What an index consists of at this moment, with one row for each ready segment, or one of nulls: an index without
-- segments is empty, and one without `changes` is gone. The first two columns are of the server that answers, and the
-- next four of the index: how often it was changed, whether facts may have qualifiers, and the numbers and times of its
-- name tables, the latest first.
SELECT
    extract(epoch FROM pg_postmaster_start_time())::text, pg_is_in_recovery(),
    CASE WHEN i.id IS NOT NULL THEN coalesce(jsonb_array_length(i.report -> 'changes'), 0)
        + coalesce((i.report ->> 'remembered')::int, 0) END,
    coalesce(i.report ->> 'statements', '0') <> '0',
    n.numbers, n.times,
    s.id, s.sign, s.levels, s.facts, s.tokens, s.codes, s.dictionary, s.created
FROM (SELECT) AS one
LEFT JOIN refactx.indexes AS i ON i.id = %(index)s AND i.state = 'ready'
LEFT JOIN LATERAL (
    SELECT array_agg(id ORDER BY id DESC) AS numbers, array_agg(created ORDER BY id DESC) AS times
    FROM refactx.name_tables WHERE knowledge_base = i.knowledge_base AND ready
) AS n ON true
LEFT JOIN refactx.segments AS s ON s.index_id = i.id AND s.ready
ORDER BY s.id
