"""The Model Context Protocol for Trio: structured concurrency all the way to the wire.

Imports point down only. The floors, lowest first:

    _absent, _version, _printable
    _errors, _logs, _audit, _lazily, _limits, _revisions, _trio
    types                    what is on the wire, one class per concept
    _codec                   bytes, JSON-RPC messages, wire types
    _core                    the rules of the protocol, without I/O
    _oauth                   the rules of OAuth, for both sides, without I/O
    _channel                 what a transport must give
    _http                    HTTP/1.1 as a client speaks it
    _auth                    how a client is authorized, and whom a server lets in
    _bindings                the transports
    _peer                    one end of one connection
    _schema                  from Python signatures to JSON Schema and back
    _client, _server         what users touch; neither knows the other
    _proxy                   a server that forwards to another one
    _endpoint                a server's HTTP endpoint, both eras
    _hosts                   what carries it, and what listens: ASGI, Hypercorn, sockets
    _workers                 several processes that are one server
    testing, otel            what transports are tested with; OpenTelemetry
    _bench                   any server and any client, measured
    _cli, __main__           the command line
    _public                  where each public name lives
    this module
"""

from typing import TYPE_CHECKING

from ._lazily import attach as _attach
from ._version import __version__ as __version__

if TYPE_CHECKING:
    from ._public import *
else:  # type checkers would take any name for one that exists
    # What users catch or compare is imported from the start.
    __getattr__, __dir__, __all__ = _attach(__name__, eager=("_absent", "_errors"))
    __all__ += ["__version__"]
