"""Prompts: beginnings of conversations that users pick, with arguments that are completed while they type.

Choices that the type of an argument tells are completed by themselves. For others there is a function, which
knows what has been filled in before.

Run ``python examples/prompts_and_completion.py``. You see::

    review(language, file, strictness?): Ask for a review of a file.
    language "" may go on as python, rust, c++
    file "s" may go on as server.py, settings.py
    user: Review server.py, which is written in python. Be strict: 9 of 10.
    assistant: I shall look at errors first, and at names last.
    without a language: Invalid arguments for prompt review: language: is missing
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import trio

from trio_mcp import Field, RequestError, Server, assistant_message, open_client, types, user_message

server = Server("reviewer", version="1.0")

FILES = {
    "python": ["client.py", "server.py", "settings.py"],
    "rust": ["main.rs", "server.rs"],
    "c++": ["main.cc"],
}


@server.prompt
async def review(
    language: Literal["python", "rust", "c++"], file: str, strictness: Annotated[int, Field(ge=1, le=10)] = 5
) -> list[types.PromptMessage]:
    """Ask for a review of a file.

    Args:
        language: What it is written in.
        file: Its name.
        strictness: From 1 to 10.
    """
    return [
        user_message(f"Review {file}, which is written in {language}. Be strict: {strictness} of 10."),
        assistant_message("I shall look at errors first, and at names last."),
    ]


@server.completion("review", "file")
async def complete_file(typed: str, arguments: Mapping[str, str]) -> list[str]:
    """Complete the name of a file of the language that was chosen."""
    return [file for file in FILES.get(arguments.get("language", ""), ()) if file.startswith(typed)]


async def main() -> None:
    """Fill in a prompt as a user would."""
    async with open_client(server) as client:
        async for prompt in client.list_prompts():
            names = [f"{argument.name}{'' if argument.required else '?'}" for argument in prompt.arguments or ()]
            print(f"{prompt.name}({', '.join(names)}): {prompt.description}")

            completed = await client.complete(prompt, "language", "")
            print('language "" may go on as', ", ".join(completed.completion.values))
            completed = await client.complete(prompt, "file", "s", context={"language": "python"})
            print('file "s" may go on as', ", ".join(completed.completion.values))

        filled_in = await client.get_prompt(
            "review", {"language": "python", "file": "server.py", "strictness": "9"}
        )
        for message in filled_in.messages:
            print(f"{message.role}: {message.text}")
        try:
            await client.get_prompt("review", {"file": "server.py"})
        except RequestError as error:
            print("without a language:", error.message)


if __name__ == "__main__":
    trio.run(main)
