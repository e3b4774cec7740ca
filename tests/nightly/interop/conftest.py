"""What the tests with other implementations share."""

from __future__ import annotations

from collections.abc import Generator

import attrs
import pytest
from children import overlook_children
from their_servers import TheirServer


@pytest.fixture(scope="module", autouse=True)
def _no_proxies() -> Generator[None]:
    """Proxies of the machine that runs the tests must not matter to anybody."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            patch.delenv(name, raising=False)
            patch.delenv(name.upper(), raising=False)
        yield


@pytest.fixture(autouse=True)
def _children_of_others() -> None:
    """What has been started for several tests, here or in another folder, is not one test's to end."""
    overlook_children()


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Generator[TheirServer]:
    """A server of another implementation, for tests marked with `every`; one that listens is running."""
    server: TheirServer = request.param
    if server.transport == "stdio":
        yield server
    else:
        with server.open_listener() as listener:
            yield attrs.evolve(server, url=listener.url(server.transport))


@pytest.hookimpl(
    trylast=True
)  # after pytest's own order, which knows only the places of parameters in their lists
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of a module with the same server follow each other, so that it is started once.

    Those without come first: they may look for processes that are left, while one that listens stays for its turn.
    """
    places: dict[object, int] = {}

    def place(item: pytest.Item) -> tuple[int, int]:
        server = getattr(getattr(item, "callspec", None), "params", {}).get("server")
        turn = places.setdefault((item.path, id(server)), len(places)) if isinstance(server, TheirServer) else -1
        return places.setdefault(item.path, len(places)), turn

    items.sort(key=place)
