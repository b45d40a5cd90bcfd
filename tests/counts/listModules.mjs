// Writes every module that a program loads, as `[{ url, bytes }]`: `MODULES_FILE=list.json node --import listModules.mjs …`.
import { writeFileSync } from "node:fs"
import { registerHooks } from "node:module"

const loaded = []
registerHooks({
  load: (url, context, next) => {
    const module = next(url, context)
    loaded.push({ url, bytes: module.source?.length ?? 0 })
    return module
  },
})
process.on("exit", () => writeFileSync(process.env.MODULES_FILE, JSON.stringify(loaded)))
