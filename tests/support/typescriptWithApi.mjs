import { registerHooks } from "node:module"

// Preloaded into tools that print TypeScript through the compiler's API: TypeScript 7 does not have it, and as a peer they
// would get that version.
const withApi = import.meta.resolve("typescript-with-api")

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === "typescript" ? { url: withApi, shortCircuit: true } : next(specifier, context),
})
