import { Effect } from "effect"
import { auditLogConformance, compareWithMemory, storeConformance } from "@kiln/conformance"
import { SqliteStores } from "../src/index.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const sqlite = {
  name: "SQLite",
  place: Effect.map(temporaryFile, (path) => SqliteStores.layer({ path })),
  capabilities: { durable: true, multiProcess: true },
} as const

// With a place, that includes `durabilityConformance`.
storeConformance(sqlite)
auditLogConformance(sqlite)
compareWithMemory({ ...sqlite, runs: 20 })
