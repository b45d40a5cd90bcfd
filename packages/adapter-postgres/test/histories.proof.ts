import { compareWithMemory } from "@kiln/conformance"
import { virtualTimePlace } from "./support/places.ts"

// Far more than the system tier has time for: each takes seconds of the server.
compareWithMemory({
  name: "Postgres",
  place: virtualTimePlace(),
  capabilities: { durable: true, multiProcess: true },
  runs: 40,
})
