// A process of its own: opens stores, closes them, says how that went, and has nothing more to do.
import { StoreUnavailable } from "@kiln/core/domain"
import { openStores } from "./openStores.ts"

const startedAt = performance.now()
const outcome = await openStores({ url: process.argv[2] ?? "", notifications: true }).then(
  async (stores) => {
    await stores.close()
    return "open"
  },
  (error: unknown) => (error instanceof StoreUnavailable ? error._tag : "something else"),
)
process.stdout.write(JSON.stringify({ outcome, tookMs: performance.now() - startedAt }))
