/**
 * The scripts of package.json that read the repository and change nothing, in lists that run at the same time. A list runs in
 * its order. `.ci/run` has all names.
 */
export const checkLanes = [
  ["boundaries", "unused", "openapi:check", "state-machine:check", "pages:check"],
  // Both build the packages first, so one has to wait for the other.
  ["packages:check", "api-report:check"],
] as const

/** They use every core by themselves and run first: a build in progress would give false errors. */
export const firstChecks = ["types", "lint", "format:check"] as const

export const staticChecks = [...firstChecks, ...checkLanes.flat()]
