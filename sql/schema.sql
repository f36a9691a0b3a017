-- Everything of ReFactX's in a database. Safe to run again.
DO $$ BEGIN -- CREATE SCHEMA IF NOT EXISTS needs the right to make one even where there is one
    IF to_regnamespace('refactx') IS NULL THEN CREATE SCHEMA refactx; END IF;
END $$;

-- One row: the version of all these tables (refactx.postgres.database.CATALOGUE_VERSION). A database without it has version 1.
CREATE TABLE IF NOT EXISTS refactx.catalogue (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    version integer NOT NULL
);
INSERT INTO refactx.catalogue (version) VALUES (2) ON CONFLICT DO NOTHING;

-- A tokenizer is kept with the indexes that were built for it, so that they can be walked by text without a model.
CREATE TABLE IF NOT EXISTS refactx.tokenizers (
    fingerprint text PRIMARY KEY,
    serialized bytea NOT NULL -- tokenizer.json, zstd
);

-- What indexes of the same facts for several tokenizers share: the names. The facts themselves are in each index.
CREATE TABLE IF NOT EXISTS refactx.knowledge_bases (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created timestamptz NOT NULL DEFAULT now()
);

-- The names of a knowledge base are in its name tables; the rows of name table 3 are in table refactx.names_3. One with a
-- higher id was written later, and what it says of a name counts. Not ready: being written, or left by who was killed.
CREATE TABLE IF NOT EXISTS refactx.name_tables (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    knowledge_base integer NOT NULL REFERENCES refactx.knowledge_bases ON DELETE CASCADE,
    ready boolean NOT NULL DEFAULT false,
    created timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS refactx.indexes (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    state text NOT NULL CHECK (state IN ('building', 'ready')),
    format integer NOT NULL, -- of the rows of its segments (refactx.tree.codec.FORMAT_VERSION)
    tokenizer text NOT NULL, -- as the user called it
    fingerprint text NOT NULL REFERENCES refactx.tokenizers,
    vocabulary_size integer NOT NULL,
    trigger text NOT NULL,
    terminator text NOT NULL,
    source text[] NOT NULL,
    report jsonb NOT NULL DEFAULT '{}', -- the account of the ingest, and under "changes" of what came behind it
    created timestamptz NOT NULL DEFAULT now(),
    knowledge_base integer NOT NULL REFERENCES refactx.knowledge_bases
);
CREATE UNIQUE INDEX IF NOT EXISTS one_ready_index_a_name ON refactx.indexes (name) WHERE state = 'ready';

-- An index is the signed sum of its ready segments: facts that were added (+1) and facts that were retracted (-1), of
-- which each fact has a sum of 0 or 1. The rows of segment 7 are in table refactx.pieces_7.
CREATE TABLE IF NOT EXISTS refactx.segments (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    index_id integer NOT NULL REFERENCES refactx.indexes ON DELETE CASCADE,
    sign smallint NOT NULL CHECK (sign IN (-1, 1)),
    levels smallint NOT NULL DEFAULT 0,
    cut integer NOT NULL DEFAULT 0, -- most facts in a piece
    facts bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    codes bytea NOT NULL DEFAULT '', -- int32 little-endian: token ids by falling frequency
    dictionary bytea NOT NULL DEFAULT '', -- zstd
    ready boolean NOT NULL DEFAULT false,
    created timestamptz NOT NULL DEFAULT now()
);
