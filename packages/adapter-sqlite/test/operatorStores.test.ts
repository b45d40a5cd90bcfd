import { Effect, Layer } from "effect"
import { operatorStoresConformance } from "@kiln/conformance"
import { SqliteStores } from "../src/index.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

operatorStoresConformance(Layer.unwrap(Effect.map(temporaryFile, (path) => SqliteStores.layer({ path }))))
