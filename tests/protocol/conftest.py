"""Every test of a `meeting` runs in all revisions and over all bindings, unless it says otherwise."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, Final

import pytest
from meeting import ALL, BINDINGS, MODES, Hosts, Meeting

from trio_mcp import Revision


@pytest.fixture(params=ALL)
def revision(request: pytest.FixtureRequest) -> Any:
    """What is spoken."""
    return Revision(request.param)


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> Any:
    """How client and server are connected."""
    return request.param


LACKING: Final = {"json": {"reports"}, "stateless": {"questions", "changes", "levels"}}
"""What cannot be had over HTTP in a mode: what a handler says before it answers, in order with the answer; questions to
the client; being told of changes; a log level that is kept. `test_http_modes.py` shows what becomes of it.
"""


def _is_possible(item: pytest.Item) -> bool:
    callspec: Any = getattr(item, "callspec", None)
    params: dict[str, Any] = {} if callspec is None else callspec.params
    mode: str = params.get("binding", "")
    if mode not in MODES or "meeting" not in getattr(item, "fixturenames", ()):
        return True
    revision = Revision(params["revision"])
    needs = {need for mark in item.iter_markers("needs") for need in mark.args}
    # HTTP+SSE has no modes, and the modern era no other state than none.
    return revision in MODES[mode] and not needs & LACKING[mode]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a mode of serving HTTP does not have."""
    left_out = [item for item in items if not _is_possible(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if _is_possible(item)]


@pytest.fixture(scope="session")
def hosts() -> Iterator[Hosts]:
    """The meetings that are open."""
    hosts = Hosts()
    yield hosts
    hosts.end_all()


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember which tests have failed."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture
def meeting(request: pytest.FixtureRequest, hosts: Hosts, revision: Revision, binding: str) -> Iterator[Meeting]:
    """A client and a server that talk."""
    meeting = hosts.meeting(revision, binding)
    yield meeting
    if request.node.stash.get(_FAILED, False):
        hosts.end(meeting)
