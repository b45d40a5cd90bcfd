import { createRequire, registerHooks } from "node:module"
import { pathToFileURL } from "node:url"

// Preloaded into tools that print TypeScript through the compiler's API: TypeScript 7 does not have it, and as a peer they
// would get that version. dependency-cruiser needs the API too and has version 6 beside it (see pnpm-workspace.yaml).
const cruiser = import.meta.resolve("dependency-cruiser")
const withApi = pathToFileURL(createRequire(cruiser).resolve("typescript")).href

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === "typescript" ? { url: withApi, shortCircuit: true } : next(specifier, context),
})
