/** The scripts of package.json that read the repository and change nothing. `.ci/run` has the same list. */
export const staticChecks = [
  "types",
  "lint",
  "format:check",
  "boundaries",
  "unused",
  "openapi:check",
  "state-machine:check",
  "planted-bugs:check",
  "packages:check",
  "api-report:check",
] as const
