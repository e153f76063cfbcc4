// Servers of a test's own, which it may freeze and kill.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Redis } from "ioredis";

import { assert, eventually } from "./servers.mjs";

const PROGRAM = process.env.LOCKSTOCK_SERVER ?? "redis-server";
export const MODULE = process.env.LOCKSTOCK_MODULE ?? fileURLToPath(new URL("../../../target/release/liblockstock.so", import.meta.url));

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

/** A server that runs until the end of the test. */
export async function start(t, ...options) {
  const server = await launch(t, "--save", "", "--loadmodule", MODULE, ...options);
  await server.ready();
  return server;
}

/** A server without the module. */
export async function startPlain(t) {
  const server = await launch(t, "--save", "");
  await server.ready();
  return server;
}

/** A primary and its replica. */
export async function startPair(t) {
  const primary = await start(t);
  const replica = await start(t, "--replicaof", "127.0.0.1", `${primary.port}`);
  const eye = await primary.eye(t);
  await eventually("it is replicated", async () => /state=online/.test(await eye.info("replication")));
  return { primary, replica };
}

/** A primary, its replica and a Sentinel that knows both by the name `shop`, and fails over after so long. */
export async function startSentinel(t, downAfterMs = 400) {
  const { primary, replica } = await startPair(t);
  const file = [
    `sentinel monitor shop 127.0.0.1 ${primary.port} 1`,
    `sentinel down-after-milliseconds shop ${downAfterMs}`,
    "sentinel failover-timeout shop 2000",
  ];
  const sentinel = await launch(t, file.join("\n"), "--sentinel");
  await sentinel.ready();
  const watch = await sentinel.eye(t);
  const knows = async () => (await watch.call("SENTINEL", "REPLICAS", "shop")).length === 1;
  await eventually("it knows the replica", knows);
  return { primary, replica, sentinel };
}

/** A cluster of three nodes, or of one. None takes the place of one that is frozen. */
export async function startCluster(t, size = 3) {
  const options = async () => ["--cluster-enabled", "yes", "--cluster-port", `${await freePort()}`, "--cluster-node-timeout", "60000"];
  const nodes = await Promise.all(Array.from({ length: size }, async () => start(t, ...(await options()))));
  // What holds the process up for seconds makes the calls of the tests beside it time out.
  const create = ["--cluster", "create", ...nodes.map(({ port }) => `127.0.0.1:${port}`), "--cluster-yes"];
  const eyes = await Promise.all(nodes.map((node) => node.eye(t)));
  await (size > 1 ? promisify(execFile)("redis-cli", create) : eyes[0].call("CLUSTER", "ADDSLOTSRANGE", "0", "16383"));
  await eventually("it is one", async () => (await Promise.all(eyes.map((eye) => eye.cluster("INFO")))).every((said) => /_state:ok/.test(said)));
  return nodes;
}

/**
 * A way to a server which a test may break: `cut` ends the connections, `closed` refuses new ones, `deaf` passes nothing on, `lateMs` is
 * how late answers come, and what of the requests `drops` says is passed over in silence. At the next request of which `overtakes` is true,
 * its connection is cut, and the request comes to the server `overtakenMs` later.
 */
export async function startProxy(t, server) {
  const proxy = { closed: false, deaf: false, lateMs: 0, drops: (_request) => false, overtaken: 0, overtakenMs: 3_000, overtakes: undefined };
  const sockets = new Set();
  const listening = createServer((client) => {
    if (proxy.closed) return client.destroy();
    const upstream = connect(server.port, "127.0.0.1");
    let wayMs = 0;
    client.on("data", (data) => {
      if (proxy.deaf || proxy.drops(`${data}`)) return;
      if (!proxy.overtakes?.(`${data}`)) return void upstream.write(data);
      [proxy.overtakes, wayMs] = [undefined, proxy.overtakenMs];
      setTimeout(() => upstream.write(data, () => proxy.overtaken++), wayMs);
      client.destroy();
    });
    upstream.on("data", (data) => setTimeout(() => proxy.deaf || client.write(data), proxy.lateMs));
    // After what is on its way.
    const end = () => setTimeout(() => [client, upstream].forEach((socket) => socket.destroy()), Math.max(proxy.lateMs, 2 * wayMs));
    for (const socket of [client, upstream]) sockets.add(socket.on("error", () => {}).on("close", end));
  }).listen(0, "127.0.0.1");
  await once(listening, "listening");
  proxy.url = `redis://127.0.0.1:${listening.address().port}`;
  proxy.cut = () => sockets.forEach((socket) => socket.destroy());
  t.after(() => {
    listening.close();
    proxy.cut();
  });
  return proxy;
}

async function launch(t, ...options) {
  const port = await freePort();
  const directory = mkdtempSync(join(tmpdir(), "lockstock-node-"));
  const words = ["--port", `${port}`, "--bind", "127.0.0.1", ...options];
  // A file of its own, for Sentinel rewrites it.
  if (!options[0].startsWith("--")) {
    writeFileSync(join(directory, "sentinel.conf"), `port ${port}\nbind 127.0.0.1\n${options[0]}\n`);
    words.splice(0, words.length, "sentinel.conf", ...options.slice(1));
  }
  const child = spawn(PROGRAM, words, { cwd: directory, stdio: "ignore" });
  const ended = once(child, "exit");
  const server = {
    port,
    url: `redis://127.0.0.1:${port}`,
    freeze: () => child.kill("SIGSTOP"),
    thaw: () => child.kill("SIGCONT"),
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
    /** A client that looks at it, whatever becomes of it. */
    async eye(t) {
      const eye = new Redis(server.url, { maxRetriesPerRequest: null }).on("error", () => {});
      t.after(() => eye.disconnect());
      return eye;
    },
    async ready() {
      const eye = new Redis(server.url, { maxRetriesPerRequest: null, retryStrategy: () => 20 }).on("error", () => {});
      const failed = ended.then(() => assert.fail(`${PROGRAM} ${words.join(" ")} has ended`));
      await Promise.race([eye.ping(), failed]).finally(() => eye.disconnect());
      failed.catch(() => {});
    },
  };
  t.after(async () => {
    await server.kill();
    rmSync(directory, { recursive: true });
  });
  return server;
}
