r"""Untrusted text, made safe for a log, an error message and a terminal. No I/O.

A path, a message, the name of a tool or the output of a child process can contain line breaks that forge a line
of the log, escape sequences that a terminal obeys, and marks that reverse the direction of text. Characters that
are not printable are escaped as in a string of Python: ``\n``, ``\x1b``, ``\u202e``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial, reduce
from itertools import pairwise
from typing import Any, Final, cast, final
from urllib.parse import quote, quote_plus

MAX_PRINTED: Final = 2_000
"""The longest text that is shown as a whole, in characters: some lines of a terminal."""

MAX_LINES: Final = 200
"""The number of lines of a text that are shown."""


def printable(text: str, limit: int = MAX_PRINTED) -> str:
    """Return a text as one line of printable characters, cut with an ellipsis if it is too long.

    Args:
        text: The untrusted text.
        limit: The most characters of the result, without the ellipsis.
    """
    text = without_values(text)
    shown = text[:limit]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return shown if len(shown) <= limit and len(text) <= limit else f"{shown[:limit]}…"


def shown(value: object, spelled: Callable[[object], str] = repr) -> str:
    """Return an untrusted value as one printable line. Does not raise.

    Of a value that Python cannot format, such as a deeply nested list or a number of thousands of digits, it is
    the type.

    Args:
        value: The value.
        spelled: What makes it a text: `repr` or `str`.
    """
    try:
        return printable(spelled(without_values(value) if isinstance(value, Expanded) else value))
    except Exception:  # an error in the value's own code must not become one of the code that reports it
        return f"<{type(value).__name__}, which cannot be shown>"


MAX_EXCERPT: Final = 120
"""How much of something that cannot be used is quoted, in characters."""


def kind_shown(value: object) -> str:
    """Return of what kind a value is: "an int", "a list", "nothing"."""
    name = type(value).__qualname__
    return "nothing" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def excerpt(data: bytes) -> str:
    """Return the beginning of untrusted bytes as one printable text in quotation marks, with single blanks."""
    text = data[: 4 * MAX_EXCERPT].decode("utf-8", "replace")
    return f"'{printable(' '.join(text.split()), MAX_EXCERPT)}'"


def printable_lines(text: str, indent: str = "    ") -> str:
    """Return a text of several lines, each of them printable; those after the first are indented.

    So none of them looks like the beginning of another record. Of more than `MAX_LINES`, those in the middle are
    left out.

    Args:
        text: The untrusted text.
        indent: The beginning of the lines after the first.
    """
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        lines[MAX_LINES // 2 : -MAX_LINES // 2] = [f"… {len(lines) - MAX_LINES} lines are left out …"]
    return f"\n{indent}".join(map(printable, lines))


# What others quote of our secrets.

MASK: Final = "***"
"""What stands in a text in place of a secret."""

SECRET_PART: Final = 12
"""So many characters of a secret in a row are masked where a text has not all of it."""

_SECRET_FIELD: Final = re.compile(
    r"(?!mcp-|sec-|idempotency-).*(auth(?!ors?$)|cookie|token|secret|key|password|credential|dpop)", re.IGNORECASE
)
"""The names of header fields whose values are secrets."""


def secrets_in(fields: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
    """Return what of header fields is secret: credentials without their scheme, and the password in them."""
    found: list[str] = []
    for name, value in ((name.decode("latin-1"), value.decode("latin-1")) for name, value in fields):
        if _SECRET_FIELD.match(name) is None:
            continue
        scheme, _, credentials = value.partition(" ")
        is_scheme = "auth" in name.lower() and credentials
        found += [credentials.strip()] if is_scheme else [each.split("=", 1)[-1] for each in value.split("; ")]
        if scheme.lower() == "basic":
            with suppress(ValueError):
                found.append(base64.b64decode(credentials).decode("utf-8", "replace").partition(":")[2])
    return tuple(found)


def without_secrets(value: Any, secrets: Sequence[str], *, only_whole: bool = False) -> Any:
    """Return what was received, a text or plain JSON, with what it quotes of secrets that were sent masked.

    That is each of them as a whole, and each part of `SECRET_PART` characters, also where it is percent-encoded.
    Cut texts after this: half a secret may be shorter than that.

    Args:
        value: What was received.
        secrets: What was sent.
        only_whole: Whether parts are let be, in what is not only for people: a URL may have one by chance.
    """
    return masking(secrets, only_whole=only_whole)(value)


def masking(secrets: Sequence[str], *, only_whole: bool = False) -> Callable[[Any], Any]:
    """Return what masks secrets in one value after another, as `without_secrets` does: they are cut up once."""
    masks = [_mask_of(form, only_whole=only_whole) for each in secrets for form in _forms(each)]

    def mask(value: Any) -> Any:
        try:
            return _masked(value, masks) if masks else value
        except RecursionError:
            return MASK

    return mask


def _forms(secret: str) -> set[str]:
    data = secret.encode("utf-8", "surrogatepass")  # half a surrogate pair cannot be quoted
    return {secret, quote(data, safe=""), quote_plus(data)} - {""}


def _masked(value: Any, masks: Iterable[Callable[[str], str]]) -> Any:
    if isinstance(value, str):
        return reduce(lambda text, mask: mask(text), masks, value)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {_masked(name, masks): _masked(inner, masks) for name, inner in members}
    if isinstance(value, list):
        return [_masked(inner, masks) for inner in cast("list[object]", value)]
    return value


def _mask_of(secret: str, *, only_whole: bool) -> Callable[[str], str]:
    size = len(secret) if only_whole else min(len(secret), SECRET_PART)
    if size < 4:  # it may be a part of any word
        return partial(re.compile(rf"(?<!\w){re.escape(secret)}(?!\w)").sub, MASK)
    return partial(_without, size, frozenset(secret[at : at + size] for at in range(len(secret) - size + 1)))


def _without(size: int, parts: frozenset[str], text: str) -> str:
    kept: list[str] = []
    end = 0  # of what was looked at, and kept or masked
    for at in _places(size, parts, text) if len(text) >= size else ():
        if at > end or not kept:
            kept += text[end:at], MASK
        end = at + size
    return "".join((*kept, text[end:])) if kept else text


def _places(size: int, parts: frozenset[str], text: str) -> Iterable[int]:
    if len(parts) > 1:
        return (at for at in range(len(text) - size + 1) if text[at : at + size] in parts)
    (whole,) = parts
    found = re.finditer(f"(?={re.escape(whole)})", text) if whole in text else ()  # they may overlap
    return (each.start() for each in found)


# What is shown of URLs and of command lines, which may have secrets of our own


@final
class Expanded(str):
    """A text in which variables of the environment stand, of which `values` are not shown to anybody."""

    __slots__ = ("values",)
    values: tuple[str, ...]

    @classmethod
    def of(cls, text: str, values: Sequence[str]) -> str:
        """Return a text with the values in it; the text itself if there are none."""
        if not values:
            return text
        made = cls(text)
        made.values = tuple(values)
        return made


def values_in(text: object) -> tuple[str, ...]:
    """Return which values of variables are in a text."""
    return text.values if isinstance(text, Expanded) else ()


def without_values(text: str) -> str:
    """Return a text in which values of variables are masked."""
    shown: str = without_secrets(text, values_in(text), only_whole=True)
    return shown


_MAX_SHOWN: Final = 300
"""How many characters of a URL are quoted in messages."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{0,30}://")


