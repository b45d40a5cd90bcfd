import { Effect } from "effect"
import { authorize, type Job, type JobMode } from "../domain/index.ts"
import { Engine, EngineConfig, JobNotFound, KindUnknown } from "../engine/index.ts"
import { readJob } from "../engine/ReadJob.ts"
import { waitForJob } from "../engine/WaitForJob.ts"
import type { Kind } from "../kinds/index.ts"
import { IdGenerator } from "../ports/index.ts"
import { callerOf, projectIdOf } from "./callers.ts"
import type { EmbeddedEngine, SubmitOptions } from "./EmbeddedEngine.ts"
import type { JobReference } from "./JobResult.ts"
import type { Running } from "./Running.ts"
import { toJobResult } from "./toJobResult.ts"

const defaultWaitMs = 300_000

type Verbs<K extends Kind, Transaction, SyncTransaction> = Pick<
  EmbeddedEngine<K, Transaction, SyncTransaction>,
  "submit" | "submitSync" | "get" | "wait" | "run" | "erase"
>

export const idOf = (job: JobReference<string>): string => (typeof job === "string" ? job : job.id)

/** A job as the program sees it. */
export const shown = (job: Job) =>
  Effect.map(EngineConfig, ({ defaultCurrency }) => toJobResult<never>(job, defaultCurrency))

/** Whether a job is of this project; any job is, where none is given. */
const isOf = (project: string | undefined): ((job: Job) => boolean) => {
  const projectId = project === undefined ? undefined : projectIdOf(project)
  return (job) => projectId === undefined || job.projectId === projectId
}

const findJob = (job: JobReference<string>, project: string | undefined) =>
  Effect.flatMap(readJob(idOf(job)), (found) =>
    isOf(project)(found) ? Effect.succeed(found) : Effect.fail(new JobNotFound()),
  )

const asked = Effect.fnUntraced(function* (
  name: string,
  request: unknown,
  options: SubmitOptions,
  defaultMode: JobMode,
) {
  const engine = yield* Engine
  const kind = engine.kinds.find((known) => known.name === name)
  if (kind === undefined) return yield* new KindUnknown({ kind: name, known: engine.kinds.map((known) => known.name) })
  const { delayMs, idempotencyKey, mode = defaultMode, priority, project } = options
  if (mode !== "sandbox" && mode !== "live") return yield* Effect.die(new TypeError('a mode is "sandbox" or "live"'))
  if (idempotencyKey !== undefined && !/^[\x21-\x7e]{1,255}$/.test(idempotencyKey))
    return yield* Effect.die(new TypeError("an idempotency key is 1 to 255 visible ASCII characters without spaces"))
  const grant = authorize(callerOf(mode, project, [kind.keyScope]), kind.keyScope)
  if (grant === undefined) return yield* Effect.die(new TypeError(`no grant for ${kind.keyScope}`))
  return {
    grant,
    kind,
    request,
    idempotencyKey: idempotencyKey ?? (yield* (yield* IdGenerator).next("req")),
    placement: { priority, delayMs },
  }
})

export const jobVerbs = <K extends Kind, Transaction, SyncTransaction>(
  { run, runSync }: Running,
  defaultMode: JobMode,
): Verbs<K, Transaction, SyncTransaction> => {
  const verbs: Verbs<K, Transaction, SyncTransaction> = {
    submit: (kind, request, given = {}) => {
      const { signal, transaction, ...options } = given
      return run(
        Effect.gen(function* () {
          const engine = yield* Engine
          const what = yield* asked(kind, request, options, defaultMode)
          // Named and not there is a mistake, and must not become a job that does not depend on the transaction.
          if (transaction === undefined && "transaction" in given)
            return yield* Effect.die(new TypeError("the transaction is undefined"))
          const { job } = yield* transaction === undefined
            ? engine.createJob(what.grant, what.kind, request, what.idempotencyKey, what.placement)
            : engine.createJobIn(transaction, what)
          return yield* shown(job)
        }),
        signal,
      )
    },
    submitSync: (kind, request, { transaction, ...options }) =>
      runSync(
        Effect.gen(function* () {
          const engine = yield* Engine
          const what = yield* asked(kind, request, options, defaultMode)
          const { job } = yield* Effect.try({
            try: () => engine.createJobInSync(transaction, what),
            catch: (error) => error,
          })
          return yield* shown(job)
        }),
      ),
    get: (job, { project, signal } = {}) => run(Effect.flatMap(findJob(job, project), shown), signal),
    wait: (job, { project, signal, timeoutMs = defaultWaitMs } = {}) =>
      run(
        Effect.suspend(() => Effect.flatMap(waitForJob(idOf(job), isOf(project), timeoutMs), shown)),
        signal,
      ),
    run: async (kind, request, options) => verbs.wait(await verbs.submit(kind, request, options), options),
    erase: (job, { project, signal } = {}) =>
      run(
        Effect.gen(function* () {
          const engine = yield* Engine
          const { id, keyId, mode, projectId } = yield* findJob(job, project)
          yield* engine.eraseJobData({ keyId, mode, projectId, scopes: [] }, id)
        }),
        signal,
      ),
  }
  return verbs
}
