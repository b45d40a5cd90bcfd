import { Effect, Layer } from "effect"
import { rateLimitConformance } from "@kiln/conformance"
import { SqliteStores } from "../src/index.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

rateLimitConformance(Layer.unwrap(Effect.map(temporaryFile, (path) => SqliteStores.layer({ path }))))
