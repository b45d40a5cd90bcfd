import { compareWithMemory } from "@kiln/conformance"
import { virtualTimePlace } from "./support/places.ts"

// More of what the conformance tests begin with: each takes a second of the server.
compareWithMemory({
  name: "Postgres",
  place: virtualTimePlace(),
  capabilities: { durable: true, multiProcess: true },
  runs: 3,
})
