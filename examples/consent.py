"""What a host owes its user: at the terminal, a person decides what servers get of the model and of them.

`AskPolicy` says which server may ask for what, how often, and for how many tokens; its two callables bring each
ask to the person before the model sees it, and each answer before the server does.

Run ``python examples/consent.py`` and type what you like. With ``y``, ``y``, ``n`` and ``Ada``, ``y`` you see::

    travel wants 200 tokens of your model for: 'Where is it warm?'. Ask it? [y/n] y
    The model says: 'Rome.'. Send it to travel? [y/n] y
    travel_advise gives Rome.
    travel wants 200 tokens of your model for: 'Where is it cold?'. Ask it? [y/n] n
    travel_advise: the user rejected sampling/createMessage [-1]
    travel asks: 'Your name?' Ada
    Send {'value': 'Ada'} to travel? [y/n] y
    travel_book gives booked for Ada
    ads_spam: the client has not declared sampling [-32021] {'requiredCapabilities': {'sampling': {}}}
"""

from __future__ import annotations

import trio

from trio_mcp import Ask, AskAnswer, AskPolicy, Context, RequestError, Server, ToolError, open_clients
from trio_mcp.types import CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, TextContent

travel, ads = Server("travel"), Server("ads")


@travel.tool
async def advise(question: str, ctx: Context) -> str:
    """Let the client's model answer a question."""
    return (await ctx.sample(question, max_tokens=5_000)).text


@travel.tool
async def book(ctx: Context) -> str:
    """Book for whom the user says."""
    name = await ctx.elicit("Your name?", str)
    return f"booked for {name.value}" if name else "nothing was booked"


@ads.tool
async def spam(ctx: Context) -> str:
    """Have something written at the user's expense."""
    return (await ctx.sample("Praise our product.", max_tokens=100)).text


terminal = trio.Lock()  # a person answers one question at a time


async def type_in(prompt: str) -> str:
    """Let the person type a line."""
    async with terminal:
        return await trio.to_thread.run_sync(input, prompt, abandon_on_cancel=True)


async def is_agreed(question: str) -> bool:
    """Let the person decide; anything but yes is no."""
    return (await type_in(f"{question} [y/n] ")).strip().lower() in {"y", "yes"}


async def before(ask: Ask) -> bool:
    """Show what the model would be asked, by `repr`, which disarms it. A form is shown when it is filled in."""
    if not isinstance(ask.params, CreateMessageRequestParams):
        return True
    contents = [message.content for message in ask.params.messages]
    texts = ", ".join(repr(one.text if isinstance(one, TextContent) else one) for one in contents)
    what = f"{ask.server} wants {ask.params.max_tokens} tokens of your model for: {texts}"
    return await is_agreed(f"{what}. Ask it?")


async def after(ask: Ask, answer: AskAnswer) -> bool:
    """Show what would be sent."""
    if isinstance(answer, CreateMessageResult):
        return await is_agreed(f"The model says: {answer.text!r}. Send it to {ask.server}?")
    return await is_agreed(f"Send {getattr(answer, 'content', answer)!r} to {ask.server}?")


def model(server: str, params: CreateMessageRequestParams) -> str:
    """Answer as a model would; a real one is called here, with at most ``params.max_tokens``."""
    del server, params
    return "Rome."


async def fill_in(server: str, params: ElicitRequestParams) -> dict[str, str]:
    """Let the person fill in the form, which has one field."""
    return {"value": await type_in(f"{server} asks: {params.message!r} ")}


trusted = AskPolicy(rate="10/minute", max_tokens_per_ask=200, review_ask=before, review_answer=after)
policies = {"travel": trusted, "ads": AskPolicy(allow=())}


async def main() -> None:
    """Call tools that ask; what the person refuses is an error of the call."""
    servers = {"travel": travel, "ads": ads}
    async with open_clients(servers, policy=policies, on_sample=model, on_elicit=fill_in) as group:
        await group.wait_ready()
        calls = [("travel_advise", {"question": f"Where is it {how}?"}) for how in ("warm", "cold")]
        for tool, arguments in [*calls, ("travel_book", {}), ("ads_spam", {})]:
            try:
                print(tool, "gives", (await group.call_tool(tool, arguments)).text)
            except (RequestError, ToolError) as error:
                print(f"{tool}: {error}")


if __name__ == "__main__":
    trio.run(main)
