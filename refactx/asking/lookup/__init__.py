"""Facts of an index for people and assistants: walked from name to name, and checked, without a model."""

from refactx.asking.lookup.browsing import Browsed, browse
from refactx.asking.lookup.checking import Checked, check_text
from refactx.asking.lookup.examples import Example, Examples

__all__ = ["Browsed", "Checked", "Example", "Examples", "browse", "check_text"]
