"""Questions to a model: prompts, options of generation, and answers with their facts."""

from refactx.asking.answer import Answer, final_answer
from refactx.asking.asker import Asker
from refactx.asking.options import GREEDY, Generation
from refactx.asking.prompt import Example, Prompt, load_prompt
from refactx.asking.prompt_check import check_prompt
from refactx.asking.queries import QueryChoice

__all__ = [
    "GREEDY",
    "Answer",
    "Asker",
    "Example",
    "Generation",
    "Prompt",
    "QueryChoice",
    "check_prompt",
    "final_answer",
    "load_prompt",
]
