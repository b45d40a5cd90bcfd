import { Effect } from "effect"
import { compareWithMemory, storeConformance } from "@kiln/conformance"
import { JsonStores } from "./JsonStores.ts"
import { temporaryFile } from "./support/temporaryFile.ts"

const json = {
  name: "JSON file",
  place: Effect.map(temporaryFile, (path) => JsonStores.layer({ path })),
  capabilities: { durable: true, multiProcess: false },
  reasons: { multiProcess: "each process would overwrite what the other wrote: the second one is refused" },
} as const

// With `place`, both suites close the store in the middle and reopen it.
storeConformance(json)
compareWithMemory({ ...json, runs: 5 })
