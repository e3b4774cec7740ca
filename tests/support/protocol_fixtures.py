"""Every test of a `meeting` runs in all revisions, and over all bindings in those that `MET` names, unless it says otherwise."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest
from meeting import ALL, BINDINGS, MET, Hosts, Meeting

from trio_mcp import Revision


@pytest.fixture(params=ALL)
def revision(request: pytest.FixtureRequest) -> Any:
    """What is spoken."""
    return Revision(request.param)


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> Any:
    """How client and server are connected."""
    return request.param


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is a product only: a binding that a test has not chosen, in revisions in which it is not met."""
    config.hook.pytest_deselected(items=[item for item in items if _is_product(item)])
    items[:] = [item for item in items if not _is_product(item)]


def _is_product(item: pytest.Item) -> bool:
    chosen = [mark.args[0] for mark in item.iter_markers("parametrize")]
    if not isinstance(item, pytest.Function) or "meeting" not in item.fixturenames or "binding" in chosen:
        return False
    params: dict[str, Any] = item.callspec.params
    return params["revision"] not in MET[params["binding"]]


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
    meeting = hosts.meeting(Revision(revision), binding)  # a test may say it by its name
    yield meeting
    if request.node.stash.get(_FAILED, False):
        hosts.end(meeting)
