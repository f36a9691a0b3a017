-- Tables of a transaction for what an index says now: its names, and the parts of its facts that matter to a memory.
CREATE TEMP TABLE memory_names (
    name text COLLATE "C", number bigint, label text, description text, folded bigint,
    place integer -- of several tables with a name, that of the lowest place counts
) ON COMMIT DROP;
CREATE TEMP TABLE memory_parts (
    role "char", -- u: a name is used by a fact; d, s: its description, or short description; a: an alias of a name
    name text COLLATE "C", other text, folded bigint
) ON COMMIT DROP;
