"""Building an index: parse, name, verbalise, encode, sort, build, load."""
