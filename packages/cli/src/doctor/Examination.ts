import * as Context from "effect/Context"
import type { Check } from "./Check.ts"

/** The names of all checks, in the order in which the doctor explains them. */
export const checkNames = [
  "settings",
  "disk",
  "filesystem",
  "permissions",
  "address",
  "public-url",
  "database",
  "migrations",
  "schema",
  "integrity",
  "copy",
  "upkeep",
  "purges",
  "clock",
  "backups",
  "keys",
  "signing-keys",
  "live",
  "providers",
  "workers",
  "queue",
  "schedules",
  "deliveries",
  "bucket",
  "machines",
  "installation",
  "blobs",
  "orphans",
] as const

/** Checks that read everything, and take longer the more there is. */
export const thoroughChecks: ReadonlyArray<string> = ["integrity", "blobs", "orphans"]

/** One run of the doctor: its checks, and how it reports. */
export interface Examination {
  /** Returns whether a check is wanted. */
  readonly includes: (name: string) => boolean
  /** Receives each result as soon as it is known. */
  readonly report: (check: Check) => void
}

export const Examination = Context.Reference<Examination>("@kiln/cli/Examination", {
  defaultValue: () => ({ includes: () => true, report: () => undefined }),
})
