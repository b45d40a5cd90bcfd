/** Rounds a caller's age up to whole milliseconds, at most the largest safe integer. */
export const wholeAge = (ms: number): number => Math.min(Math.ceil(ms), Number.MAX_SAFE_INTEGER - 1)
