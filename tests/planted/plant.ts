// Preloaded into a process (`node --import`): changes the text of modules as they are loaded, so that a bug can be
// planted without a trace of it in the sources. PLANTED_BUG holds the edits, as JSON. A text that is not there exactly
// once stops the process: a bug that was never planted would count as missed.
import { registerHooks } from "node:module"
import type { Edit } from "./Edit.ts"

const edits = JSON.parse(process.env["PLANTED_BUG"] ?? "[]") as ReadonlyArray<Edit>
// Nothing of it reaches the program, which reads its settings from the environment.
delete process.env["PLANTED_BUG"]

registerHooks({
  load: (url, context, nextLoad) => {
    const loaded = nextLoad(url, context)
    const planted = edits.filter(({ file }) => url.endsWith(`/${file}`))
    if (planted.length === 0) return loaded
    let text = Buffer.from(loaded.source as Uint8Array).toString()
    for (const { file, from, to } of planted) {
      const found = text.split(from).length - 1
      if (found !== 1) throw new Error(`${file} holds ${found} times: ${from}`)
      text = text.replace(from, () => to)
    }
    return { ...loaded, source: text }
  },
})
