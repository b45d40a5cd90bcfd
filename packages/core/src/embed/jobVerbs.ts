import * as Effect from "effect/Effect"
import { JobNotFound } from "../domain/Errors.ts"
import { type Job, type JobMode, type Json, requireNumber, requireOptions } from "../domain/index.ts"
import { Engine, EngineConfig } from "../engine/index.ts"
import { readJob } from "../engine/readJob.ts"
import { inSpan } from "../engine/spans.ts"
import { waitForJob } from "../engine/waitForJob.ts"
import type { Kind } from "../kinds/index.ts"
import { fieldOf } from "../providers/checks.ts"
import { callOptions, projectIdOf } from "./checkOptions.ts"
import type { AbortOption, EmbeddedEngine, ProjectOption, SubmitOptions, WaitOptions } from "./EmbeddedEngine.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"
import type { JobReference } from "./JobResult.ts"
import { verbOptions } from "./optionNames.ts"
import { submitVerbs } from "./submitVerbs.ts"
import { toJobResult } from "./toJobResult.ts"

const defaultWaitMs = 300_000

type Verbs<K extends Kind, Transaction, SyncTransaction> = Pick<
  EmbeddedEngine<K, Transaction, SyncTransaction>,
  "submit" | "submitSync" | "submitMany" | "submitManySync" | "get" | "wait" | "submitAndWait" | "eraseData"
>

export const idOf = (job: JobReference<string>): string => {
  const id: unknown = typeof job === "string" ? job : fieldOf(job, "id")
  if (typeof id !== "string") throw new TypeError("expected a job or the id of a job")
  return id
}

/** Converts a job for the program. */
export const shown = (job: Job) =>
  Effect.map(EngineConfig, ({ defaultCurrency }) => toJobResult<never>(job, defaultCurrency))

/** Converts a job for the program, with its newest retry. */
const shownWithRetry = Effect.fnUntraced(function* (job: Job) {
  const result = yield* shown(job)
  const retriedAs = yield* (yield* Engine).latestRetry({ ...job, scopes: [] }, job)
  return retriedAs === undefined ? result : ({ ...(result as object), retriedAs } as never)
})

/** Returns a test whether a job belongs to this project; without a project, every job does. */
const isOf = (project: string | undefined): ((job: Job) => boolean) => {
  const projectId = project === undefined ? undefined : projectIdOf(project)
  return (job) => projectId === undefined || job.projectId === projectId
}

const findJob = (job: JobReference<string>, project: string | undefined) =>
  Effect.flatMap(readJob(idOf(job)), (found) =>
    isOf(project)(found) ? Effect.succeed(found) : Effect.fail(new JobNotFound()),
  )

/** Splits the options of `submitAndWait` into those of `submit` and `wait`. Throws `TypeError` before either starts. */
export const partsOfSubmitAndWait = (options: SubmitOptions & WaitOptions) => {
  requireOptions("submitAndWait()", options, verbOptions.submitAndWait)
  const { timeoutMs, ...submitting } = options
  if (timeoutMs !== undefined) requireNumber("timeoutMs", timeoutMs, { least: 0 })
  const { project, signal } = submitting
  const waiting: WaitOptions = {
    ...(project !== undefined && { project }),
    ...(signal !== undefined && { signal }),
    ...(timeoutMs !== undefined && { timeoutMs }),
  }
  return { submitting, waiting }
}

export const jobVerbs = <K extends Kind, Transaction, SyncTransaction>(
  runtime: EngineRuntime,
  defaultMode: JobMode,
  capture: (() => Json | undefined) | undefined,
): Verbs<K, Transaction, SyncTransaction> => {
  const { run } = runtime
  const verbs: Verbs<K, Transaction, SyncTransaction> = {
    ...submitVerbs<K, Transaction, SyncTransaction>(runtime, defaultMode, capture),
    get: async (job, options?: ProjectOption & AbortOption, ...rest: ReadonlyArray<unknown>) => {
      const { project, signal } = callOptions("get()", verbOptions.get, options, rest)
      return run(Effect.flatMap(inSpan("Engine.getJob", findJob(job, project)), shownWithRetry), signal)
    },
    wait: async (job, options?: WaitOptions, ...rest: ReadonlyArray<unknown>) => {
      const { project, signal, timeoutMs = defaultWaitMs } = callOptions("wait()", verbOptions.wait, options, rest)
      requireNumber("timeoutMs", timeoutMs, { least: 0 })
      return run(
        Effect.suspend(() =>
          Effect.flatMap(inSpan("Engine.waitForJob", waitForJob(idOf(job), isOf(project), timeoutMs)), shown),
        ),
        signal,
      )
    },
    submitAndWait: async (kind, request, options = {}) => {
      const { submitting, waiting } = partsOfSubmitAndWait(options)
      return verbs.wait(await verbs.submit(kind, request, submitting), waiting)
    },
    eraseData: async (job, options?: ProjectOption & AbortOption, ...rest: ReadonlyArray<unknown>) => {
      const { project, signal } = callOptions("eraseData()", verbOptions.eraseData, options, rest)
      return run(
        Effect.gen(function* () {
          const engine = yield* Engine
          const { id, keyId, mode, projectId } = yield* findJob(job, project)
          yield* engine.eraseJobData({ keyId, mode, projectId, scopes: [] }, id)
        }),
        signal,
      )
    },
  }
  return verbs
}
