"""What this package asks of a client of redis-py or valkey-py."""

from __future__ import annotations

import socket
import sys
from collections.abc import Coroutine
from typing import Any, Optional, Protocol

from .errors import kinds

# How long a connection may take to be made, by itself. Nobody waits for longer than he asked.
CONNECT = 5.0


# After 30 s of silence a server is asked each 10 s whether it is there, three times.
_OPTIONS = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
KEEPALIVE = {getattr(socket, option): value for option, value in _OPTIONS.items() if hasattr(socket, option)}


class Client(Protocol):
    """A plain client: `redis.Redis`, `redis.RedisCluster`, `valkey.Valkey`, `valkey.ValkeyCluster`, or what `master_for` of a Sentinel gives."""

    def execute_command(self, *args: Any, **options: Any) -> Any: ...

    def __enter__(self) -> Any: ...


class AsyncClient(Protocol):
    """A client of `redis.asyncio` or `valkey.asyncio`."""

    def execute_command(self, *args: Any, **options: Any) -> Coroutine[Any, Any, Any]: ...

    def __aenter__(self) -> Coroutine[Any, Any, Any]: ...


class ServerClient(AsyncClient, Protocol):
    """One of these that is not for a cluster."""

    connection_pool: Any


def check(client: Any, asynchronous: bool, caller: str) -> None:
    """Refuses what is not a client of the wanted kind."""
    if hasattr(client, "command_stack"):
        raise TypeError(f"{caller} needs a client, not a pipeline: what it asks is answered at once")
    # What hears channels can send commands, too, but not hear their answers.
    if not hasattr(client, "execute_command") or not (is_cluster(client) or (hasattr(client, "connection_pool") and hasattr(client, "pubsub"))):
        raise TypeError(f"{caller} needs a client of redis-py or valkey-py, not {client!r}")
    if asynchronous and not hasattr(client, "__aenter__"):
        raise TypeError(f"{caller} needs a client of redis.asyncio or valkey.asyncio; for a plain one there is {caller.removeprefix('Async')}")
    if not asynchronous and not hasattr(client, "__enter__"):
        raise TypeError(f"{caller} needs a plain client; for one of redis.asyncio or valkey.asyncio there is Async{caller}")


def is_cluster(client: Any) -> bool:
    return hasattr(client, "get_node_from_key")


def place(client: Any, key: Any) -> str:
    """The name of the server of this key, among those of the client."""
    return str(client.get_node_from_key(key).name) if is_cluster(client) else ""


def others(client: Any, key: Any) -> list[Any]:
    """The nodes of a cluster that, as its client has it, are not that of the key."""
    return [node for node in client.get_nodes() if node.name != place(client, key)]


def tell(client: Any, moved: Any) -> Any:
    """Has the client of a cluster know what MOVED said. To be awaited if it is something."""
    manager = client.nodes_manager
    if hasattr(manager, "move_slot"):
        return manager.move_slot(moved)
    # In redis-py before 7 and in valkey-py it is noted, and heeded when the slot is asked for.
    manager._moved_exception = moved
    manager.get_node_from_slot(moved.slot_id)
    return None


def parts(client: Any, key: Any, moving: Optional[Any] = None, node: Optional[Any] = None) -> tuple[Any, dict[str, Any]]:
    """The class and arguments of a connection to the server of this key that tries once and is checked by nobody; with `moving`, an
    answer ASK, to the server to which the key is moving; with `node`, to that one of a cluster."""
    pool = client
    if is_cluster(client):
        if node is None:
            node = client.get_node(moving.host, moving.port) if moving is not None else client.get_node_from_key(key)
        if node is None and moving is not None:
            raise moving
        # A node of an asyncio cluster is such a pool itself. Those of plain ones have their client by its library's name.
        connect = getattr(client, "get_redis_connection", getattr(client, "get_valkey_connection", None))
        pool = connect(node) if connect is not None else node
    pool = getattr(pool, "connection_pool", pool)
    arguments = {**pool.connection_kwargs, "retry": None, "retry_on_timeout": False, "retry_on_error": []}
    arguments |= {"socket_timeout": CONNECT, "health_check_interval": 0}
    if "path" not in arguments:
        # Keepalive, so that a wait without limit notices a server that is gone without a word.
        arguments |= {"socket_connect_timeout": CONNECT, "socket_keepalive": True}
        if not arguments.get("socket_keepalive_options"):
            arguments["socket_keepalive_options"] = KEEPALIVE
    return pool.connection_class, arguments


def made_of(client: Any, key: Any, command: Any, reply: Any) -> Any:
    """What the client makes of the answer to this command, as its own `execute_command` does."""
    callbacks = getattr(client, "response_callbacks", None)
    if callbacks is None and is_cluster(client):
        connect = getattr(client, "get_redis_connection", getattr(client, "get_valkey_connection", None))
        callbacks = getattr(connect(client.get_node_from_key(key)) if connect is not None else None, "response_callbacks", None)
    name = command.decode() if isinstance(command, bytes) else command
    return callbacks[name](reply) if callbacks and name in callbacks else reply


def is_moving(client: Any, answer: Any) -> bool:
    """Whether this answer says that the key is not here any more, and not yet another server's."""
    return is_cluster(client) and "AskError" in kinds(answer)


def is_news(client: Any, key: Any, moved: Any) -> bool:
    """Whether an answer MOVED names a node that the client knows, but not as that of the key."""
    node = client.get_node(moved.host, moved.port)
    return node is not None and node.name != place(client, key)


def is_there(connection: Any, other: Any) -> bool:
    """Whether two connections are to one server."""
    return all(getattr(connection, part, None) == getattr(other, part, None) for part in ("host", "port"))


def library(thing: Any) -> Optional[Any]:
    """The module of errors of the library that this client or connection is of."""
    roots = [kind.__module__.partition(".")[0] for kind in type(thing).__mro__]
    return next((sys.modules.get(f"{root}.exceptions") for root in roots if root in ("redis", "valkey")), None)
