import { adtsFrameAt } from "../../media/index.ts"
import { framesProblem } from "./framesProblem.ts"

/** Returns what is wrong with AAC in ADTS frames; `undefined` if there is at least one and all are complete. */
export const adtsProblem = (data: Uint8Array): string | undefined => framesProblem(data, adtsFrameAt)
