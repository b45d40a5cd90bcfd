import { Layer } from "effect"
import { rateLimitConformance } from "@kiln/conformance"
import { virtualTimePlace } from "./support/places.ts"

rateLimitConformance(Layer.unwrap(virtualTimePlace()))
