"""The Python SDK's side of `cargo xtask bench`: `peer.py ROW DIR RUNS` prints samples."""

import asyncio
import sys
import time

from claude_agent_sdk import ClaudeAgentOptions, StreamEvent, query

ROW, DIR, RUNS = sys.argv[1], sys.argv[2], int(sys.argv[3])


async def run(agent, each=lambda message: None):
    options = ClaudeAgentOptions(cli_path=f"{DIR}/{agent}", include_partial_messages=True)
    async for message in query(prompt="hello", options=options):
        each(message)


async def main():
    if ROW == "cold":
        await run("short")
    elif ROW == "latency":
        samples = []

        def each(message):
            now = time.time_ns()
            if isinstance(message, StreamEvent):
                sent = message.event.get("delta", {}).get("text", "")
                if sent.isdigit():
                    samples.append((now - int(sent)) / 1e3)

        await run("latency", each)
        print("\n".join(f"{sample:.1f}" for sample in samples[100:]))
    else:
        await run(ROW)
        for _ in range(RUNS):
            begin = time.perf_counter()
            await run(ROW)
            print(f"{(time.perf_counter() - begin) * 1e3:.3f}")


asyncio.run(main())
