import { Effect, Layer } from "effect"
import { compareWithMemory, storeConformance } from "@kiln/testing/conformance"
import { SqliteStores } from "../src/index.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const layer = Layer.unwrap(Effect.map(temporaryFile, (path) => SqliteStores.layer({ path })))

storeConformance({ name: "SQLite", layer, capabilities: { durable: true, multiProcess: true } })
compareWithMemory({ name: "SQLite", layer, runs: 60 })
