"""The logs of a run: a line for each question, in the files of one machine or of many."""

from refactx.eval.logs.log import AnswerLog, parse_records, write_atomically
from refactx.eval.logs.shards import WHOLE, RunLog, Shard

__all__ = ["WHOLE", "AnswerLog", "RunLog", "Shard", "parse_records", "write_atomically"]
