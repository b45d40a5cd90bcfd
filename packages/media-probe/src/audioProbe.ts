import { type ProbeAdapter, probeAdapter } from "@kiln/core/ports"
import { layer } from "./MediaProbeLive.ts"

/** Measures audio by walking its container. For programs without Effect; see `MediaProbeLive`. */
export const audioProbe = (): ProbeAdapter => probeAdapter(layer)
