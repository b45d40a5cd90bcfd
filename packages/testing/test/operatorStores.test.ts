import { operatorStoresConformance } from "@kiln/conformance"
import { MemoryStores } from "../src/index.ts"

operatorStoresConformance(MemoryStores.layer)
