/** Why the driver cannot be loaded by this Node; `undefined` where it can. On older ones it ends the process without a word. */
export const nodeProblem = (version: string): string | undefined => {
  const [major = 0, minor = 0] = version.split(".").map(Number)
  if (major > 22 || (major === 22 && minor >= 14)) return undefined
  return `@kiln/adapter-sqlite needs Node 22.14 or newer, and this is ${version}`
}
