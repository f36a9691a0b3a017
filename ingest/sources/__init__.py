"""The files that an ingest reads, as blocks of whole lines: decompressed, of a known format, with errors that name the."""
