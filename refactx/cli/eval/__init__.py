"""`refactx eval`: answers, or with `--sparql` the queries of policies, scored."""

from refactx.cli.eval.command import eval_

__all__ = ["eval_"]
