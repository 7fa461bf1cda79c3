"""The questions of a twin as tools of MCP, with the official client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from hpcosim_twin.answers.questions import AnyQuestion, QueueQuestion, RecordQuestion, WaysQuestion
from hpcosim_twin.cluster.observation import ForecastError, Observation, write_observation
from support.twin_sources import platform_of
from support.twins import ANN_TOKEN, OPERATOR_TOKEN, StillSource, running_twin, two_users

pytest.importorskip("mcp", reason="the extra mcp is not installed")

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from hpcosim_twin.service.mcp import TOOLS, server_of, tools


class Asked:
    """Notes the questions, and answers them."""

    def __init__(self) -> None:
        self.questions: list[AnyQuestion] = []

    async def __call__(self, question: AnyQuestion, _: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a question."""
        self.questions.append(question)
        if question == QueueQuestion(4242):
            raise ForecastError("job 4242 does not wait")
        return {"at_s": 1.0, "never_s": float("nan")}


def text_of(result: Any) -> str:
    """Return the text of a result."""
    (content,) = result.content
    found: str = content.text
    return found


def test_each_type_of_question_is_a_tool_that_only_reads() -> None:
    """Its arguments are the fields, with a schema that is valid."""
    found = {tool.name: tool for tool in tools()}
    assert set(found) == set(TOOLS)
    assert len(found) == len(AnyQuestion.__args__)
    for tool in found.values():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert "ask" not in tool.input_schema["properties"]
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
        assert tool.description
    validator = jsonschema.Draft202012Validator(found["what_if"].input_schema)
    assert validator.is_valid({"change": {"drain": "node3"}})
    assert not validator.is_valid({"change": {"drain": 3}})
    assert found["ways"].input_schema["required"] == ["ways"]


def test_a_client_calls_tools() -> None:
    """Arguments become questions; errors are results that say so."""
    asked = Asked()

    async def scene() -> None:
        async with Client(server_of(asked)) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == set(TOOLS)
            result = await client.call_tool("ways", {"ways": ["-n 1"], "user": "ann"})
            assert (result.is_error, result.structured_content) == (
                False,
                {"at_s": 1.0, "never_s": None},
            )
            await client.call_tool("record", {})
            for name, arguments, words in (
                ("queue", {"job_id": 4242}, "job 4242 does not wait"),
                ("queue", {"job_id": "x"}, "queue: Expected `int | null`, got `str`"),
                ("queue", {"sql": 1}, "queue: Object contains unknown field `sql`"),
                ("ways", {"ways": ["-n 1"] * 9}, "ways: Expected `array` of length <= 8"),
                ("scancel", {"job_id": 1}, "no tool 'scancel'; there are queue, ways"),
            ):
                result = await client.call_tool(name, arguments)
                assert result.is_error
                assert text_of(result).startswith(words)

            await client.call_tool("queue", {"ask": "record"})  # the type is that of the tool

    asyncio.run(scene())
    assert asked.questions[:2] == [WaysQuestion(("-n 1",), "ann"), RecordQuestion()]
    assert asked.questions[-1] == QueueQuestion()


@pytest.mark.slow
def test_a_twin_speaks_mcp_over_http(tmp_path: Path) -> None:
    """With a token, whose user sees what HTTP shows."""

    async def rows(url: str, token: str) -> list[int]:
        headers = {"authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60.0) as http,
            Client(streamable_http_client(f"{url}mcp", http_client=http)) as client,
        ):
            result = await client.call_tool("queue", {})
            assert result.structured_content is not None
            unknown = await client.call_tool("queue", {"job_id": 4242})
            assert text_of(unknown) == "job 4242 does not wait"
            return [row["job_id"] for row in result.structured_content["jobs"]]

    with running_twin(tmp_path, StillSource(two_users())) as twin:
        assert asyncio.run(rows(twin.url, OPERATOR_TOKEN)) == [5, 6, 7, 8, 9, 10]
        assert asyncio.run(rows(twin.url, ANN_TOKEN)) == [6, 8, 10]
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert httpx.post(f"{twin.url}mcp", json=call).status_code == 401
        with twin.client() as client:
            accepts = {"accept": "application/json, text/event-stream"}
            large = client.post("/mcp", json={**call, "params": "x" * (1 << 18)}, headers=accepts)
            assert large.status_code == 413
            assert client.get("/mcp", headers=accepts).status_code == 405
            for content in (b"{", b"[[[[", b"\xff", b"[]", b'{"jsonrpc": "1.0"}'):
                headers = {**accepts, "content-type": "application/json"}
                reply = client.post("/mcp", content=content, headers=headers)
                assert 400 <= reply.status_code < 500
            assert client.get("/health").text == "ok\n"


@pytest.mark.slow
def test_a_recorded_queue_speaks_mcp_on_standard_input(tmp_path: Path) -> None:
    """As an assistant starts it."""
    path = tmp_path / "queue.json"
    state = two_users().state()
    write_observation(Observation(state=state, platform=platform_of(4), settings={}), path)
    arguments = ["-m", "hpcosim.cli", "ask", "--mcp", "--state", str(path), "--futures", "2"]
    server = StdioServerParameters(command=sys.executable, args=arguments)

    async def scene() -> list[int]:
        async with Client(server) as client:
            result = await client.call_tool("queue", {"job_id": 7})
            assert result.structured_content is not None
            return [row["job_id"] for row in result.structured_content["jobs"]]

    assert asyncio.run(scene()) == [7]
