"""What tasks ask over an asyncio client: it ends in time, whatever the client's settings are."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Optional

from .clients import is_cluster, is_moving, is_news, is_there, library, others, parts, tell
from .errors import is_answer, kinds
from .steps import Ask, Rest, Steps, T
from .terms import Key, now
from .wires import LOOK, PING

if sys.version_info >= (3, 11):

    async def within(asked: Awaitable[T], span: float, wire: Optional[Wire] = None) -> T:
        """What is asked, for so long, or until the wire is cut."""
        task = asyncio.current_task()
        cancelled = task.cancelling() if task else 0
        async with asyncio.timeout(None if math.isinf(span) else span) as limit:
            if wire is not None:
                wire.end = lambda: limit.expired() or limit.reschedule(0)
            answer = await asked
        if task and task.cancelling() > cancelled:
            # `asyncio.wait_for`, by which the libraries send, loses a cancellation that comes together with its end (until 3.12).
            raise asyncio.CancelledError
        return answer

else:

    async def within(asked: Awaitable[T], span: float, wire: Optional[Wire] = None) -> T:
        """As `asyncio.wait_for`, which loses a cancellation that comes together with the answer."""
        task = asyncio.ensure_future(asked)
        if wire is not None:
            wire.end = task.cancel
        try:
            await asyncio.wait([task], timeout=None if math.isinf(span) else span)
        finally:
            timed_out = task.cancel()
        if timed_out or task.cancelled():
            raise asyncio.TimeoutError
        return task.result()


_behind: set[asyncio.Task[None]] = set()


def behind(make: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[None]:
    """Work in the background, also if the loop, which is about to end, cancels it."""

    async def work() -> None:
        for _ in range(2):
            try:
                await make()
                return
            except asyncio.CancelledError:
                continue
            except Exception:
                return

    task = asyncio.ensure_future(work())
    _behind.add(task)
    task.add_done_callback(_behind.discard)
    return task


class Wire:
    """One caller's way to the server: by the client, and apart from it where a connection of its own is needed."""

    def __init__(self, client: Any, key: Key) -> None:
        self._client, self._key = client, key
        self._connection: Any = None
        # One to the server to which the key is moving.
        self._moved: Any = None
        self.is_cut = False
        # Whether a session was asked, and has not answered.
        self._asked = False
        # Ends what is being asked.
        self.end: Optional[Callable[[], Any]] = None

    async def play(self, steps: Steps[T]) -> T:
        """Does one step after the other, until it is known what came of them."""
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self.do(step)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            # What it keeps ends now, and not with the last that knows of its error.
            steps.close()

    async def do(self, step: Any) -> Any:
        if self.is_cut:
            raise ConnectionAbortedError("the wait was cancelled")
        span = max(step.until - now(), 0) if isinstance(step, Ask) else math.inf
        try:
            return await within(self._do(step), span, self)
        except asyncio.TimeoutError as error:
            # A `Line` has a client.
            errors = library(getattr(self._client, "_client", self._client))
            raise errors.TimeoutError("no answer in time") if errors is not None else error
        finally:
            self.end = None

    async def _do(self, step: Any) -> Any:
        if isinstance(step, Ask):
            return await (self._apart(step) if step.apart else self._ask(step))
        assert isinstance(step, Rest)
        if step.learns and is_cluster(self._client):
            # The next one may go to another server.
            await self.hang_up()
            await self.learn(step.until)
        await asyncio.sleep(step.seconds)
        return None

    async def learn(self, until: float = math.inf) -> None:
        """Has the client of a cluster learn where the key is now, within a second. The other nodes know it, also when the key's does
        not answer."""
        if is_cluster(self._client):
            try:
                await within(self._learn(), min(max(until - now(), 0), 1))
            except Exception:
                # As if no node had told anything.
                pass

    async def _learn(self) -> None:
        await self._client.initialize()
        asked = [asyncio.ensure_future(self._tells(node)) for node in others(self._client, self._key)]
        try:
            for told in asyncio.as_completed(asked):
                if await told:
                    return
        finally:
            for one in asked:
                one.cancel()
        await self._client.execute_command("LOCK.INFO", self._key)

    async def _tells(self, node: Any) -> bool:
        kind, arguments = parts(self._client, self._key, node=node)
        connection = kind(**arguments)
        try:
            [answer] = await _connected(connection, [["LOCK.INFO", self._key]])
            moved = "MovedError" in kinds(answer)
            if moved and is_news(self._client, self._key, answer):
                said = tell(self._client, answer)
                if said is not None:
                    await said
            return moved
        except Exception:
            return False
        finally:
            await connection.disconnect(nowait=True)

    def cut(self) -> None:
        """Ends what another task asks over this."""
        self.is_cut = True
        if self.end is not None:
            self.end()
        behind(self.hang_up)

    def lasts(self) -> bool:
        """Whether the connection of a session has answered since this was asked last. It is asked again, also so that nothing on the way takes
        it for idle. Nobody else uses it."""
        reader, writer = getattr(self._connection, "_reader", None), getattr(self._connection, "_writer", None)
        if reader is None or writer is None or writer.is_closing():
            return False
        try:
            # Nothing is waited for here, and no task is there that a program could cancel, which would end the connection.
            while (heard := _there(reader)) is not None:
                if not heard:
                    return False
                self._asked = False
            if self._asked:
                return False
            writer.write(PING)
        except Exception:
            return False
        self._asked = True
        return True

    async def hang_up(self) -> None:
        connections = self._connection, self._moved
        self._connection = self._moved = None
        for connection in connections:
            if connection is not None:
                await connection.disconnect(nowait=True)

    async def _ask(self, step: Ask) -> list[Any]:
        return [await self._one(command) for command in step.commands]

    async def _one(self, command: Sequence[Any]) -> Any:
        client = self._client
        if not is_cluster(client):
            return await answer(client.execute_command(*command))
        try:
            await client.initialize()
            said = await answer(client.get_node_from_key(self._key).execute_command(*command))
        except Exception:
            # The client looks for the server anew.
            return await answer(client.execute_command(*command))
        return await self.led(command, said)

    async def led(self, command: Sequence[Any], said: Any) -> Any:
        """The answer of the server to which this one leads. The client of a cluster may send ASKING over one of its connections to that server, and
        the command over another."""
        if is_moving(self._client, said):
            return await self._follow(command, said)
        if is_cluster(self._client) and kinds(said) & {"MovedError", "TryAgainError", "ClusterDownError"}:
            return await answer(self._client.execute_command(*command))
        return said

    async def _apart(self, step: Ask) -> list[Any]:
        try:
            if self._connection is None:
                if is_cluster(self._client):
                    await self._client.initialize()
                kind, arguments = parts(self._client, self._key)
                self._connection = kind(**{**arguments, "socket_timeout": None})
                await self._connection.connect()
            watch = asyncio.ensure_future(self._watch(self._connection))
            try:
                answers = await _exchange(self._connection, step.commands)
            finally:
                watch.cancel()
            for place, said in enumerate(answers):
                if step.moves and is_moving(self._client, said):
                    answers[place] = await self._follow(step.commands[place], said)
            return answers
        except BaseException:
            await self.hang_up()
            raise

    async def _watch(self, connection: Any) -> None:
        """Ends a connection of which the server is not there any more, or not the primary."""
        while True:
            await asyncio.sleep(LOOK)
            kind, arguments = parts(self._client, self._key)
            other = kind(**arguments)
            try:
                await within(_connected(other, [["PING"]]), LOOK)
                there = is_there(connection, other)
            except Exception as error:
                # One that refuses this is there.
                there = "TimeoutError" not in kinds(error)
            finally:
                await other.disconnect(nowait=True)
            if not there:
                await connection.disconnect(nowait=True)

    async def _follow(self, command: Sequence[Any], moving: Any) -> Any:
        kind, arguments = parts(self._client, self._key, moving)
        self._moved = connection = kind(**{**arguments, "socket_timeout": None})
        try:
            return (await within(_connected(connection, [["ASKING"], command]), LOOK))[1]
        finally:
            self._moved = None
            await connection.disconnect(nowait=True)


async def _connected(connection: Any, commands: Sequence[Any]) -> list[Any]:
    await connection.connect()
    return await _exchange(connection, commands)


def _there(reader: asyncio.StreamReader) -> Optional[bytes]:
    """What has come; None: nothing; nothing in it: it has ended."""
    reading = reader.read(4096)
    try:
        reading.send(None)
    except StopIteration as end:
        data: bytes = end.value
        return data
    reading.close()
    return None


async def _exchange(connection: Any, commands: Sequence[Any]) -> list[Any]:
    for command in commands:
        await connection.send_command(*command)
    return [await answer(connection.read_response()) for _ in commands]


async def answer(asked: Awaitable[Any]) -> Any:
    try:
        return await asked
    except Exception as error:
        if not is_answer(error):
            raise
        return error
