import { describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { compareWithMemory, storeConformance, storeSections } from "@kiln/conformance"
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

/** Its tables have other names, and no more is different: each statement is to be met, not each case of it. */
const madeByTheFirstVersion = Effect.map(temporaryFile, (path) => {
  makeEmptyOldDatabase(path, 1)
  return SqliteStores.layer({ path })
})

compareWithMemory({ ...sqlite, name: "SQLite, a file of the first version", place: madeByTheFirstVersion, runs: 20 })

describe("SQLite, a file of the first version, conforms", () => {
  const sections = new Set(["JobStore.createJobs", "JobStore.claimJobs"])
  for (const { checks, name: section } of storeSections.filter(({ name }) => sections.has(name)))
    describe(section, () => {
      const layer = Layer.fresh(Layer.unwrap(madeByTheFirstVersion))
      for (const { name, run } of checks) it.effect(name, () => Effect.provide(run, layer))
    })
})
