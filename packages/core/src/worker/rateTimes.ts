/** The times, in milliseconds, of the rates that processes share. */

/**
 * The time in which a portion may be used. The tokens of a process that was killed are missing for so long, and the bucket refills no further
 * than the rest of its burst.
 */
export const portionMs = 5_000
/** A portion is used a little shorter than the store keeps it, because clocks differ in speed. */
export const usableMs = 0.95 * portionMs
/** After how long without a request a portion is ended: used tokens then no longer hold up the bucket. */
export const idleMs = 1_500
/** The longest wait for a token that keeps a slot. A job that would wait longer leaves its slot and is claimed again. */
export const waitInSlotMs = 1_000
/** The longest pause between two requests to the store while the bucket has tokens, but fewer than wanted. */
export const longestPauseMs = 1_000
/** The time that a claim waits for the store to hand out a portion, and that a stopping process waits to return one. */
export const answerLimitMs = 1_000
