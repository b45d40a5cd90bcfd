import { Effect } from "effect"
import {
  isDate,
  KindUnknown,
  type JobStatus,
  requireFlag,
  requireNumber,
  requireOneOf,
  requireOptions,
  switchNames,
} from "../domain/index.ts"
import { Engine, Operator } from "../engine/index.ts"
import type { Kind } from "../kinds/index.ts"
import type { JobSummary } from "../ports/index.ts"
import { requireMode } from "./checkOptions.ts"
import { projectAskedFor } from "./callers.ts"
import { idOf, shown } from "./jobVerbs.ts"
import { listedCharges } from "./listedCharges.ts"
import { countQuestion, listQuery, periodOptions, priceOptions } from "./optionNames.ts"
import type { ListedJob, ListQuery, OperatorVerbs } from "./OperatorVerbs.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"

export const operatorVerbs = <K extends Kind>({ run }: EngineRuntime): OperatorVerbs<K> => {
  const verbs: OperatorVerbs<K> = {
    list: async (query = {}) => {
      checkQuery(query)
      return run(
        Effect.flatMap(Operator, (operator) =>
          Effect.map(operator.listJobs(pageOf(query)), ({ jobs, next }) => ({ jobs: jobs.map(listed), next })),
        ),
      )
    },
    async *listAll(query = {}) {
      let after: string | undefined
      do {
        const page = await verbs.list({ ...query, ...(after !== undefined && { after }) })
        yield* page.jobs
        after = page.next
      } while (after !== undefined)
    },
    count: async (question = {}) => {
      requireOptions("count()", question, countQuestion)
      const { finishedWithinMs, project } = question
      if (finishedWithinMs !== undefined) requireNumber("finishedWithinMs", finishedWithinMs, { least: 0 })
      return run(
        Effect.flatMap(Operator, (operator) =>
          operator.countJobs({
            finishedWithinMs,
            projectId: project === undefined ? undefined : projectAskedFor(project),
          }),
        ),
      )
    },
    cancel: (job) => run(Effect.flatMap(Operator, (operator) => operator.cancelJob(idOf(job)))),
    retry: (job) =>
      run(
        Effect.flatMap(Operator, (operator) =>
          Effect.flatMap(operator.retryJob(idOf(job)), (accepted) => shown(accepted.job)),
        ),
      ),
    ...pausing(run),
    board: () => run(Effect.flatMap(Engine, (engine) => engine.readBoard)),
    setSwitch: async (name, on) => {
      requireOneOf("switch", name, switchNames)
      if (typeof on !== "boolean") throw new TypeError("a switch is set to true or false")
      return run(operatorOf((operator) => operator.setSwitch(name, on)))
    },
    setPrice: async (options) => {
      requireOptions("setPrice()", options, priceOptions)
      const { active = true, ...price } = options
      requireFlag("active", active)
      return run(
        Effect.flatMap(Operator, (operator) =>
          Effect.andThen(operator.setPrice(price), Effect.asVoid(operator.activatePrice(price.name, active))),
        ),
      )
    },
    charges: (period) => {
      requireOptions("charges()", period, periodOptions)
      const { from, to } = period
      requireDate("from", from)
      requireDate("to", to)
      return listedCharges({ from: from.getTime(), to: to.getTime() }, (page) =>
        run(operatorOf((operator) => operator.listCharges(page))),
      )
    },
  }
  return verbs
}

/** Pausing kinds of jobs and letting them go on. */
const pausing = (run: EngineRuntime["run"]): Pick<OperatorVerbs<Kind>, "pause" | "resume"> => ({
  pause: (kind) =>
    run(
      Effect.andThen(
        knownKind(kind, []),
        operatorOf((operator) => operator.pauseKind(kind)),
      ),
    ),
  resume: (kind) =>
    run(
      Effect.gen(function* () {
        const { pausedKinds } = yield* Effect.flatMap(Engine, (engine) => engine.readBoard)
        // One that this program no longer knows may be let go on.
        yield* knownKind(kind, pausedKinds)
        yield* operatorOf((operator) => operator.resumeKind(kind))
      }),
    ),
})

const operatorOf = <A, E, R>(use: (operator: Operator["Service"]) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(Operator, use)

/** Fails with `KindUnknown` for a kind that is neither one of this engine's nor one of `others`. */
const knownKind = (kind: string, others: ReadonlyArray<string>) =>
  Effect.flatMap(Engine, ({ kinds }) => {
    const known = kinds.map(({ name }) => name)
    return known.includes(kind) || others.includes(kind) ? Effect.void : Effect.fail(new KindUnknown({ kind, known }))
  })

const statuses: { readonly [Status in JobStatus]: true } = { queued: true, processing: true, done: true, failed: true }

const requireDate = (name: string, value: unknown, hint = ""): void => {
  if (!isDate(value) || Number.isNaN(value.getTime())) throw new TypeError(`${name} must be a valid Date${hint}`)
}

const noBound = "; leave it out for no bound"

const checkQuery = (query: ListQuery): void => {
  requireOptions("list()", query, listQuery)
  if (query.status !== undefined) requireOneOf("status", query.status, Object.keys(statuses))
  if (query.mode !== undefined) requireMode(query.mode)
  if (query.createdFrom !== undefined) requireDate("createdFrom", query.createdFrom, noBound)
  if (query.createdTo !== undefined) requireDate("createdTo", query.createdTo, noBound)
}

const pageOf = ({ createdFrom, createdTo, project, ...query }: ListQuery) => ({
  ...query,
  projectId: project === undefined ? undefined : projectAskedFor(project),
  createdFrom: createdFrom?.getTime(),
  createdTo: createdTo?.getTime(),
})

const listed = ({ claimableAt, createdAt, finishedAt, ...job }: JobSummary): ListedJob => ({
  ...job,
  createdAt: new Date(createdAt),
  claimableAt: claimableAt === null ? null : new Date(claimableAt),
  finishedAt: finishedAt === null ? null : new Date(finishedAt),
})
