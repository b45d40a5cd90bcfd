import { Effect, Layer } from "effect"
import { simulationConformance } from "@kiln/simulation/conformance"
import { SqliteStores } from "../src/index.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

simulationConformance({
  name: "SQLite",
  layer: Layer.unwrap(Effect.map(temporaryFile, (path) => SqliteStores.layer({ path }))),
  seed: 11,
  runs: 90,
})
