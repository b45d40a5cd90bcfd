import { Effect } from "effect"
import { MemoryStores } from "../src/index.ts"

/** Where the text is kept, for as long as the test runs. */
export const persistedInMemory = {
  name: "MemoryStores.layerPersisted",
  place: Effect.sync(() => {
    let kept: string | undefined
    return MemoryStores.layerPersisted({
      capabilities: { durable: true, multiProcess: false },
      load: Effect.sync(() => kept),
      save: (text) => Effect.sync(() => void (kept = text)),
    })
  }),
  capabilities: { durable: true, multiProcess: false },
  reasons: { multiProcess: "each process would overwrite what the other wrote" },
} as const
