// Preload this into tools that use the compiler's JavaScript API: their peer `typescript` resolves to version 7, which has no
// such API. It makes them load version 6 instead. (dependency-cruiser has its own copy, see pnpm-workspace.yaml.)
import { registerHooks } from "node:module"

const withApi = import.meta.resolve("@typescript/typescript6")

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === "typescript" ? { url: withApi, shortCircuit: true } : next(specifier, context),
})
