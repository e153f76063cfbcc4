// The package as it is published: what is in it, and that it works for `import` and `require` in an empty folder.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import * as lockstock from "lockstock";

import { assert } from "../servers.mjs";

const HERE = fileURLToPath(new URL("../..", import.meta.url));
const about = JSON.parse(readFileSync(join(HERE, "package.json"), "utf8"));

test("import and require give the same classes", () => {
  const required = createRequire(import.meta.url)("lockstock");
  const { default: whole, ...named } = lockstock;
  assert.equal(whole, undefined);
  assert.deepEqual(Object.keys(named).filter((name) => name !== "module.exports").sort(), Object.keys(required).sort());
  for (const [name, value] of Object.entries(required)) {
    assert.equal(named[name], value);
    assert.equal(value.name, name);
  }
  for (const name of Object.keys(required).filter((name) => !/^(Hold|Locks|Stock|LockstockError)$/.test(name))) {
    assert(required[name].prototype instanceof required.LockstockError, name);
  }
});

test("npm pack makes a package of all it needs, which works where nothing else is", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "lockstock-pack-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const [{ filename, files }] = JSON.parse(execFileSync("npm", ["pack", "--json", "--silent", "--pack-destination", folder], { cwd: HERE }));
  const packed = files.map(({ path }) => path).sort();
  const wanted = ["LICENSE", "README.md", "index.d.mts", "index.mjs", "package.json"];
  for (const part of ["lib", "types"]) wanted.push(...readdirSync(join(HERE, part)).map((name) => `${part}/${name}`));
  assert.deepEqual(packed, wanted.sort());
  mkdirSync(join(folder, "node_modules/lockstock"), { recursive: true });
  execFileSync("tar", ["-xzf", filename, "-C", "node_modules/lockstock", "--strip-components=1"], { cwd: folder });
  const ask = (...args) => execFileSync(process.execPath, args, { cwd: folder, encoding: "utf8" });
  const same = `import("lockstock").then(({ Locks }) => console.log(Locks === require("lockstock").Locks, require("lockstock/package.json").version))`;
  assert.equal(ask("--eval", same), `true ${about.version}\n`);
  assert.equal(ask("--input-type=module", "--eval", `import { Stock } from "lockstock"; console.log(typeof Stock)`), "function\n");
});

test("what it says of itself is true", () => {
  const manifest = readFileSync(join(HERE, "../../Cargo.toml"), "utf8");
  assert.equal(about.version, manifest.match(/^version = "(.*)"$/m)[1]);
  assert.equal(about.license, "MIT");
  assert.equal(readFileSync(join(HERE, "LICENSE"), "utf8"), readFileSync(join(HERE, "../../LICENSE"), "utf8"));
  // The lowest and the newest of each library are those that are tested.
  const { devDependencies: tested, peerDependencies: wanted } = about;
  for (const library of ["ioredis", "redis"]) {
    const version = (name) => tested[name].replace(/^npm:\w+@/, "");
    assert.equal(wanted[library], `^${version(`${library}-oldest`)} || ^${version(library).split(".")[0]}.0.0`);
  }
});
