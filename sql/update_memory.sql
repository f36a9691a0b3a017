-- Makes the entries of a memory those of the staged names, in the same transaction (sql/stage_memory.sql). Entries that
-- are the same keep their embeddings. Returns how many were removed and added.
WITH named AS (
    SELECT DISTINCT ON (name) name, number, label, description, folded FROM memory_names ORDER BY name, place
), described AS (
    SELECT DISTINCT ON (name) name, other FROM memory_parts WHERE role IN ('d', 's') ORDER BY name, role, other
), used AS (
    SELECT n.name, n.number, n.label, n.folded, coalesce(nullif(n.description, ''), d.other, '') AS description
    FROM named AS n LEFT JOIN described AS d ON d.name = n.name
    WHERE EXISTS (SELECT FROM memory_parts AS p WHERE p.role = 'u' AND p.name = n.name)
), wanted AS MATERIALIZED (
    SELECT number, label, description, false AS is_alias, folded FROM used
    UNION
    SELECT u.number, a.name, u.description, true, a.folded
    FROM memory_parts AS a JOIN used AS u ON u.name = a.other COLLATE "C"
    WHERE a.role = 'a' AND a.name <> u.label
), removed AS (
    DELETE FROM refactx.{table} AS m WHERE NOT EXISTS (
        SELECT FROM wanted AS w
        WHERE (w.number, w.label, w.description, w.is_alias) = (m.number, m.label, m.description, m.is_alias)
    ) RETURNING 1
), added AS (
    INSERT INTO refactx.{table} (number, label, description, is_alias, folded)
    SELECT number, label, description, is_alias, folded FROM wanted AS w WHERE NOT EXISTS (
        SELECT FROM refactx.{table} AS m
        WHERE (w.number, w.label, w.description, w.is_alias) = (m.number, m.label, m.description, m.is_alias)
    )
    ORDER BY number & 1 DESC, is_alias, number, label
    RETURNING 1
)
SELECT (SELECT count(*) FROM removed), (SELECT count(*) FROM added)
