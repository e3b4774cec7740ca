"""What every client in Python does with ``full_server.py``, and what its user answers; findings are lines of JSON.

An SDK is known here by an adapter, whose methods take and return what is on the wire, as plain JSON. `STEPS` in the
environment names the steps to take, if not all of them.
"""

# It runs in other environments, on packages that are not installed in this one.
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202, ANN204
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import json
import os
from pathlib import Path

import anyio

CHOSEN = os.environ.get("STEPS", "").split()
PATIENCE = 10
"""Seconds for one step, which takes some milliseconds."""

CHANGES = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}
LAST_LOGGED = ["error", None, "disk full"]
VALUES = {
    "First?": "one",
    "Second, after one?": "two",
    "Well?": "well",
    "The word?": "sesame",
    "Your name?": "Ada",
}


def found(name, value):
    print(json.dumps({"finding": name, "value": value}), flush=True)


class User:
    """Answers what the server asks, and remembers what was said to it."""

    def __init__(self):
        self.roots = [{"uri": "file:///first", "name": "first"}]
        self.bookings = [
            {"action": "accept", "content": {"name": "Ada", "nights": 2, "room": "double"}},
            {"action": "decline"},
            {"action": "cancel"},
        ]
        self.questions = {}
        self.logged = []
        self.changed = []
        self.updated = []
        self.completed = []
        self.waits = anyio.Event()
        self.may_answer = anyio.Event()
        self.was_cancelled = False

    async def sample(self, params):
        self.questions["sample"] = params
        last = params["messages"][-1]["content"]
        last = last[0] if isinstance(last, list) else last
        if last["type"] == "tool_result":
            content, reason = {"type": "text", "text": f"It is {last['content'][0]['text']} warm."}, "endTurn"
        elif params.get("tools"):
            use = {"type": "tool_use", "id": "use-1", "name": "weather", "input": {"city": "Kyiv"}}
            content, reason = [use], "toolUse"
        else:
            content, reason = {"type": "text", "text": f"heard {last['text']}"}, "endTurn"
        return {"role": "assistant", "content": content, "model": "scripted", "stopReason": reason}

    async def elicit(self, params):
        message = params["message"]
        self.questions[message] = params
        if message == "Your booking, please.":
            return self.bookings.pop(0)
        if message == "On your pizza?":
            return {"action": "accept", "content": {"toppings": ["basil", "olives"]}}
        if message in {"Please pay.", "Please pay first."}:
            return {"action": "accept"}
        if message == "In vain?":
            self.waits.set()
            try:
                await self.may_answer.wait()
            except anyio.get_cancelled_exc_class():
                self.was_cancelled = True
                raise
            return {"action": "accept", "content": {"value": "too late"}}
        return {"action": "accept", "content": {"value": VALUES[message]}}

    async def list_roots(self):
        return {"roots": self.roots}

    def notified(self, method, params):
        """Take a notification of the server."""
        if method in CHANGES:
            self.changed.append(CHANGES[method])
        elif method == "notifications/resources/updated":
            self.updated.append(params["uri"])
        elif method == "notifications/elicitation/complete":
            self.completed.append(params["elicitationId"])

    def heard_log(self, params):
        self.logged.append([params["level"], params.get("logger"), params["data"]])

    async def wait_until(self, condition):
        while not condition():
            await anyio.sleep(0.01)


