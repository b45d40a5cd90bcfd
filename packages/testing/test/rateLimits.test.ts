import { rateLimitConformance } from "@kiln/conformance"
import { MemoryStores } from "../src/index.ts"

rateLimitConformance(MemoryStores.layer)
