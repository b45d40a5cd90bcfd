/**
 * Validates a display name; returns the problem, or `undefined` if it is valid. Names appear in terminal tables, so they must
 * not contain control characters (which could move the cursor) or characters that change the writing direction, and they
 * must fit into a column.
 */
export const nameProblem = (name: string): string | undefined =>
  name.trim() !== name || name === "" || [...name].length > 100 || /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(name)
    ? "must have 1 to 100 characters, without leading or trailing space and without control characters"
    : undefined