def without_query(path: str) -> str:
    """Return what of a path may be shown: keys and tokens are in queries."""
    before, mark, _ = path.partition("?")
    return f"{before}{mark}…" if mark else path


def shown_name(name: str) -> str:
    """Return what may be shown of a name: ``KEY=value`` may have been written in its place."""
    begin = re.split("[:=]", name, maxsplit=1)[0]
    return name if begin == name else f"{begin}{HIDDEN}"


def shown_url(url: str) -> str:
    """Return what of a URL, valid or not, may be shown: no password, and no key or token."""
    url = without_values(url)
    if "@" in url:  # anywhere: a password may contain what ends a host, and a URL without a scheme another one
        scheme = _SCHEME.match(url)
        return "…" if scheme is None else f"{scheme[0]}…"
    return printable(without_query(url.partition("#")[0]), _MAX_SHOWN)


HIDDEN: Final = "…"
"""What is shown in place of a secret."""

SECRET_WORD: Final = re.compile(
    r"key|token|secret|pass|pwd|auth|bearer|jwt|credential|cookie|(?<![a-z])(?:pat|pw|otp|pin)(?![a-z])",
    re.IGNORECASE,
)
"""What the names of secrets have in them."""

_CREDENTIALS_FOLLOW: Final = frozenset({"basic", "bearer", "digest", "dpop", "token"})
"""Words behind which credentials stand."""
_OPTIONS: Final = frozenset({"-p", "-k"})
"""Options that are passwords and keys in one program or another."""
_USERS: Final = frozenset({"-u", "--user"})
"""Options whose values may be a name and a password."""
_WHOLE: Final = re.compile(
    rf"((?:{SECRET_WORD.pattern})[^=;]{{0,40}}=)[^;]*;.*|(;[^=;]{{0,40}}(?:{SECRET_WORD.pattern})[^=;]{{0,40}}=).*"
    r"|-----BEGIN.*|[\[{][\[{\s\\]{0,40}['\"].*",
    re.IGNORECASE | re.DOTALL,
)
"""The password of a database and what follows it, a private key, or JSON: hidden to the end of the argument."""
_WITH_BLANKS: Final = re.compile(r"\$\{[^{}\s]*\s[^{}]*\}")
"""A variable that stands for several words, if it is not set."""
_RANDOM: Final = re.compile(r"(?<=/)(?=[^/]*[A-Z0-9])[\w~.%+=-]{20,}(?=/|$)")
"""A part of a URL's path that may be a token."""
_LOOKS_SECRET: Final = re.compile(r"(?<![A-Za-z])(?:sk|pk|gh[opsu]|glpat|xox\w|AKIA|eyJ)[-_\w]{12,}")


