-- What the current role may write (refactx/postgres/rights.py). Names are quoted where they must be, except in `foreign_role`.
-- `foreign_...`: the first table that it must own and does not, and whose it is: one of the catalogue, or one of `tables`.
-- `other_owner`: who owns the catalogue, if it is not this role itself: a member of that role, say, or a superuser.
WITH ours AS (
    SELECT c.relname, r.rolname, r.rolsuper
    FROM pg_class AS c JOIN pg_roles AS r ON r.oid = c.relowner
    WHERE c.relnamespace = to_regnamespace('refactx') AND c.relkind = 'r' AND NOT pg_has_role(c.relowner, 'USAGE')
        AND (c.relname !~ '^(pieces|names)_\d+$' OR c.relname = ANY(%(tables)s))
    ORDER BY c.oid
    LIMIT 1
)
SELECT
    quote_ident(current_user) AS role,
    quote_ident(current_database()) AS database,
    pg_is_in_recovery() AS standby,
    current_setting('transaction_read_only')::boolean AS read_only,
    to_regnamespace('refactx') IS NOT NULL AS schema_exists,
    has_database_privilege(current_database(), 'CREATE') AS may_make_schema,
    coalesce(
        has_schema_privilege(to_regnamespace('refactx'), 'USAGE')
        AND has_schema_privilege(to_regnamespace('refactx'), 'CREATE'), false
    ) AS may_make_tables,
    (SELECT format('refactx.%%I', relname) FROM ours) AS foreign_table,
    (SELECT quote_ident(rolname) FROM ours) AS foreign_owner,
    (SELECT rolname FROM ours) AS foreign_role,
    (SELECT rolsuper FROM ours) AS foreign_superuser,
    (
        SELECT r.rolname FROM pg_class AS c JOIN pg_roles AS r ON r.oid = c.relowner
        WHERE c.relnamespace = to_regnamespace('refactx') AND c.relname = 'indexes' AND r.rolname <> current_user
    ) AS other_owner
