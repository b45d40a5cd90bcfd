import { blobStoreConformance } from "@kiln/conformance"
import { Effect } from "effect"
import { temporaryDatabase } from "../support/places.ts"
import { blobsIn } from "./support.ts"

blobStoreConformance({
  name: "Postgres",
  place: Effect.map(temporaryDatabase(), (url) => blobsIn({ url })),
  capabilities: { durable: true, multiProcess: true },
})
