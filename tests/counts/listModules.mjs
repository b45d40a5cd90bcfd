// Prints every module that a program loads, as `{ url, bytes }`: `node --import listModules.mjs program.mjs`.
import { registerHooks } from "node:module"

const loaded = []
registerHooks({
  load: (url, context, next) => {
    const module = next(url, context)
    loaded.push({ url, bytes: module.source?.length ?? 0 })
    return module
  },
})
process.on("exit", () => process.stdout.write(JSON.stringify(loaded)))
