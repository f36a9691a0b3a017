"""Teaching a model: questions made of an index, lessons of their answers, and the training of adapters on them."""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.ask.teach.lessons import Taught, TrainingOptions
    from refactx.ask.teach.made_questions import MadeQuestion, make_questions

__all__ = ["MadeQuestion", "Taught", "TrainingOptions", "make_questions"]
__getattr__ = lazy_exports(
    __name__, {"lessons": "Taught TrainingOptions", "made_questions": "MadeQuestion make_questions"}
)
