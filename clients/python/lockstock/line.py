"""Waiting of many tasks over one connection."""

from __future__ import annotations

import asyncio
import json
import secrets
import uuid
from typing import Any, Optional

from .aio import AsyncLock
from .aio_wires import Wire, answer, within
from .clients import ServerClient, check, is_cluster, library
from .errors import Closed, Refused, named, passes
from .holds import Shared
from .steps import PAUSE, RELEASE, Ask
from .terms import Key, Word, now, text

SHUT = "the line is not open: ask within `async with line`"


class Line:
    """Lets any number of tasks wait over one connection, by NOTIFY; a second one hears what becomes of them.

        async with Line(redis) as line:
            async with line.lock("job:42", wait=10) as hold:

    For one server and its replicas; in a cluster, use `AsyncLock` with the client of the cluster.
    """

    def __init__(self, client: ServerClient) -> None:
        check(client, True, "Line")
        if is_cluster(client):
            raise TypeError("Line is for one server and its replicas; in a cluster, use AsyncLock")
        as_any: Any = client
        self._client = as_any
        # For a connection apart.
        self.connection_pool = as_any.connection_pool
        self._asks: Any = type(as_any)(connection_pool=as_any.connection_pool, single_connection_client=True)
        self.response_callbacks, self.pipeline = as_any.response_callbacks, as_any.pipeline
        self._turn = asyncio.Lock()
        self._channel = f"lockstock:{uuid.uuid4().hex}"
        self._hears = self._client.pubsub()
        self._waiting: dict[tuple[Any, frozenset[Any]], asyncio.Future[Any]] = {}
        # What waits until all is heard that the server said before it answers PING with this word.
        self._marks: dict[str, asyncio.Future[None]] = {}
        self._listener: Optional[asyncio.Task[None]] = None
        self._closed = True
        # Why it hears nothing any more.
        self._failed: Optional[str] = None

    async def __aenter__(self) -> Line:
        if not self._closed:
            raise RuntimeError("the line is open already: tasks share it, or open one each")
        self._closed, self._failed = False, None
        try:
            await within(self._hears.subscribe(self._channel), RELEASE)
        except BaseException as error:
            self._closed = True
            await self._hears.aclose()
            if isinstance(error, asyncio.TimeoutError):
                errors = library(self._client)
                error = errors.TimeoutError("no answer in time") if errors is not None else error
            raise named(error)
        self._listener = asyncio.ensure_future(self._listen())
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._closed = True
        if self._listener is not None:
            self._listener.cancel()
        self._end_waits(Closed, SHUT)
        await self._hears.aclose()
        async with self._turn:
            await self._asks.aclose()

    def lock(
        self,
        *keys: Key,
        wait: float = 0.0,
        lease: float = 30.0,
        token: Optional[str] = None,
        shared: bool = False,
        limit: Optional[int] = None,
        extend: bool = True,
    ) -> AsyncLock:
        """A lock of which the wait goes over this line. What may be asked for: see `Lock`."""
        return _LineLock(self, keys, wait, lease, token, shared, limit, False, extend, 0)

    async def execute_command(self, *words: Word) -> Any:
        """Any command. A task that is cancelled meanwhile does not cut the connection by which others wait."""

        async def one() -> Any:
            if self._closed:
                # What was granted over the line may be released after it.
                return await self._client.execute_command(*words)
            async with self._turn:
                connection = self._asks.connection
                if connection is not None and not connection.is_connected:
                    # By itself it would ask where it asked before. This asks Sentinel, if there is one, for the present primary.
                    await connection.connect()
                return await self._asks.execute_command(*words)

        task = asyncio.ensure_future(within(one(), RELEASE))
        # Nobody may be there to hear how it ended.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def stand(self, words: list[Word], token: str, named: bool, keys: tuple[Key, ...], news: asyncio.Future[Any]) -> Any:
        """Asks for a lock with a wait, and gives the answer that a parked client would get."""
        who = (token, frozenset(text(key) for key in keys))
        self._check()
        if named:
            # The token may have waited for the lock a moment ago: what is said of that wait must not be taken for this one's.
            await self._hear_all()
            self._check()
        self._waiting[who] = news
        try:
            reply = await self.execute_command(*words, "NOTIFY", self._channel)
            if not isinstance(reply, int):
                return reply
            said = await news
        finally:
            self._waiting.pop(who, None)
        if said["event"] == "failed" and not said["error"].startswith("CANCELLED"):
            raise Refused(said["error"])
        return [said["token"], said["fence"]] if said["event"] == "granted" else None

    def _check(self) -> None:
        if self._closed or self._failed is not None:
            # While this was about to ask again, or before.
            raise Closed(self._failed or SHUT)

    async def _hear_all(self) -> None:
        """Waits until all is heard that the server has said by now."""
        connection = self._hears.connection
        if not connection.is_connected:
            # The listener connects it.
            raise ConnectionError("the line is made anew")
        while (mark := secrets.token_urlsafe(2)) in self._marks:
            pass
        heard = self._marks[mark] = asyncio.get_running_loop().create_future()
        try:
            await connection.send_command("PING", mark, check_health=False)
            await heard
        finally:
            del self._marks[mark]

    def _answered(self, pong: Any) -> None:
        # Of RESP3 with decoded answers, redis-py takes the first three letters of this one for the parts of a message. A mark has three.
        mark = text(pong["data"]) if pong["type"] == "pong" else pong["type"] + pong["channel"] + pong["data"]
        heard = self._marks.get(mark)
        if heard is not None and not heard.done():
            heard.set_result(None)

    def _end_waits(self, kind: type[Exception], said: str) -> None:
        """A caller that hears this asks again, or withdraws its request, over another connection."""
        for heard in self._marks.values():
            # Nothing more comes over the connection that was.
            if not heard.done():
                heard.set_result(None)
        for news in self._waiting.values():
            if not news.done():
                news.set_exception(kind(said))

    async def _listen(self) -> None:
        """A message comes once or never: a task that may have missed one asks again, and hears where it stands."""
        connection, heard = None, now()
        while True:
            try:
                message = await self._hears.get_message(timeout=0.25)
                if message is not None:
                    heard = now()
                    if message["type"] == "message":
                        self._tell(message["data"])
                    elif message["type"] != "subscribe":
                        self._answered(message)
                    if message["type"] != "subscribe":
                        continue
                elif now() - heard > RELEASE:
                    # No server is there, or it is not the primary any more.
                    heard = now()
                    await self._hears.connection.disconnect(nowait=True)
                    continue
                else:
                    await self._hears.ping()
                # A request is gone with the connection that brought it. The server keeps its place for a second.
                number = await self.execute_command("CLIENT", "ID")
            except Exception as error:
                if not passes(error):
                    self._failed = f"the line hears nothing any more: {error}"
                    self._end_waits(Closed, self._failed)
                    return
                await asyncio.sleep(PAUSE)
                continue
            if number != connection or message is not None:
                if connection is not None and message is None:
                    # What was asked goes to another server now, perhaps, and what is heard must come from there.
                    await self._hears.connection.disconnect(nowait=True)
                connection = number
                self._end_waits(ConnectionError, "the line was made anew")

    def _tell(self, data: Any) -> None:
        try:
            said = json.loads(data)
            news = self._waiting.get((said["token"], frozenset(said["keys"] if "keys" in said else [said["key"]])))
            replaced = said.get("error", "").startswith("REPLACED")
        except (ValueError, TypeError, LookupError, AttributeError):
            # Not from the server.
            return
        if replaced:
            # The server means an earlier request of this wait: it was asked again over another connection.
            return
        if news is not None and not news.done():
            news.set_result(said)


