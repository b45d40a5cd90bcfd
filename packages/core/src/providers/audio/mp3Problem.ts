import { mpegFrameAt } from "../../media/index.ts"
import { framesProblem } from "./framesProblem.ts"

/** Returns what is wrong with an MP3; `undefined` if it has at least one frame of layer III and all are complete. */
export const mp3Problem = (data: Uint8Array): string | undefined =>
  framesProblem(data, (_, at) => {
    const frame = mpegFrameAt(data, at)
    return frame?.layer === 3 ? frame : undefined
  })
