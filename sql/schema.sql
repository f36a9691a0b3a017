-- The schema of ReFactX in a database. It can be run again.
DO $$ BEGIN -- CREATE SCHEMA IF NOT EXISTS needs the right to create it even if it exists
    IF to_regnamespace('refactx') IS NULL THEN CREATE SCHEMA refactx; END IF;
END $$;

-- One row: the version of all these tables (refactx.postgres.catalogue.CATALOGUE_VERSION). Version 1 had no such table.
CREATE TABLE IF NOT EXISTS refactx.catalogue (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    version integer NOT NULL
);
INSERT INTO refactx.catalogue (version) VALUES (3) ON CONFLICT DO NOTHING;

-- The tokenizers of the indexes: with them an index can be searched by text without a model.
CREATE TABLE IF NOT EXISTS refactx.tokenizers (
    fingerprint text PRIMARY KEY,
    serialized bytea NOT NULL -- tokenizer.json, zstd
);

-- Indexes of the same facts for several tokenizers share a knowledge base, which has the names. Each has its facts.
CREATE TABLE IF NOT EXISTS refactx.knowledge_bases (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created timestamptz NOT NULL DEFAULT now()
);

-- The names of a knowledge base are in its name tables; the rows of name table 3 are in table refactx.names_3. If a
-- name is in several, the one with the highest id counts. One that is not ready is being written, or was left by a
-- killed writer.
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
    format integer NOT NULL, -- of the rows of its segments (refactx.tree.codes.FORMAT_VERSION)
    tokenizer text NOT NULL, -- the name that the user gave
    fingerprint text NOT NULL REFERENCES refactx.tokenizers,
    vocabulary_size integer NOT NULL,
    trigger text NOT NULL,
    terminator text NOT NULL,
    source text[] NOT NULL,
    report jsonb NOT NULL DEFAULT '{}', -- the account of the ingest; later changes under "changes"
    created timestamptz NOT NULL DEFAULT now(),
    knowledge_base integer NOT NULL REFERENCES refactx.knowledge_bases
);
CREATE UNIQUE INDEX IF NOT EXISTS one_ready_index_a_name ON refactx.indexes (name) WHERE state = 'ready';

-- An index is the signed sum of its ready segments: of facts that were added (+1) or retracted (-1). The sum of each
-- fact is 0 or 1. The rows of segment 7 are in table refactx.pieces_7.
CREATE TABLE IF NOT EXISTS refactx.segments (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    index_id integer NOT NULL REFERENCES refactx.indexes ON DELETE CASCADE,
    sign smallint NOT NULL CHECK (sign IN (-1, 1)),
    levels smallint NOT NULL DEFAULT 0,
    cut integer NOT NULL DEFAULT 0, -- the most facts in a piece
    facts bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    codes bytea NOT NULL DEFAULT '', -- int32 little-endian: token ids by falling frequency
    dictionary bytea NOT NULL DEFAULT '', -- zstd
    ready boolean NOT NULL DEFAULT false,
    created timestamptz NOT NULL DEFAULT now()
);

-- Objects without inverse facts of a predicate, since they had more subjects than the limit when the index was
-- ingested (refactx.hubs). Names are those of facts. A B-tree does not take names as long as they may be.
CREATE TABLE IF NOT EXISTS refactx.hubs (
    index_id integer NOT NULL REFERENCES refactx.indexes ON DELETE CASCADE,
    object text NOT NULL,
    predicate text NOT NULL,
    inverse text NOT NULL, -- the predicate of the inverse facts
    subjects bigint NOT NULL CHECK (subjects >= 0)
);
CREATE INDEX IF NOT EXISTS hubs_of_objects ON refactx.hubs (index_id, hashtextextended(object, 0));

-- The memories of an index: its names with embeddings, by which words are resolved to ids (refactx.postgres.memory). The
-- entries of memory 7 are in table refactx.memory_7. A memory that is not ready is being built, or was left by a killed
-- build.
CREATE TABLE IF NOT EXISTS refactx.memories (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    index_id integer NOT NULL REFERENCES refactx.indexes ON DELETE CASCADE,
    encoder text NOT NULL, -- the name that the user gave
    fingerprint text NOT NULL, -- of its weights
    width integer NOT NULL CHECK (width > 0), -- the numbers of an embedding
    aliases boolean NOT NULL, -- whether aliases have embeddings too
    changes integer NOT NULL DEFAULT 0, -- how many appends and forgets of the index it has followed
    ready boolean NOT NULL DEFAULT false,
    created timestamptz NOT NULL DEFAULT now(),
    UNIQUE (index_id, fingerprint)
);
