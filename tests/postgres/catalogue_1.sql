-- Everything of ReFactX's in a database. Safe to run again.
CREATE SCHEMA IF NOT EXISTS refactx;

-- A tokenizer is kept with the indexes that were built for it, so that they can be walked by text without a model.
CREATE TABLE IF NOT EXISTS refactx.tokenizers (
    fingerprint text PRIMARY KEY,
    serialized bytea NOT NULL -- tokenizer.json, zstd
);

CREATE TABLE IF NOT EXISTS refactx.indexes (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    state text NOT NULL CHECK (state IN ('building', 'ready')),
    format integer NOT NULL,
    tokenizer text NOT NULL, -- as the user called it
    fingerprint text NOT NULL REFERENCES refactx.tokenizers,
    vocabulary_size integer NOT NULL,
    trigger text NOT NULL,
    terminator text NOT NULL,
    source text[] NOT NULL,
    report jsonb NOT NULL DEFAULT '{}', -- the account of the ingest
    created timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX IF NOT EXISTS one_ready_index_a_name ON refactx.indexes (name) WHERE state = 'ready';

-- An index is the signed sum of its segments; the rows of segment 7 are in table refactx.pieces_7.
CREATE TABLE IF NOT EXISTS refactx.segments (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    index_id integer NOT NULL REFERENCES refactx.indexes ON DELETE CASCADE,
    sign smallint NOT NULL CHECK (sign IN (-1, 1)),
    levels smallint NOT NULL DEFAULT 0,
    cut integer NOT NULL DEFAULT 0, -- most facts in a piece
    facts bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    codes bytea NOT NULL DEFAULT '', -- int32 little-endian: token ids by falling frequency
    dictionary bytea NOT NULL DEFAULT '' -- zstd
);
