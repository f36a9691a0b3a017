-- Sets the session's statement timeout to `value`, unless the client's address has one, or (if not `is_given`) the
-- role, the database or the server has one. Returns the timeout in force, in seconds (0: none), whether a pooler is in
-- between, and when the server was started. Nothing is set through a pooler, which gives the session to other clients
-- too: its process is not the one of which the client was told (`process`). The client then keeps the timeout itself.
SELECT
    extract(epoch FROM (
        CASE
            WHEN source = 'client' OR NOT (%(is_given)s OR setting = '0') THEN current_setting('statement_timeout')
            WHEN pg_backend_pid() <> %(process)s THEN %(value)s
            ELSE set_config('statement_timeout', %(value)s, false)
        END
    )::interval),
    pg_backend_pid() <> %(process)s,
    extract(epoch FROM pg_postmaster_start_time())::text
FROM pg_settings WHERE name = 'statement_timeout'
