// The examples of the README run as printed, but for the port.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { promisify } from "node:util";

import { Redis } from "ioredis";
import { createClient } from "redis";

import { CLIENTS, assert, close, cmd } from "./servers.mjs";

const page = await readFile(new URL("../README.md", import.meta.url), "utf8");
const blocks = [...page.matchAll(/```js\n(.*?)```/gs)].map(([, block]) => block);

// What each prints.
const says = ["job:42 is ours: true\nOK\nDUPLICATE\nSOLDOUT\nOK\n", "OK 0\nQUEUED\n1\norder:7 cancelled\norder:8 sold\n"];

blocks.forEach((block, number) => {
  test(`example ${number + 1} runs as printed`, async () => {
    const client = await CLIENTS.ioredis();
    await cmd(client, "FLUSHALL");
    await close(client);
    const url = `"${process.env.LOCKSTOCK_URL}"`;
    const code = block.replace("new Redis()", `new Redis(${url})`).replace("createClient()", `createClient({ url: ${url} })`);
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", code], {
      cwd: new URL("..", import.meta.url),
    });
    assert.equal(stdout, says[number]);
  });
});

test("the table of clients knows these libraries", async () => {
  const table = await readFile(new URL("../../../docs/clients.md", import.meta.url), "utf8");
  const versions = JSON.parse(await readFile(new URL("../package.json", import.meta.url), "utf8")).devDependencies;
  const short = (name) => versions[name].replace(/\.\d+$/, "");
  const row = (name) => table.split("\n").find((line) => line.startsWith(`| ${name} |`));
  assert.match(row(`ioredis ${short("ioredis")}`), /`commandTimeout`: none/);
  assert.match(row(`node-redis ${short("redis")}`), /`socketTimeout`: none/);
  const plain = new Redis({ lazyConnect: true });
  assert.deepEqual([plain.options.commandTimeout, plain.options.autoResendUnfulfilledCommands], [undefined, true]);
  assert.equal(createClient().options.socket?.socketTimeout, undefined);
  assert.match(row(`node-redis ${short("redis")}`), /a command's `timeout`, 5 s, limits only the time until the command is written/);
  assert.equal(createClient()._commandOptions.timeout, 5_000);
});

test("there are examples", () => assert.equal(blocks.length, says.length));
