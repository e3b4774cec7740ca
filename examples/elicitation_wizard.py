"""A wizard: a tool that asks its user one thing after another, and sends them elsewhere for what is secret.

The handler just waits for the answers. Before 2026-07-28 a question is a request to the client; since then it is
in the result of the call, which the client makes again. Neither the handler nor `on_elicit` notices.

Run ``python examples/elicitation_wizard.py``. You see::

    -- over 2025-11-25
    Which pizza?
      size: Small or Large
      toppings: some of cheese, olives, basil
      count: a number from 1 to 20
    Where to?
      street: text
      floor: a number
    1 to Via Appia 7, is that right?
      value: yes or no
    Pay for it: go to https://pizza.example/pay/4711
    => 1 large with basil, cheese for Via Appia 7, floor None
    -- over 2026-07-28
    ...
"""

from __future__ import annotations

import enum
from typing import Annotated, Literal

import attrs
import trio

from trio_mcp import Context, ElicitAnswer, Field, Revision, Server, open_client, types

server = Server("pizzeria", version="1.0")


class Size(enum.Enum):
    """In centimetres. The user is shown the names; the handler gets a member."""

    SMALL = 26
    LARGE = 32


@attrs.frozen
class Pizza:
    """What the first form asks for. What the user leaves empty, as the count below, gets its default."""

    size: Size = Size.SMALL
    toppings: frozenset[Literal["cheese", "olives", "basil"]] = frozenset({"cheese"})
    count: Annotated[int, Field(ge=1, le=20)] = 1


@attrs.frozen
class Address:
    """What the second form asks for."""

    street: str
    floor: int | None = None


@server.tool
async def order_pizza(ctx: Context) -> str:
    """Let the user order a pizza."""
    pizza = (await ctx.elicit("Which pizza?", Pizza)).value  # if they decline, the tool ends here and says so
    to = (await ctx.elicit("Where to?", Address)).value
    if not await ctx.elicit(f"{pizza.count} to {to.street}, is that right?", bool):
        return "nothing was ordered"
    if not await ctx.elicit_url("Pay for it", "https://pizza.example/pay/4711"):
        return "nothing was paid"
    toppings = ", ".join(sorted(pizza.toppings))
    return f"{pizza.count} {pizza.size.name.lower()} with {toppings} for {to.street}, floor {to.floor}"


def describe(field: types.PrimitiveSchemaDefinition) -> str:
    """Say what a field of a form asks for."""
    match field:
        case types.TitledSingleSelectEnumSchema(one_of=options):
            return " or ".join(option.title for option in options)
        case types.UntitledMultiSelectEnumSchema(items=items):
            return f"some of {', '.join(items.enum)}"
        case types.NumberSchema(minimum=None):
            return "a number"
        case types.NumberSchema(minimum=minimum, maximum=maximum):
            return f"a number from {minimum} to {maximum}"
        case types.BooleanSchema():
            return "yes or no"
        case _:
            return "text"


ANSWERS: dict[str, ElicitAnswer] = {
    "Which pizza?": {"size": "32", "toppings": ["basil", "cheese"]},
    "Where to?": {"street": "Via Appia 7"},
    "1 to Via Appia 7, is that right?": {"value": True},
    "Pay for it": "accept",
}


def scripted_user(asked: types.ElicitRequestParams) -> ElicitAnswer:
    """Show what is asked, and answer it. What is filled in is checked against the form."""
    if isinstance(asked, types.ElicitRequestURLParams):
        print(f"{asked.message}: go to {asked.url}")
    else:
        print(asked.message)
        for name, field in asked.requested_schema.properties.items():
            print(f"  {name}: {describe(field)}")
    return ANSWERS[asked.message]


async def main() -> None:
    """Order the same pizza in both eras."""
    for revision in (Revision.V2025_11_25, Revision.V2026_07_28):
        print("-- over", revision)
        async with open_client(
            server, revision=revision, on_elicit=scripted_user, elicit_modes=("form", "url")
        ) as client:
            print("=>", (await client.call_tool("order_pizza")).text)


if __name__ == "__main__":
    trio.run(main)
