"""Every public name, and the module it lives in: written here and nowhere else; see `_lazily`."""
# ruff: noqa: PLC0414

from ._answers import ReceivedRequest as ReceivedRequest
from ._authorization_server import AuthorizationServer as AuthorizationServer
from ._channel_tests import ChannelTests as ChannelTests
from ._clients import open_client as open_client
from ._faults import Fault as Fault
from ._faults import Faulty as Faulty
from ._faulty_streams import FaultyStream as FaultyStream
from ._http_faults import FaultyApp as FaultyApp
from ._http_faults import HttpFault as HttpFault
from ._issuing import AuthorizationClient as AuthorizationClient
from ._leftovers import assert_nothing_left as assert_nothing_left
from ._matching import Same as Same
from ._matching import ScriptMismatch as ScriptMismatch
from ._records import VOLATILE as VOLATILE
from ._records import RecordedFrame as RecordedFrame
from ._records import Recorder as Recorder
from ._records import Recording as Recording
from ._records import replay_client as replay_client
from ._records import replay_server as replay_server
from ._scripts import Expect as Expect
from ._scripts import Say as Say
from ._scripts import Script as Script
from ._scripts import ScriptedPeer as ScriptedPeer
from ._scripts import scripted_client as scripted_client
from ._scripts import scripted_server as scripted_server
from ._task_store_tests import SharedTaskStoreTests as SharedTaskStoreTests
from ._task_store_tests import TaskStoreTests as TaskStoreTests
