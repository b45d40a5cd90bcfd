import * as Effect from "effect/Effect"
import fc from "fast-check"
import { JobDirectory, JobStore, Switchboard } from "@kiln/core/ports"
import { allJobs } from "../allJobs.ts"
import { jobId, projectId } from "../fixtures.ts"
import { kinds, modes } from "./claimJobs.ts"
import { type Operation, operation } from "./Operation.ts"
import { countsInOrder, latest, pick, pickFrom, record } from "./pick.ts"

const some = <A>(arbitrary: fc.Arbitrary<A>): fc.Arbitrary<A | undefined> =>
  fc.option(arbitrary, { freq: 2, nil: undefined })

/** At the very time of a job's creation, or a millisecond beside it. */
const creationTime = some(record({ back: fc.nat(8), delta: fc.constantFrom(-1, 0, 0, 1) }))
const project = some(fc.constantFrom(projectId(1), projectId(2)))

const query = record({
  projectId: project,
  kind: some(fc.constantFrom(...kinds)),
  mode: some(fc.constantFrom(...modes)),
  status: some(fc.constantFrom("queued" as const, "processing" as const, "done" as const, "failed" as const)),
  createdFrom: creationTime,
  createdTo: creationTime,
  limit: fc.constantFrom(1, 2, 5, 10_000),
})

const anyJobs = fc.array(pick, { minLength: 1, maxLength: 3 })

/** Operations of an operator, with their weights. */
export const directoryOperations: ReadonlyArray<fc.WeightedArbitrary<Operation>> = [
  {
    weight: 2,
    arbitrary: operation("listJobs", query, ({ createdFrom, createdTo, ...rest }, { present }) => {
      const jobs = [...present.values()]
      const timeOf = (at: typeof createdFrom): number | undefined =>
        at === undefined ? undefined : (latest(jobs, at.back)?.createdAt ?? 0) + at.delta
      return allJobs({ ...rest, createdFrom: timeOf(createdFrom), createdTo: timeOf(createdTo) })
    }),
  },
  {
    weight: 1,
    arbitrary: operation("countJobs", project, (of) =>
      Effect.flatMap(JobDirectory, (directory) =>
        Effect.map(directory.countJobs({ finishedWithinMs: 777, projectId: of }), countsInOrder),
      ),
    ),
  },
  {
    weight: 1,
    arbitrary: operation("readJobs", fc.array(fc.nat(12), { maxLength: 4 }), (back, history) => {
      const ids = back.map((n) => latest(history.jobs, n)?.jobId ?? jobId(9_999))
      return Effect.flatMap(JobDirectory, (directory) => directory.readJobs(ids))
    }),
  },
  {
    weight: 2,
    arbitrary: operation("cancelJobs", anyJobs, (picks, { jobs, seen }) => {
      const ids = picks.map(
        (choice) => pickFrom(choice, { present: seen.unfinished, ever: jobs })?.jobId ?? jobId(9_999),
      )
      return Effect.flatMap(JobStore, (store) => store.cancelJobs(ids))
    }),
  },
  {
    weight: 1,
    arbitrary: operation(
      "pauseKind",
      fc.tuple(fc.constantFrom(...kinds, "a kind nobody knows"), fc.boolean()),
      ([kind, paused]) => Effect.flatMap(Switchboard, (board) => board.pauseKind(kind, paused)),
    ),
  },
  {
    weight: 1,
    arbitrary: operation(
      "limitProject",
      fc.tuple(fc.integer({ min: 1, max: 3 }), fc.constantFrom(0, 1, 2, null)),
      ([project, concurrency]) =>
        Effect.flatMap(Switchboard, (board) => board.limitProject(projectId(project), concurrency)),
    ),
  },
]
