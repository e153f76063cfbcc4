"""Locks over an asyncio client."""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
import uuid
from collections.abc import Awaitable
from typing import Any, Optional

from .locks import GRACE, PAUSE, Request, is_answer, is_crowd, passes


async def _within(asked: Awaitable[Any], seconds: Optional[float]) -> Any:
    """As `asyncio.wait_for`, which before Python 3.12 loses a cancellation that comes together with the answer."""
    task = asyncio.ensure_future(asked)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        timed_out = task.cancel()
    if timed_out:
        raise asyncio.TimeoutError
    return task.result()


async def _surely(asked: Awaitable[Any]) -> Any:
    """What is asked is done, even if the task that asks is cancelled meanwhile, and again."""
    task = asyncio.ensure_future(asked)
    # Nobody may be there to hear how it ended.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)


class AsyncLock(Request):
    """A lock for `async with`. What may be asked for stands at `Request.__init__`."""

    lost: asyncio.Event
    """Is set when the hold has ended before it was released, or may have."""

    def __init__(self, client: Any, *keys: str, line: Optional[Line] = None, **options: Any) -> None:
        super().__init__(client, *keys, **options)
        self._line = line
        self._keeper: Optional[asyncio.Task[None]] = None

    async def __aenter__(self) -> AsyncLock:
        if not await self.acquire():
            raise self._not_granted()
        return self

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        try:
            whole = await self.release()
        except Exception as error:
            if not (self.held and passes(error)):
                raise
        else:
            if not whole and kind is None:
                raise self._was_lost()

    async def acquire(self) -> bool:
        """As `Lock.acquire`; a task that is cancelled meanwhile leaves the line."""
        self.lost, self._over = asyncio.Event(), threading.Event()
        self._asking = asyncio.current_task()
        try:
            pause = await self._stand(time.monotonic() + self._wait)
        except BaseException as error:
            if not is_answer(error):
                await _surely(self._withdraw())
            raise
        finally:
            self._asking = None
        if pause is None:
            return False
        if self._over.is_set():
            # The release came to the server before the request.
            await _surely(self._withdraw())
            await self._hang_up()
            return False
        self._keeper = asyncio.ensure_future(self._keep(pause))
        return True

    async def release(self) -> bool:
        """Ends the hold; also a wait, from another task. Whether there was a whole hold to end."""
        return bool(await _surely(self._release(asyncio.current_task())))

    async def _release(self, caller: Any) -> bool:
        self._over.set()
        if self._keeper is not None:
            self._keeper.cancel()
        try:
            while True:
                whole = bool(await self._say_release() == len(set(self.keys)))
                # A request that is still on its way would stand in line after this.
                if whole or self._asking in (None, caller):
                    return whole
                await asyncio.sleep(PAUSE)
        finally:
            await self._hang_up()

    async def _stand(self, end: float) -> Optional[float]:
        """Stands in line; when to extend the hold for the first time, or None: not granted."""
        left = self._wait if self._session or self._line else 0.0
        while not self._over.is_set():
            try:
                if await self._ask(left):
                    return 0.0 if left else self.lease / 3
                if left or not self._wait:
                    return None
                left = end - time.monotonic()
            except Exception as error:
                left = end - time.monotonic()
                if left <= 0 or not passes(error):
                    raise
                await asyncio.sleep(PAUSE)
                await self._find()
        return None

    async def _ask(self, left: float) -> bool:
        sent, words = time.monotonic(), self._acquire_words(left)
        if not left and not self._session:
            return self._granted(await self._client.execute_command(*words), sent)
        if self._line is not None:
            return self._granted(await self._line.ask(self, left), time.monotonic())
        if hasattr(self._client, "get_node_from_key"):
            await self._client.initialize()
        kind, arguments = self._parts(None)
        connection = kind(**arguments)
        granted = False
        try:
            await connection.connect()
            await connection.send_command(*words)
            reply = await _within(connection.read_response(), None if math.isinf(left) else left + GRACE)
            granted = self._granted(reply, time.monotonic())
        finally:
            if granted and self._session:
                self._connection = connection
            else:
                await connection.disconnect(nowait=True)
        return granted

    async def _find(self) -> None:
        try:
            await self._client.execute_command("LOCK.INFO", self.keys[0])
        except Exception as error:
            if not passes(error):
                raise

    async def _say_release(self) -> Any:
        end = time.monotonic() + GRACE
        while True:
            try:
                return await self._client.execute_command(*self._words("RELEASE"))
            except Exception as error:
                if not is_crowd(error) or time.monotonic() > end:
                    raise
                await asyncio.sleep(PAUSE)

    async def _withdraw(self) -> None:
        try:
            await _within(self._say_release(), GRACE)
        except Exception as error:
            if not passes(error):
                raise

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _keep(self, pause: float) -> None:
        """Extends the hold, if that is wanted, and tells when it is over."""
        while True:
            left = self._until - time.monotonic()
            await asyncio.sleep(min(pause, left) if self._extend else left)
            if self._extend:
                sent = time.monotonic()
                try:
                    asked = self._client.execute_command(*self._words("EXTEND"), *self._lease_words)
                    whole = await _within(asked, max(self._until - sent, PAUSE)) == 1
                    self._until = sent + self.lease if whole else 0.0
                    pause = self.lease / 3
                except Exception:
                    pause = self.lease / 20
            if not self.held:
                self.lost.set()
                return


