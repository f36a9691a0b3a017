-- Sets the session's statement timeout to `value`, unless the client's address has one of its own, or (if nobody told us one:
-- `told`) the role, the database or the server has. Gives the one in force, in seconds; 0: none.
SELECT extract(epoch FROM (
    CASE
        WHEN source <> 'client' AND (%(told)s OR setting = '0') THEN set_config('statement_timeout', %(value)s, false)
        ELSE current_setting('statement_timeout')
    END
)::interval)
FROM pg_settings WHERE name = 'statement_timeout'
