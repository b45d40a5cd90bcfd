// Read by whatever Node the reader has, so the syntax is that of Node 14.

/** Types are stripped from 22.18 on, the HTTP platform wants 22.19; on Node 20 the SQLite driver crashes without a word. */
const OLDEST = [22, 19]

/**
 * What to tell someone whose Node cannot run kiln: one line, or undefined when it can.
 *
 * @param {string} found a version such as `20.11.1`
 * @returns {string | undefined}
 */
export function requireNode(found) {
  const [major, minor] = found.split(".").map(Number)
  const [oldestMajor, oldestMinor] = OLDEST
  const withoutTypes = major === 23 && minor < 6
  if ((major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) && !withoutTypes) return undefined
  return (
    "kiln needs Node " +
    OLDEST.join(".") +
    " or newer" +
    (withoutTypes ? " (23.6 or newer of the 23 line)" : "") +
    ", found Node " +
    found +
    ". Install Node 24. In a checkout, run `npx -y pnpm@12 kiln`, which uses its own Node."
  )
}
