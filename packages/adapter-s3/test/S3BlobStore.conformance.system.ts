import { blobStoreConformance } from "@kiln/conformance"
import { Effect } from "effect"
import { startS3 } from "./support/s3Server.ts"
import { onServer } from "./support/s3Store.ts"

blobStoreConformance({
  name: "S3",
  place: Effect.map(startS3, (server) => onServer(server, { prefix: "installations/one" })),
  capabilities: { durable: true, multiProcess: true },
})
