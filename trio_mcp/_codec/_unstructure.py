"""From wire objects to what is encoded as JSON, for one revision: nothing is sent that it does not know.

What is written beside the members decides what is left out; `_downgrade` says what else changes. Open JSON is
passed on as it is, not copied.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.fns import identity
from cattrs.gen import make_dict_unstructure_fn, override

from .._errors import LocalProtocolError
from .._revisions import Revision
from ..types._fields import Member, members, options_of, span_of
from ._downgrade import downgrades_for

__all__ = ["writer"]

Hook: TypeAlias = Callable[[Any], Any]

_converter: Final = Converter()


@functools.cache
def writer(cls: Any, revision: Revision, without: str | None = None) -> Hook:
    """Make the function that writes the objects of one class for one revision.

    Args:
        cls: The class.
        revision: What the peer speaks.
        without: A member that is not written, because the caller does that.

    Raises:
        TypeError: `cls` is not a wire class.
    """
    plain = _class_hook(cls, revision, without)
    changes = downgrades_for(cls, revision)
    if not changes:
        return plain

    def unstructure(obj: Any) -> Any:
        for change in changes:
            obj = change(obj, revision)
            if type(obj) is not cls:
                return writer(obj.__class__, revision, without)(obj)
        return plain(obj)

    return unstructure


def _class_hook(cls: Any, revision: Revision, without: str | None) -> Hook:
    try:
        span = span_of(cls)
    except KeyError:
        raise TypeError(f"{cls.__qualname__} is not a class of the protocol") from None
    if revision not in span:

        def refuse(_: Any) -> Any:
            raise LocalProtocolError(f"{cls.__name__} does not exist in {revision}, only {span}")

        return refuse
    overrides: dict[str, Any] = {}
    for member in members(cls):
        if revision not in member.span or member.name == without:
            overrides[member.attribute] = override(omit=True)
            continue
        required = revision in member.required_in
        hook = _value_hook(member.type, revision, where=f"{cls.__name__}.{member.name}")
        if required and member.default is not attrs.NOTHING:
            hook = _required(hook, member, f"{revision} requires {cls.__name__}.{member.name}")
        if (member.minimum, member.maximum, member.max_items) != (None, None, None):
            hook = _bounded(hook, member, f"{cls.__name__}.{member.name}")
        overrides[member.attribute] = override(
            rename=member.name,
            omit_if_default=not (required or member.always_sent),
            unstruct_hook=hook,
        )
    unstructure: Hook = make_dict_unstructure_fn(cls, _converter, **overrides)
    return unstructure


def _required(hook: Hook, member: Member, complaint: str) -> Hook:
    def unstructure(value: Any) -> Any:
        if value is member.default:
            raise LocalProtocolError(complaint)
        return hook(value)

    return unstructure


def _bounded(hook: Hook, member: Member, where: str) -> Hook:
    least, most, most_items = member.minimum, member.maximum, member.max_items

    def unstructure(value: Any) -> Any:
        if least is not None and not value >= least:
            raise LocalProtocolError(f"{where} must be at least {least}, not {value!r}")
        if most is not None and not value <= most:
            raise LocalProtocolError(f"{where} must be at most {most}, not {value!r}")
        if most_items is not None and len(value) > most_items:
            raise LocalProtocolError(f"{where} must have at most {most_items} items, not {len(value)}")
        return hook(value)

    return unstructure


def _value_hook(kind: Any, revision: Revision, where: str) -> Hook:
    """Make the function for a member's value, if it is one that is sent."""
    options = options_of(kind)
    classes = tuple(option for option in options if attrs.has(option))
    one = _object_hook(classes, revision, where) if classes else identity
    for option in options:
        origin, arguments = get_origin(option), get_args(option)
        if origin is Sequence:
            several = _items_hook(_value_hook(arguments[0], revision, where))
            if set(options) <= {option, type(None)}:
                return several
            return lambda value: several(value) if isinstance(value, (tuple, list)) else one(value)
        if origin is Mapping:
            return _values_hook(_value_hook(arguments[1], revision, where))
    return one


def _items_hook(hook: Hook) -> Hook:
    return list if hook is identity else lambda values: [hook(value) for value in values]


def _values_hook(hook: Hook) -> Hook:
    if hook is identity:
        # JSON encoders know dict, but not every mapping.
        return lambda values: values if values.__class__ is dict else dict(values)
    return lambda values: {key: hook(value) for key, value in values.items()}


def _object_hook(classes: Sequence[type], revision: Revision, where: str) -> Hook:
    hooks: dict[type, Hook] = {}  # of the classes that have come by

    def unstructure(obj: Any) -> Any:
        hook = hooks.get(obj.__class__)
        if hook is None:
            cls = next((cls for cls in classes if isinstance(obj, cls)), None)
            if cls is None:
                expected = " or ".join(cls.__name__ for cls in classes)
                raise TypeError(f"{where} takes {expected}, not {type(obj).__name__}")
            hook = hooks[type(obj)] = writer(cls, revision)
        return hook(obj)

    return unstructure
