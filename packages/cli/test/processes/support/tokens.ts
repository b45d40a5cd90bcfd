import { jobKind } from "@kiln/core"
import { setTimeout as pause } from "node:timers/promises"
import { z } from "zod"

/** Emits numbered tokens, twenty a second. An attempt goes on after the last token that is stored. */
export const tokens = jobKind({
  name: "tokens",
  request: z.object({ count: z.number() }),
  chunk: z.object({ token: z.string() }),
  output: z.object({ attempts: z.number() }),
  run: async (job) => {
    for (let n = job.emitted; n < job.request.count; n++) {
      job.emit({ token: `t${n}` })
      await pause(50)
    }
    return { output: { attempts: job.attempt } }
  },
})
