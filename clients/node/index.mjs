// For `import`: the same module as for `require`, so that there is only one of it.
export * from "./lib/index.js";