class Line:
    """Lets any number of tasks wait over one connection, by NOTIFY; a second one hears what becomes of them.

        async with Line(redis) as line:
            async with line.lock("job:42", wait=10) as held:

    For one server and its replicas; in a cluster, use `AsyncLock` with the client of the cluster.
    """

    def __init__(self, client: Any) -> None:
        self._asks = type(client)(connection_pool=client.connection_pool, single_connection_client=True)
        self._turn = asyncio.Lock()
        self._channel = f"lockstock:{uuid.uuid4().hex}"
        self._hears = client.pubsub()
        self._waiting: dict[tuple[str, frozenset[str]], asyncio.Future[Optional[dict[str, Any]]]] = {}
        self._listener: Optional[asyncio.Task[None]] = None
        self._closed = False

    async def __aenter__(self) -> Line:
        self._closed = False
        await self._hears.subscribe(self._channel)
        self._listener = asyncio.ensure_future(self._listen())
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._closed = True
        if self._listener is not None:
            self._listener.cancel()
        for news in self._waiting.values():
            # Who hears this withdraws, over another connection.
            if not news.done():
                news.set_exception(RuntimeError("the line was closed"))
        await self._hears.aclose()
        async with self._turn:
            await self._asks.aclose()

    def lock(self, *keys: str, **options: Any) -> AsyncLock:
        """A lock of which the wait goes over this line."""
        return AsyncLock(self, *keys, line=self, **options)

    async def execute_command(self, *words: str) -> Any:
        """Any command. A task that is cancelled meanwhile does not cut the connection by which others wait."""

        async def one() -> Any:
            async with self._turn:
                connection = self._asks.connection
                if connection is not None and not connection.is_connected:
                    # By itself it would ask where it asked before. This asks Sentinel, if there is one, who is the primary now.
                    await connection.connect()
                return await self._asks.execute_command(*words)

        return await _surely(one())

    async def ask(self, request: AsyncLock, left: float) -> Any:
        """Stands in line for at most `left` and gives the answer that a parked client would get."""
        who = (request.token, frozenset(request.keys))
        end = time.monotonic() + left
        try:
            while True:
                if self._closed:
                    # While this was about to ask again.
                    raise RuntimeError("the line was closed")
                news = self._waiting[who] = asyncio.get_running_loop().create_future()
                words = request._acquire_words(max(end - time.monotonic(), 0.001))
                reply = await self.execute_command(*words, "NOTIFY", self._channel)
                if not isinstance(reply, int):
                    return reply
                said = await _within(news, None if math.isinf(end) else end - time.monotonic() + GRACE)
                if said is not None:
                    break
        finally:
            self._waiting.pop(who, None)
        if said["event"] == "failed":
            raise Failed(said["error"])
        return [said["token"], said["fence"]] if said["event"] == "granted" else None

    async def _listen(self) -> None:
        """A message comes once or never: whoever may have missed one asks again, and hears where it stands."""
        connection = None
        while True:
            try:
                message = await self._hears.get_message(timeout=0.25)
                if message is not None and message["type"] == "message":
                    self._tell(json.loads(message["data"]))
                    continue
                # A request is gone with the connection that brought it. The server keeps its place for a second.
                now = await self.execute_command("CLIENT", "ID")
            except Exception as error:
                if not passes(error):
                    raise
                await asyncio.sleep(PAUSE)
                continue
            if now != connection or message is not None:
                connection = now
                for news in self._waiting.values():
                    if not news.done():
                        news.set_result(None)

    def _tell(self, said: dict[str, Any]) -> None:
        keys = said["keys"] if "keys" in said else [said["key"]]
        news = self._waiting.get((said["token"], frozenset(keys)))
        if news is not None and not news.done():
            news.set_result(said)


class Failed(Exception):
    """A wait over a `Line` that the server ended with this error."""
