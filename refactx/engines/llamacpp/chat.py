"""Chat templates: conversations to text by the Jinja template of a model, as Transformers renders it.

A template is code from a file that was downloaded: it runs in Jinja's sandbox, and sees nothing but texts and numbers.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace


def render(template: str, messages: Sequence[Mapping[str, str]], variables: Mapping[str, Any]) -> str:
    """Return a conversation as a chat template writes it. Raises whatever the template raises.

    >>> render("{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}",
    ...        [{"role": "user", "content": "Who?"}], {"eos_token": "</s>"})
    'user: Who?</s>'
    """
    given = {"tools": None, "documents": None, "add_generation_prompt": False, **variables}
    return _compiled(template).render(messages=[dict(message) for message in messages], **given)


@cache
def _compiled(template: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    functions: dict[str, Callable[..., object]] = {"raise_exception": _raise, "strftime_now": _now}
    environment.globals |= functions | {"namespace": _TemplateNamespace}
    return environment.from_string(template)


class _GenerationTag(Extension):
    """`{% generation %}`, which marks what the assistant wrote: its body is written as it is."""

    tags = {"generation"}  # noqa: RUF012 (as Jinja declares it)

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _TemplateNamespace(Namespace):
    """A namespace without names that begin with `_`, which might lead out of the sandbox."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *rest = args
        values = dict(*rest, **kwargs)
        _check_names(values)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_names({name: value})
        super().__setitem__(name, value)


def _check_names(values: Mapping[Any, Any]) -> None:
    if any(str(name).startswith("_") for name in values):
        raise SecurityError("a chat template sets a name that begins with an underscore")


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON without escapes for HTML, unlike Jinja's filter."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> None:
    raise TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)