def shown_command(command: str) -> str:
    """Return what may be shown of a command in one text, in which arguments may have been written by mistake."""
    program, blank, rest = without_values(command).partition(" ")
    if "=" in program or "://" in program:  # a variable before it, or a URL in its place
        return arguments_without_secrets([command])[0]
    return program + blank + arguments_without_secrets([rest])[0]


_SCRIPT: Final = re.compile(r"(?!-)[^=?#\n]{1,200}\.(?:pyz?|pyw|[cm]?[jt]sx?|rb|sh|jar|php|ps1)(?::\w+)?")
"""An argument that is the program itself, for the command is an interpreter."""


def shown_process(command: str, arguments: Sequence[str]) -> str:
    """Return what may be shown of a process: its command, and which script or module of Python that runs."""
    shown = arguments_without_secrets(arguments)
    open_ones = [given if given == seen else HIDDEN for given, seen in zip(arguments, shown, strict=True)]
    what = next((word for word in open_ones if _SCRIPT.fullmatch(word)), None)
    if what is None and re.search(r"(?:^|[/\\])(?:py|uv)[^/\\]*$", command):
        modules = (word for option, word in pairwise(open_ones) if option == "-m")
        what = next((f"-m {word}" for word in modules if re.fullmatch(r"[\w.]+", word)), None)
    return shown_command(command) if what is None else f"{shown_command(command)} {what}"


def arguments_without_secrets(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command; one may be a command line of its own, as that of a shell is."""
    shown: list[str] = []
    is_next_secret = False
    before = ""
    for given in arguments:
        argument = _WHOLE.sub(rf"\1\2{HIDDEN}", _WITH_BLANKS.sub(HIDDEN, without_values(given)))
        words: list[str] = []
        # An option's value is one argument, whatever is in it.
        for word in [argument] if is_next_secret else argument.split(" "):
            visible, is_next_secret = _without_secret(word, before, is_next_secret=is_next_secret)
            before = word
            if visible != HIDDEN or words[-1:] != [HIDDEN]:
                words.append(visible)
        shown.append(" ".join(words))
        # What follows a header field is another argument, what follows an option is its value.
        is_next_secret = is_next_secret and argument.startswith(("-", "/")) and " " not in argument
    return shown


def _without_secret(word: str, before: str, *, is_next_secret: bool) -> tuple[str, bool]:
    """Return what is shown of a word, and whether the next one is a secret."""
    bare = word.strip("'\"")
    name, equals, _ = word.partition("=")
    field, colon, rest = word.partition(":")
    if is_next_secret:
        return HIDDEN, bare.lower() in _CREDENTIALS_FOLLOW or not bare
    if "://" in word:
        start = word.index("://")
        start = max(word.rfind(each, 0, start) for each in "='\"") + 1
        return word[:start] + _RANDOM.sub(HIDDEN, shown_url(word[start:])), False
    if _LOOKS_SECRET.search(word):
        return HIDDEN, False
    if colon and rest and before in _USERS:
        return f"{field}:{HIDDEN}", False
    if equals and (SECRET_WORD.search(name) or name in _OPTIONS or (colon and name in _USERS)):
        return f"{name}={HIDDEN}", bare.partition("=")[2].lower() in _CREDENTIALS_FOLLOW
    if colon and SECRET_WORD.search(field):
        follows = not rest or re.split(r"\W", rest.lower())[-1] in _CREDENTIALS_FOLLOW
        return f"{field}: {HIDDEN}" if rest else word, follows
    is_option = not equals and re.match(r"-|/[\w-]+$", bare) is not None
    is_secret = SECRET_WORD.search(bare) is not None or bare in _OPTIONS
    return word, (is_option and is_secret) or bare.lower() in _CREDENTIALS_FOLLOW


# Why there is no connection


def without_tls(reason: str, plain: str) -> str:
    """Return what to say of a failure of TLS that another scheme of the URL would have spared, after its reason.

    Args:
        reason: The reason, as OpenSSL names it.
        plain: The scheme without TLS.
    """
    # What has come is no record of TLS: OpenSSL takes its first bytes for a version.
    return f"; the server there seems to speak no TLS: {plain}://?" if reason == "WRONG_VERSION_NUMBER" else ""


def reason_of(error: BaseException) -> str:
    """Return why a connection could not be made, in a few words.

    Trio raises one error, caused by a group with one for each address.
    """
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        several = cast("BaseExceptionGroup[BaseException]", cause)
        return "; ".join(dict.fromkeys(reason_of(each) for each in several.exceptions))
    if isinstance(cause, OSError):
        return reason_of(cause)
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    if reason.startswith("Error connecting to "):  # Trio's, with the address, which the caller names
        reason = reason.rpartition(": ")[2]
    return f"{reason} (no server listens there)" if isinstance(error, ConnectionRefusedError) else reason
