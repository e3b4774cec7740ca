"""What a type lets choose from, and what the choices are called. Knows nothing of forms.

A form's choices are text. Others are shown as their JSON, and turned back when they are chosen.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final, final

import attrs

from .. import types
from .._codec import _json
from .._schema._shapes import AnyOf, Array, Choice, Shape, core

__all__ = ["CHOICE_KEYWORDS", "Options", "as_text", "options_of", "titles_of"]

CHOICE_KEYWORDS: Final = frozenset({"enum", "enumNames", "const", "oneOf"})
"""The keywords of JSON Schema that say what there is to choose from."""


@final
@attrs.frozen
class Options:
    """What there is to choose from.

    Attributes:
        texts: Each choice as text.
        titles: What they are called; `None` if that is the text.
        values: What each text means in JSON; `None` if that is the text.
    """

    texts: tuple[str, ...]
    titles: tuple[str, ...] | None
    values: Mapping[str, object] | None

    @property
    def titled(self) -> list[types.EnumOption]:
        """The choices with their titles."""
        titles = self.texts if self.titles is None else self.titles
        return [types.EnumOption(const=text, title=title) for text, title in zip(self.texts, titles, strict=True)]


def options_of(name: str, schema: Mapping[str, Any], titles: Mapping[str, str]) -> Options | None:
    """Return what a schema lets choose from, or `None` if it is no choice.

    Args:
        name: The field, for errors.
        schema: Its JSON Schema.
        titles: What the choices are called, by their text, unless the schema says so.

    Raises:
        TypeError: The choices cannot be told apart, or their names do not match.
    """
    if "oneOf" in schema and all("const" in option for option in schema["oneOf"]):
        values = [option["const"] for option in schema["oneOf"]]
        titles = {as_text(option["const"]): option.get("title", "") for option in schema["oneOf"]}
    elif "enum" in schema or "const" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        names = schema.get("enumNames")
        if names is not None:
            if len(names) != len(values):
                raise TypeError(f"{name}: enumNames must have as many names as there are choices")
            titles = dict(zip(map(as_text, values), names, strict=True))
    else:
        return None
    texts = tuple(map(as_text, values))
    if len(set(texts)) < len(texts):
        raise TypeError(f"{name}: two of the choices are the same as text")
    are_texts = all(isinstance(value, str) for value in values)
    return Options(
        texts,
        tuple(titles.get(text) or text for text in texts) if titles else None,
        None if are_texts else dict(zip(texts, values, strict=True)),
    )


def as_text(value: object) -> str:
    """Return a choice as text: itself, or its JSON."""
    return value if isinstance(value, str) else _json.encode(value).decode()


def titles_of(shape: Shape | None) -> Mapping[str, str]:
    """Return what the choices of an enumeration are called, if that is more than their values say.

    A member is called by its `label`, if it has one, or else by its name, in words.
    """
    choice = None if shape is None else _choice_in(shape)
    if choice is None:
        return {}
    titles: dict[str, str] = {}
    says_more = False
    for value, member in choice.options:
        if not isinstance(member, enum.Enum):
            return {}
        text, words = as_text(value), member.name.replace("_", " ").strip()
        label = getattr(member, "label", None)
        titles[text] = str(label) if label else words.capitalize() if words.isupper() else words
        said = text.replace("_", " ").replace("-", " ").casefold()
        says_more = says_more or bool(label) or said != words.casefold()
    return titles if says_more else {}


def _choice_in(shape: Shape) -> Choice | None:
    match core(shape):
        case Choice() as choice:
            return choice
        case Array(items=items):
            return _choice_in(items)
        case AnyOf(branches=branches):
            found = [choice for choice in map(_choice_in, branches) if choice is not None]
            return found[0] if len(found) == 1 else None
        case _:
            return None
