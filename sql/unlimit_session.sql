-- Removes the limit of transactions of a session, if this server has one, unless a pooler is in between (see
-- limit_lookups.sql): the limits of statements are parameters of the connection. Returns whether a pooler is, and when
-- the server was started.
SELECT
    pg_backend_pid() <> %(process)s,
    extract(epoch FROM pg_postmaster_start_time())::text,
    (
        SELECT count(set_config(name, '0', false)) FROM pg_settings
        WHERE name = 'transaction_timeout' AND pg_backend_pid() = %(process)s
    )
