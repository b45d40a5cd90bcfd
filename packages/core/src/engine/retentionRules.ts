import { crc32 } from "../domain/crc32.ts"
import type { JobKind } from "../kinds/index.ts"
import { type RetentionPublication, type RetentionRule, ruleOfUploads } from "../ports/index.ts"
import type { RetentionAges } from "../ports/Retention.ts"
import type { EngineSettings } from "./EngineSettings.ts"

type RetentionSettings = Pick<
  EngineSettings,
  "dataRetentionMs" | "jobRetentionMs" | "pruneIntervalMs" | "idlePruneIntervalMs"
>

/** 0 in settings and limits means indefinitely. */
const ageOf = (retentionMs: number): number | null => (retentionMs === 0 ? null : retentionMs)

/**
 * Returns how long this process keeps finished jobs of the kinds that it knows: as the kind says, otherwise as the settings say.
 * It says nothing about other kinds.
 */
export const retentionRules = (
  settings: Pick<RetentionSettings, "dataRetentionMs" | "jobRetentionMs">,
  kinds: ReadonlyArray<JobKind>,
): ReadonlyArray<RetentionRule> => [
  // Uploads that no job used belong to no kind.
  { kind: ruleOfUploads, dataMs: ageOf(settings.dataRetentionMs), jobsMs: ageOf(settings.jobRetentionMs) },
  ...kinds.map(({ limits, name }) => ({
    kind: name,
    dataMs: ageOf(limits.dataRetentionMs ?? settings.dataRetentionMs),
    jobsMs: ageOf(limits.jobRetentionMs ?? settings.jobRetentionMs),
  })),
]

/** A week: longer than a process is stopped that will come back. */
const graceMs = 7 * 86_400_000

/** Names the processes with the same kinds, of which one replaces another. */
const programOf = (kinds: ReadonlyArray<JobKind>): string =>
  crc32(new TextEncoder().encode(JSON.stringify(kinds.map(({ name }) => name).sort()))).toString(16)

/** Returns what a process publishes about the retention of its kinds. It is repeated by each sweep that prunes. */
export const retentionPublication = (
  settings: RetentionSettings,
  kinds: ReadonlyArray<JobKind>,
  publisher: string,
): RetentionPublication => ({
  publisher,
  program: programOf(kinds),
  rules: retentionRules(settings, kinds),
  // Outlives two sweeps that fail.
  ttlMs: 3 * Math.max(settings.pruneIntervalMs, settings.idlePruneIntervalMs),
  graceMs,
})

/** Returns all finite ages, in milliseconds. */
export const finiteAges = ({ byKind, others }: RetentionAges): ReadonlyArray<number> =>
  [others, ...Object.values(byKind)].filter((ms) => ms !== Infinity)
