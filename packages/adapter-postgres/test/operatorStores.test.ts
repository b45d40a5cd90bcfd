import { Layer } from "effect"
import { operatorStoresConformance } from "@kiln/conformance"
import { virtualTimePlace } from "./support/places.ts"

operatorStoresConformance(Layer.unwrap(virtualTimePlace()))
