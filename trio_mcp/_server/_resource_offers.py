"""The part of a server by which its author registers resources.

What resources are made of is imported when the first one is registered: many servers have none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import attrs

from .. import types
from .._core._uris import check_uri
from .._limits import Limits, check_whole
from ._calling import read_handler
from ._depends import anything
from ._resources import Offer, ResourceRegistry

if TYPE_CHECKING:
    from .._core._uri_template import UriTemplate

__all__ = ["ResourceOffers"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ResourceOffers:
    """Registers resources; a server is one."""

    _resources: ResourceRegistry
    _limits: Limits

    def resource(
        self,
        uri: str,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: types.Annotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        size: int | None = None,
        meta: Mapping[str, object] | None = None,
        ttl: float = 0,
        scope: types.CacheScope = "private",
        timeout: float | None = None,
        thread: bool = True,
        unsafe_variables: Collection[str] = (),
    ) -> Callable[[_Function], _Function]:
        """Register a function as a resource: ``@server.resource("orders://recent")``.

        With ``{…}`` in the URI it is a template (RFC 6570): ``"orders://{order_id}/lines{?page}"``. Each variable
        is given to the parameter of its name, converted from text by its hint. Variables that a URI may lack,
        those of ``{?…}``, ``{/…}``, ``{#…}`` and ``{.…}``, are parameters with a default; those of ``{name*}``
        are lists. ``{name}`` ends at a slash, ``{+name}`` does not. A parameter annotated `Context` is given the
        context.

        What the variables say is decoded. Values that lead elsewhere when they are put into a path are refused
        with -32602 before the function, or one that completes them, is called: those with a NUL or with ``..``
        between slashes or backslashes; those that begin with either or with a drive; and those with either
        anywhere, except for ``{+name}``, ``{#name}`` and the pairs of a query. The same holds if it shows when
        they are decoded again. To serve files, use `add_directory` all the same: it knows links, too.

        The function returns text, bytes, `File`, `Image`, `Audio`, `TextResourceContents`,
        `BlobResourceContents`, or a list with any of those; anything else is sent as JSON. It raises
        `ResourceNotFound` if there is nothing; a `RequestError` is the answer as it is; anything else is logged
        in full and shown to nobody. A plain ``def`` runs in a thread, as with `tool`.

        Args:
            uri: The URI or the template.
            name: Its name, for programs; the function's own if `None`.
            title: Its name, for people.
            description: What it is; the docstring if `None`.
            mime_type: Its type. By default what the URI ends with tells, then what is returned.
            annotations: Hints for the client.
            icons: What to show for it.
            size: Its size in bytes, if known. A template has none.
            meta: Its `_meta`.
            ttl: For how many seconds clients may keep what they have read.
            scope: ``"public"`` if what is read is the same for everybody, so that it may be shared.
            timeout: After how many seconds reading is cancelled, and fails.
            thread: Whether a plain ``def`` runs in a thread; if not, it must not block.
            unsafe_variables: Names of variables that the function takes whatever they say, because it makes no
                path of them or checks them itself.

        Raises:
            TypeError: A parameter has no form in JSON.
            ValueError: The URI or template is none, or is taken; it can be read in several ways; its variables
                and the function's parameters do not agree; or another argument is out of bounds.

        Spec: 2026-07-28, server/resources, "Security Considerations"; server/utilities/caching.
        """
        from .._core._uri_template import UriTemplate
        from ._mime import type_of_result
        from ._resource_functions import FunctionSource, matcher_for, refuse_parameters, returned_hint, rule_for

        if size is not None:
            check_whole("size", size, at_least=0)
        template = UriTemplate(uri) if "{" in uri else None
        if template is None:
            if unsafe_variables:
                raise ValueError(f"{uri!r:.200} is no template, and has no variables")
            self._check(uri)
        else:
            self._check_template(template, size)

        def register(function: _Function) -> _Function:
            handler = read_handler(function, thread=thread, unstructured=anything)
            spec = handler.spec
            told = spec.description if description is None else description
            described = _Described(
                name=spec.name if name is None else name,
                title=title,
                description=told,
                annotations=annotations,
                icons=icons,
                meta=meta,
            )
            source = FunctionSource(handler=handler)
            if template is None:
                refuse_parameters(spec, uri)
                kind = mime_type or type_of_result(uri, returned_hint(function))
                resource = types.Resource(uri=uri, mime_type=kind, size=size, **described)
                source = attrs.evolve(source, resource=resource)
            else:
                matcher = matcher_for(template, spec)
                kind = mime_type or type_of_result(uri, None)
                told_of_all = types.ResourceTemplate(uri_template=uri, mime_type=kind, **described)
                rule = rule_for(matcher, unsafe_variables)
                source = attrs.evolve(source, template=told_of_all, matcher=matcher, rule=rule)
            self._resources.entries.add(uri, Offer(source=source, ttl=ttl, scope=scope, timeout=timeout))
            return function

        return register

    def add_resource(
        self,
        uri: str,
        content: str | bytes,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: types.Annotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, object] | None = None,
        ttl: float = 0,
        scope: types.CacheScope = "private",
    ) -> None:
        """Register text or bytes as a resource.

        Args:
            uri: The URI.
            content: The text or the bytes.
            name: Its name, for programs; by default the last part of the URI.
            title: Its name, for people.
            description: What it is.
            mime_type: Its type. By default what the URI ends with tells, then what the content is.
            annotations: Hints for the client.
            icons: What to show for it.
            meta: Its `_meta`.
            ttl: For how many seconds clients may keep it.
            scope: ``"public"`` if it is the same for everybody.

        Raises:
            ValueError: The URI is none, or is taken, or another argument is out of bounds.
        """
        from ._contents import plain_contents
        from ._mime import type_of_result
        from ._resource_functions import ConstantSource

        self._check(uri)
        contents = plain_contents(content, uri, mime_type or type_of_result(uri, None))
        size = len(content.encode()) if isinstance(content, str) else len(content)
        resource = types.Resource(
            uri=uri,
            name=uri.rstrip("/").rpartition("/")[2] or uri if name is None else name,
            title=title,
            description=description,
            mime_type=contents.mime_type,
            size=size,
            annotations=annotations,
            icons=icons,
            meta=meta,
        )
        source = ConstantSource(resource=resource, result=types.ReadResourceResult(contents=(contents,)))
        self._resources.entries.add(uri, Offer(source=source, ttl=ttl, scope=scope))

    def add_file(
        self,
        path: str | os.PathLike[str],
        *,
        uri: str | None = None,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: types.Annotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, object] | None = None,
        ttl: float = 0,
        scope: types.CacheScope = "private",
    ) -> None:
        """Register a file as a resource. It is read anew each time, in a thread, up to `Limits.max_file_bytes`.

        Its size and when it last changed are told in the list. While there is no such file, it is not listed, and
        not found.

        Args:
            path: Where it is; it may be a symbolic link.
            uri: Its URI; by default ``file://`` and its absolute path.
            name: Its name, for programs; the file's own if `None`.
            title: Its name, for people.
            description: What it is.
            mime_type: Its type. By default what its name tells, then its bytes.
            annotations: Hints for the client.
            icons: What to show for it.
            meta: Its `_meta`.
            ttl: For how many seconds clients may keep it.
            scope: ``"public"`` if it is the same for everybody.

        Raises:
            ValueError: The URI is none, or is taken, or another argument is out of bounds.
        """
        from ._files import FileSource
        from ._mime import guess_type

        absolute = Path(path).absolute()
        uri = absolute.as_uri() if uri is None else uri
        self._check(uri)
        resource = types.Resource(
            uri=uri,
            name=absolute.name if name is None else name,
            title=title,
            description=description,
            mime_type=guess_type(absolute.name) if mime_type is None else mime_type,
            annotations=annotations,
            icons=icons,
            meta=meta,
        )
        source = FileSource(path=str(absolute), resource=resource)
        self._resources.entries.add(uri, Offer(source=source, ttl=ttl, scope=scope))

    def add_directory(
        self,
        path: str | os.PathLike[str],
        *,
        uri: str | None = None,
        pattern: str = "**/*",
        hidden: bool = False,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: types.Annotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, object] | None = None,
        ttl: float = 0,
        scope: types.CacheScope = "private",
    ) -> None:
        """Register the files beneath a directory as resources.

        They are listed, up to `Limits.max_listed_files`, and offered as a template. Whatever a client asks for,
        no file outside is read: ``..``, absolute paths and symbolic links that lead out of the directory lead
        nowhere, also if something is renamed meanwhile. Links within are followed if they are relative.

        Args:
            path: The directory.
            uri: What the URIs of its files begin with; by default ``file://`` and its absolute path.
            pattern: Which files there are: ``*`` for any part of a name, ``**`` for any folders.
            hidden: Whether files and folders whose names begin with a dot are among them.
            name: The template's name, for programs; the directory's own if `None`.
            title: The template's name, for people.
            description: What the files are.
            mime_type: The type of all of them. By default each one's name tells, then its bytes.
            annotations: Hints for the client, about each of them.
            icons: What to show for each of them.
            meta: The template's `_meta`.
            ttl: For how many seconds clients may keep a file.
            scope: ``"public"`` if they are the same for everybody.

        Raises:
            ValueError: The URI or the pattern is none, or is taken, or another argument is out of bounds.

        Spec: 2026-07-28, server/resources, "Security Considerations".
        """
        from ._files import DirectorySource, directory_prefix

        absolute = Path(path).absolute()
        prefix = directory_prefix(absolute, uri, max_length=self._limits.max_uri_length)
        template = types.ResourceTemplate(
            uri_template=prefix + "{+path}",
            name=absolute.name or prefix if name is None else name,
            title=title,
            description=description,
            mime_type=mime_type,
            annotations=annotations,
            icons=icons,
            meta=meta,
        )
        source = DirectorySource(
            root=str(absolute),
            prefix=prefix,
            pattern=pattern,
            hidden=hidden,
            template=template,
            limits=self._limits,
        )
        self._resources.entries.add(prefix, Offer(source=source, ttl=ttl, scope=scope))

    def remove_resource(self, uri: str) -> None:
        """Take away a resource, template or directory. Reads of it that are under way go on.

        Args:
            uri: As it was registered; for a directory, what the URIs of its files begin with.

        Raises:
            LookupError: There is none.
        """
        self._resources.entries.remove(uri)

    def enable_resource(self, uri: str) -> None:
        """Show a resource, template or directory to clients again.

        Raises:
            LookupError: There is none.
        """
        self._resources.entries.switch(uri, enabled=True)

    def disable_resource(self, uri: str) -> None:
        """Hide a resource, template or directory from clients until it is enabled. It keeps its place.

        Raises:
            LookupError: There is none.
        """
        self._resources.entries.switch(uri, enabled=False)

    def _check(self, uri: str) -> None:
        try:
            check_uri(uri, max_length=self._limits.max_uri_length)
        except ValueError as error:
            raise ValueError(f"{uri!r:.200} cannot be registered: {error}") from error

    def _check_template(self, template: UriTemplate, size: int | None) -> None:
        if size is not None:
            raise ValueError(f"{template}: the resources of a template have no size in common")
        # What it expands to must be a URI. If it begins with a variable, that depends.
        if isinstance(template.parts[0], str):
            self._check(template.expand(dict.fromkeys(template.variables, "x")))


class _Described(TypedDict):
    """What resources and templates say alike."""

    name: str
    title: str | None
    description: str | None
    annotations: types.Annotations | None
    icons: Sequence[types.Icon] | None
    meta: Mapping[str, object] | None