class Script:
    """The steps. Each is tried, whatever has become of those before it."""

    def __init__(self, adapter, user, marker):
        self._adapter = adapter
        self._user = user
        self._marker = Path(marker)

    async def run(self):
        is_modern = self._adapter.revision >= "2026"
        await self._step("tools", self._list_tools)
        for name, arguments in [
            ("weather", {"city": "Kyiv", "country": "UA"}),
            ("primes", {}),
            ("contents", {}),
            ("broken", {}),
        ]:
            await self._step(name, self._call, name, **arguments)
        await self._step("wrong", self._call, "weather", city="")
        await self._step("steps", self._follow_progress)
        await self._step("given_up", self._give_up)
        await self._step("log", self._log)
        await self._step("resources", self._list, self._adapter.list_resources, "resources")
        await self._step("templates", self._list, self._adapter.list_templates, "resourceTemplates")
        for name, uri in [
            ("read_text", "notes://today"),
            ("read_binary", "notes://picture.png"),
            ("read_both", "notes://both"),
            ("read_template", "notes://orwell/animal%20farm"),
            ("read_missing", "notes://lem/nothing"),
            ("read_asking", "notes://diary"),
        ]:
            await self._step(name, self._adapter.read, uri)
        await self._step("prompts", self._list, self._adapter.list_prompts, "prompts")
        for name, arguments in [
            ("greet", None),
            ("review", {"title": "Solaris", "tone": "honest"}),
            ("personal", {}),
        ]:
            await self._step(name, self._adapter.get_prompt, name, arguments)
        await self._step("prompt_wrong", self._adapter.get_prompt, "review", {"title": "Solaris", "tone": "loud"})
        template = {"type": "ref/resource", "uri": "notes://{author}/{title}"}
        for name, ref, argument, context in [
            ("complete_prompt", {"type": "ref/prompt", "name": "review"}, ("tone", "h"), None),
            ("complete_template", template, ("author", "o"), None),
            ("complete_context", template, ("title", ""), {"author": "lem"}),
        ]:
            await self._step(name, self._adapter.complete, ref, *argument, context)
        await self._step("summarise", self._call, "summarise", text="a long text")
        found("summarise_question", self._user.questions.get("sample"))
        await self._step("research", self._call, "research")
        for name in ("book", "book_declined", "book_cancelled"):
            await self._step(name, self._call, "book")
        found("book_question", self._user.questions.get("Your booking, please."))
        await self._step("pizza", self._call, "pizza")
        await self._step("pay", self._call, "pay")
        found("pay_question", self._user.questions.get("Please pay."))
        found("pay_completed", self._user.completed)
        await self._step("pay_first", self._call, "pay_first")
        await self._step("where", self._call, "where")
        if not is_modern:
            await self._step("where_next", self._change_roots)
        await self._step("wizard", self._call, "wizard")
        await self._step("ask_all", self._call, "ask_all")
        await self._step("updates", self._listen if is_modern else self._subscribe)
        found("changes", sorted(self._user.changed))
        await self._step("ask_in_vain", self._ask_in_vain)

    async def _step(self, name, function, *args, **kwargs):
        if CHOSEN and name not in CHOSEN:
            return
        try:
            with anyio.fail_after(PATIENCE):
                value = await function(*args, **kwargs)
        except Exception as error:
            while inner := getattr(error, "exceptions", None):
                error = inner[0]
            if isinstance(error, NotImplementedError):
                return  # the SDK has no such thing
            told = getattr(error, "error", error)
            if hasattr(error, "args") and hasattr(error.args[0] if error.args else None, "code"):
                told = error.args[0]  # where the first release keeps it
            value = {
                "refused": getattr(told, "code", type(error).__name__),
                "message": getattr(told, "message", str(error)),
                "data": getattr(told, "data", None),
            }
        found(name, value)

    async def _call(self, name, /, **arguments):
        return await self._adapter.call_tool(name, arguments)

    async def _list(self, ask, key):
        items, cursor = [], None
        while True:
            page = await ask(cursor)
            items += page[key]
            cursor = page.get("nextCursor")
            if cursor is None:
                return items

    async def _list_tools(self):
        return await self._list(self._adapter.list_tools, "tools")

    async def _follow_progress(self):
        seen = []
        async with anyio.create_task_group() as tasks:

            async def on_progress(progress, total, message):
                seen.append([progress, total, message])
                tasks.start_soon(self._adapter.call_tool, "proceed", {})

            await self._adapter.call_tool("steps", {}, on_progress)
        return seen

    async def _give_up(self):
        has_begun = anyio.Event()

        async def on_progress(*_):
            has_begun.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._adapter.call_tool, "steps", {}, on_progress)
            await has_begun.wait()
            await self._adapter.give_up(tasks.cancel_scope)
        return await self._call("primes")

    async def _log(self):
        await self._adapter.set_log_level("warning")
        await self._adapter.call_tool("log_all", {})
        await self._user.wait_until(lambda: self._user.logged[-1:] == [LAST_LOGGED])
        return self._user.logged

    async def _change_roots(self):
        self._user.roots.append({"uri": "file:///second"})
        await self._adapter.roots_changed()
        return await self._call("where_next")

    async def _subscribe(self):
        user = self._user
        await self._adapter.subscribe("notes://today")
        await self._make_changes()
        await self._adapter.unsubscribe("notes://today")
        await self._call("touch", uri="notes://today")
        await self._call("primes")  # what was said before this is here
        return user.updated

    async def _listen(self):
        async with self._adapter.listen("notes://today"):
            await self._make_changes()
        await self._call("primes")  # an SDK may say later than this is left that it listens no more
        await self._call("touch", uri="notes://today")
        await self._call("primes")
        return self._user.updated

    async def _make_changes(self):
        await self._call("touch", uri="notes://both")  # of which nobody wanted to know
        await self._call("touch", uri="notes://today")
        await self._user.wait_until(lambda: self._user.updated)
        await self._call("change_lists")
        await self._user.wait_until(lambda: len(self._user.changed) >= 3)

    async def _ask_in_vain(self):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._adapter.call_tool, "ask_in_vain", {"marker": str(self._marker)})
            await self._user.waits.wait()  # or for the server's refusal
            await self._adapter.give_up(tasks.cancel_scope)
        if self._adapter.revision < "2026":  # later, the server waits for the answer until it ends
            await self._user.wait_until(self._marker.exists)
        with anyio.move_on_after(1):
            await self._user.wait_until(lambda: self._user.was_cancelled)
        self._user.may_answer.set()
        await self._call("primes")
        return {"asked": self._user.was_cancelled, "handler": self._marker.exists(), "caller": True}


async def run(adapter, user, marker):
    """Do it all."""
    found("agreed", adapter.revision)
    await Script(adapter, user, marker).run()
