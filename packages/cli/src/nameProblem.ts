/**
 * Names are for people and stand in tables on terminals: no control characters (they could move the cursor), none that
 * turn the direction of writing, and short enough for a column. What is wrong with one; `undefined` when it is fine.
 */
export const nameProblem = (name: string): string | undefined =>
  name.trim() !== name || name === "" || [...name].length > 100 || /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(name)
    ? "must have 1 to 100 characters, without space at its ends and without control characters"
    : undefined
