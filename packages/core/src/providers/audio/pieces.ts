/**
 * Maximum number of chunks, boxes or elements, more than any valid file of the accepted size has. The smallest take a few bytes,
 * so a file of nothing else would block the event loop for long.
 */
export const MAX_PIECES = 500_000
