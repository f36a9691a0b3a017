-- The rights of the current role (refactx/postgres/rights.py). Names are quoted if necessary, except in `foreign_role`.
-- `foreign_...`: the first table, of the catalogue or of `tables`, that the role must own and does not, and its owner.
-- `other_owner`: the owner of the catalogue, if that is another role: the role may be a member of it, or a superuser.
WITH not_owned AS (
    SELECT c.relname, r.rolname, r.rolsuper
    FROM pg_class AS c JOIN pg_roles AS r ON r.oid = c.relowner
    WHERE c.relnamespace = to_regnamespace('refactx') AND c.relkind = 'r' AND NOT pg_has_role(c.relowner, 'USAGE')
        AND (c.relname !~ '^(pieces|names|memory)_\d+$' OR c.relname = ANY(%(tables)s))
    ORDER BY c.oid
    LIMIT 1
)
SELECT
    quote_ident(current_user) AS role,
    quote_ident(current_database()) AS database,
    pg_backend_pid() AS process,
    pg_is_in_recovery() AS standby,
    current_setting('transaction_read_only')::boolean AS read_only,
    (
        SELECT setting::boolean AND source = 'client' FROM pg_settings WHERE name = 'default_transaction_read_only'
    ) AS read_only_by_client,
    to_regnamespace('refactx') IS NOT NULL AS schema_exists,
    has_database_privilege(current_database(), 'CREATE') AS may_create_schema,
    coalesce(
        has_schema_privilege(to_regnamespace('refactx'), 'USAGE')
        AND has_schema_privilege(to_regnamespace('refactx'), 'CREATE'), false
    ) AS may_create_tables,
    (SELECT format('refactx.%%I', relname) FROM not_owned) AS foreign_table,
    (SELECT quote_ident(rolname) FROM not_owned) AS foreign_owner,
    (SELECT rolname FROM not_owned) AS foreign_role,
    (SELECT rolsuper FROM not_owned) AS foreign_superuser,
    (
        SELECT r.rolname FROM pg_class AS c JOIN pg_roles AS r ON r.oid = c.relowner
        WHERE c.relnamespace = to_regnamespace('refactx') AND c.relname = 'indexes' AND r.rolname <> current_user
    ) AS other_owner
