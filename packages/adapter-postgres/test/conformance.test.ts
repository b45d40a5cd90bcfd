import { auditLogConformance, compareWithMemory, storeConformance } from "@kiln/conformance"
import { virtualTimePlace } from "./support/places.ts"

const postgres = {
  name: "Postgres",
  place: virtualTimePlace(),
  capabilities: { durable: true, multiProcess: true },
} as const

// With a place, that includes `durabilityConformance`.
storeConformance(postgres)
auditLogConformance(postgres)
compareWithMemory({ ...postgres, runs: 8 })
