import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Flag from "effect/cli/Flag"
import { isId, labelsWith } from "@kiln/core/domain"
import type { JobQuery } from "@kiln/core/ports"
import { misused } from "../CommandFailed.ts"
import { findProjectId, projectFlag } from "../findProject.ts"
import { duration } from "../settings/SettingType.ts"
import { momentOf } from "./billingMoment.ts"

/** Flags that select jobs. */
export const filterFlags = {
  type: Flag.String("type").pipe(Flag.withDescription("Only jobs of this type"), Flag.optional),
  mode: Flag.Literals("mode", ["sandbox", "live"]).pipe(
    Flag.withDescription("Only jobs of test keys (sandbox) or of live keys"),
    Flag.optional,
  ),
  project: projectFlag,
  key: Flag.String("key").pipe(
    Flag.withMetavar("KEY_ID"),
    Flag.withDescription("Only jobs of this key, from `kiln key list`"),
    Flag.optional,
  ),
  errorCode: Flag.String("error-code").pipe(
    Flag.withMetavar("CODE"),
    Flag.withDescription("Only jobs that failed with this code"),
    Flag.optional,
  ),
  tag: Flag.String("tag").pipe(
    Flag.withDescription("Only jobs with this tag; may be given several times"),
    Flag.atLeast(0),
  ),
  from: Flag.String("from").pipe(
    Flag.withMetavar("DATE"),
    Flag.withDescription("Only jobs created at this time or later: 2026-11-01 (midnight in UTC) or RFC 3339"),
    Flag.optional,
  ),
  to: Flag.String("to").pipe(
    Flag.withMetavar("DATE"),
    Flag.withDescription("Only jobs created before this time"),
    Flag.optional,
  ),
  olderThan: Flag.String("older-than").pipe(
    Flag.withMetavar("DURATION"),
    Flag.withDescription("Only jobs created at least this long ago, such as 30m, 12h or 7d"),
    Flag.optional,
  ),
}

export interface GivenFilter {
  readonly type: Option.Option<string>
  readonly mode: Option.Option<"sandbox" | "live">
  readonly project: Option.Option<string>
  readonly key: Option.Option<string>
  readonly errorCode: Option.Option<string>
  readonly tag: ReadonlyArray<string>
  readonly from: Option.Option<string>
  readonly to: Option.Option<string>
  readonly olderThan: Option.Option<string>
}

/** Whether any of the flags is given. */
export const hasFilter = ({ errorCode, from, key, mode, olderThan, project, tag, to, type }: GivenFilter): boolean =>
  tag.length > 0 || [errorCode, from, key, mode, olderThan, project, to, type].some(Option.isSome)

const optionalMoment = (flag: string, text: Option.Option<string>) =>
  Option.isNone(text) ? Effect.succeed(undefined) : momentOf(flag, text.value)

const keyOf = (key: Option.Option<string>) => {
  if (Option.isNone(key)) return Effect.succeed(undefined)
  const { value } = key
  return isId("key", value) ? Effect.succeed(value) : Effect.fail(misused("--key must be the id of a key: key_…"))
}

/** Returns the time before which the jobs were created. */
const lastMoment = Effect.fnUntraced(function* ({ olderThan, to }: GivenFilter) {
  const end = yield* optionalMoment("to", to)
  if (Option.isNone(olderThan)) return end
  const age = duration(olderThan.value)
  if (!age.ok) return yield* misused(`--older-than ${age.rule}`)
  return Math.min(end ?? Infinity, (yield* Clock.currentTimeMillis) - age.value + 1)
})

/** Returns the query of the flags. */
export const queryOf = Effect.fnUntraced(function* (given: GivenFilter) {
  return {
    kind: Option.getOrUndefined(given.type),
    mode: Option.getOrUndefined(given.mode),
    projectId: yield* findProjectId(given.project),
    keyId: yield* keyOf(given.key),
    errorCode: Option.getOrUndefined(given.errorCode),
    labels: given.tag.length === 0 ? undefined : labelsWith({ tags: given.tag }),
    createdFrom: yield* optionalMoment("from", given.from),
    createdTo: yield* lastMoment(given),
  } satisfies JobQuery
})
