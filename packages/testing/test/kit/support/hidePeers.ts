import { registerHooks } from "node:module"

/** Preloaded into a process, where these packages are not installed then. */
const hidden = /^(vitest|@effect\/vitest|fast-check|jest|@jest\/globals)(\/|$)/

registerHooks({
  resolve: (specifier, context, next) => {
    if (hidden.test(specifier)) throw new Error(`${specifier} is not installed`)
    return next(specifier, context)
  },
})
