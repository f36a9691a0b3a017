"""Questions to a model: prompts, the writing of texts with facts, and answers with their facts as proof.

| names | what they are |
|---|---|
| `Asker`, `Prompt`, `Example`, `Generation`, `Answer` | questions and how they are asked; options; what comes of one |
| `load_prompt`, `check_prompt`, `final_answer` | prompts by name, their check against an index, the answer in a text |
| `GroundedModel`, `ground` | a model whose `generate` writes only facts of an index |
| `TextModel`, `CancellableModel`, `ChatModel` | models that reply to a conversation; one of our engines, free or constrained |
| `BatchWriter`, `TextRequest`, `WritingOptions`, `WrittenText`, `WritingError` | many texts over one engine |
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.ask.answer import Answer, final_answer
    from refactx.ask.asker import Asker
    from refactx.ask.chat_server import CancellableModel, TextModel
    from refactx.ask.chat_text import ChatModel
    from refactx.ask.grounded import GroundedModel, ground
    from refactx.ask.prompt import GREEDY, Example, Generation, Prompt, check_prompt, load_prompt
    from refactx.ask.queries import QueryChoice
    from refactx.ask.writer import BatchWriter, TextRequest, WritingError, WritingOptions, WrittenText

__all__ = ["GREEDY", "Answer", "Asker", "BatchWriter", "CancellableModel", "ChatModel", "Example", "Generation"]
__all__ += ["GroundedModel", "Prompt", "QueryChoice", "TextModel", "TextRequest", "WritingError", "WritingOptions"]
__all__ += ["WrittenText", "check_prompt", "final_answer", "ground", "load_prompt"]
__getattr__ = lazy_exports(
    __name__,
    {
        "answer": "Answer final_answer",
        "asker": "Asker",
        "chat_server": "CancellableModel TextModel",
        "chat_text": "ChatModel",
        "grounded": "GroundedModel ground",
        "prompt": "GREEDY Example Generation Prompt check_prompt load_prompt",
        "queries": "QueryChoice",
        "writer": "BatchWriter TextRequest WritingError WritingOptions WrittenText",
    },
)
