-- Sets the session's statement timeout to `value`, unless the client's address has one, or (if not `is_given`) the
-- role, the database or the server has one. Returns the timeout in force, in seconds; 0: none.
SELECT extract(epoch FROM (
    CASE
        WHEN source <> 'client' AND (%(is_given)s OR setting = '0')
            THEN set_config('statement_timeout', %(value)s, false)
        ELSE current_setting('statement_timeout')
    END
)::interval)
FROM pg_settings WHERE name = 'statement_timeout'
