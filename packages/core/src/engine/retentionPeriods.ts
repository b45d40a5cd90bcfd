import type { JobKind } from "../kinds/index.ts"
import type { RetentionAges, RetentionPeriods } from "../ports/index.ts"
import type { EngineSettings } from "./EngineSettings.ts"

type RetentionSetting = "dataRetentionMs" | "jobRetentionMs"

/** 0 in settings and limits means indefinitely. */
const ageOf = (retentionMs: number): number => (retentionMs === 0 ? Infinity : retentionMs)

const agesOf = (
  settings: Pick<EngineSettings, RetentionSetting>,
  kinds: ReadonlyArray<JobKind>,
  name: RetentionSetting,
): RetentionAges => ({
  others: ageOf(settings[name]),
  byKind: Object.fromEntries(
    kinds.flatMap(({ limits, name: kind }) => {
      const retentionMs = limits[name]
      return retentionMs === undefined ? [] : [[kind, ageOf(retentionMs)]]
    }),
  ),
})

/** Returns how long finished jobs are kept: as their kind says, otherwise as the settings say. */
export const retentionPeriods = (
  settings: Pick<EngineSettings, RetentionSetting>,
  kinds: ReadonlyArray<JobKind>,
): RetentionPeriods => ({
  data: agesOf(settings, kinds, "dataRetentionMs"),
  jobs: agesOf(settings, kinds, "jobRetentionMs"),
})

/** Returns all finite ages, in milliseconds. */
export const finiteAges = ({ byKind, others }: RetentionAges): ReadonlyArray<number> =>
  [others, ...Object.values(byKind)].filter((ms) => ms !== Infinity)