class _LineLock(AsyncLock):
    """A lock of which the wait goes over a line."""

    _stands = True

    def __init__(self, line: Line, *asked: Any) -> None:
        Shared.__init__(self, line, *asked)

    def _wire(self, token: str) -> Wire:
        if self._client._closed:
            raise Closed(SHUT)
        return _LineWire(self._client, self, token)


class _LineWire(Wire):
    def __init__(self, line: Line, lock: AsyncLock, token: str) -> None:
        super().__init__(line, lock.keys[0])
        self._lock, self._token = lock, token
        self._news: Optional[asyncio.Future[Any]] = None

    def cut(self) -> None:
        self.is_cut = True
        if self.end is not None:
            self.end()
        if self._news is not None and not self._news.done():
            self._news.set_exception(ConnectionAbortedError("the wait was cancelled"))

    async def _apart(self, step: Ask) -> list[Any]:
        [words] = step.commands
        if str(words[0]).endswith("RELEASE"):
            # What is to be over before the token asks again must not come late over the line.
            return await super()._apart(step)
        # Only what waits: the option and its time are at the end.
        if words[-2] != "WAIT":
            return await self._ask(step)
        self._news = asyncio.get_running_loop().create_future()
        # Nobody hears it who was cancelled before.
        self._news.add_done_callback(lambda news: news.cancelled() or news.exception())
        return [await answer(self._client.stand(list(words), self._token, self._lock._given is not None, self._lock.keys, self._news))]
