import { Effect } from "effect"
import { compareWithMemory, storeConformance } from "@kiln/testing/conformance"
import { SqliteStores } from "../src/index.ts"
import { makeEmptyOldDatabase } from "./support/oldDatabase.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const sqlite = {
  name: "SQLite",
  place: Effect.map(temporaryFile, (path) => SqliteStores.layer({ path })),
  capabilities: { durable: true, multiProcess: true },
} as const

// With a place, that includes `durabilityConformance`.
storeConformance(sqlite)
compareWithMemory({ ...sqlite, runs: 60 })

// Its tables have other names.
const madeByTheFirstVersion = {
  ...sqlite,
  name: "SQLite, a file of the first version",
  place: Effect.map(temporaryFile, (path) => {
    makeEmptyOldDatabase(path, 1)
    return SqliteStores.layer({ path })
  }),
} as const

storeConformance(madeByTheFirstVersion)
compareWithMemory({ ...madeByTheFirstVersion, runs: 15 })
