import { type ProbeAdapter, probeAdapter } from "@kiln/core/ports"
import * as MediaProbeLive from "./MediaProbeLive.ts"

export { MediaProbeLive }

/** Measures audio by walking its container. For programs without Effect; see `MediaProbeLive`. */
export const audioProbe = (): ProbeAdapter => probeAdapter(MediaProbeLive.layer)
