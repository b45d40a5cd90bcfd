import type { Walk, Work } from "../Work.ts"

/** Bytes that are searched between two pauses. */
export const SLICE_BYTES = 4_096
/** Steps of work to look at each of them. */
export const SLICE_STEPS = 40

/** Returns whether all bytes from `from` to `to` are 0. */
export function* isZero(file: Uint8Array, from: number, to: number, work: Work): Walk<boolean> {
  for (let at = from; at < to; at++) {
    if ((at - from) % SLICE_BYTES === 0 && work.spend(SLICE_STEPS)) yield
    if (file[at] !== 0) return false
  }
  return true
}
