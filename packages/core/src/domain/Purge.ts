const firstPauseMs = 60_000
const longestPauseMs = 3_600_000

/**
 * Milliseconds until blobs whose removal failed are tried again, by the number of earlier failures: twice as long each time, from
 * a minute up to an hour.
 */
export const purgePauseMs = (failures: number): number =>
  Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(failures, 16))
