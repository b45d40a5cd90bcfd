import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { type FinishedJob, JobDirectory, type Project } from "@kiln/core/ports"
import type { ResultOf } from "../api/index.ts"
import { formatTime, percentile, percentilesOf } from "./format.ts"

type Recent = ResultOf<"overview">["recent"]

const hourMs = 3_600_000
/** Jobs that are read at most. */
const mostRead = 2_000

const groups = <A>(
  items: ReadonlyArray<A>,
  keyOf: (item: A) => string,
): ReadonlyArray<readonly [A, ReadonlyArray<A>]> =>
  [...Map.groupBy(items, keyOf)]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([, [first, ...others]]) => (first === undefined ? [] : [[first, [first, ...others]] as const]))

const typesOf = (jobs: ReadonlyArray<FinishedJob>): Recent["types"] =>
  groups(jobs, ({ kind, mode }) => `${kind} ${mode}`).map(([{ kind, mode }, all]) => ({
    type: kind,
    mode,
    done: all.filter(({ status }) => status === "done").length,
    failed: all.filter(({ status }) => status === "failed").length,
    waited: percentilesOf(all.map(({ waitedMs }) => waitedMs)),
    ran: percentilesOf(all.map(({ ranMs }) => ranMs)),
  }))

const failuresOf = (jobs: ReadonlyArray<FinishedJob>): Recent["failures"] =>
  groups(
    jobs.filter(({ status }) => status === "failed"),
    ({ errorCode, kind }) => `${kind} ${errorCode}`,
  )
    .map(([{ errorCode, kind }, all]) => ({ type: kind, error_code: errorCode ?? "", count: all.length }))
    .toSorted((one, other) => other.count - one.count)

const projectsOf = (jobs: ReadonlyArray<FinishedJob>, names: ReadonlyMap<string, string>): Recent["projects"] => {
  const allMs = jobs.reduce((sum, { ranMs }) => sum + ranMs, 0)
  return groups(jobs, ({ projectId }) => projectId)
    .map(([{ projectId }, all]) => {
      const ranMs = all.reduce((sum, job) => sum + job.ranMs, 0)
      const waited = all.map(({ waitedMs }) => waitedMs).toSorted((one, other) => one - other)
      return {
        project_id: projectId,
        name: names.get(projectId) ?? null,
        jobs: all.length,
        ran_seconds: ranMs / 1_000,
        share: allMs === 0 ? 0 : ranMs / allMs,
        waited_p95_seconds: percentile(waited, 0.95) / 1_000,
      }
    })
    .toSorted((one, other) => other.ran_seconds - one.ran_seconds)
    .slice(0, 20)
}

/** Summarizes the jobs that finished within the last hour, or the newest of them. */
export const readRecent = Effect.fnUntraced(function* (projects: ReadonlyArray<Project>) {
  const jobs = yield* (yield* JobDirectory).listFinished({ withinMs: hourMs, limit: mostRead })
  const now = yield* Clock.currentTimeMillis
  const complete = jobs.length < mostRead
  const names = new Map<string, string>(projects.map(({ id, name }) => [id, name]))
  return {
    since: formatTime(complete ? now - hourMs : (jobs.at(-1)?.finishedAt ?? now)),
    jobs: jobs.length,
    complete,
    types: typesOf(jobs),
    failures: failuresOf(jobs),
    projects: projectsOf(jobs, names),
  } satisfies Recent
})
