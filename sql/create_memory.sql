-- The entries of a memory (refactx.postgres.memory): labels and aliases of entities and properties. `number` is that of
-- refactx.entity_ids, odd for a property; `folded` a hash of the label without regard to case.
CREATE TABLE refactx.{table} (
    entry integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    number bigint NOT NULL,
    label text NOT NULL,
    description text NOT NULL,
    is_alias boolean NOT NULL,
    folded bigint NOT NULL,
    embedding {halfvec}({width})
);
CREATE INDEX ON refactx.{table} (folded);
CREATE INDEX ON refactx.{table} (number);
