"""Facts as sorted token sequences of one tokenizer: the slow step of an ingest's second half."""
