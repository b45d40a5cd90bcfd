import * as Effect from "effect/Effect"
import * as Context from "effect/Context"
import * as Stream from "effect/Stream"
import { JobNotFound } from "../domain/Errors.ts"
import {
  isBlob,
  isBytes,
  type Job,
  type JobMode,
  type Json,
  progressOf,
  requireNumber,
  requireOneOf,
  requireOptions,
  type UploadId,
} from "../domain/index.ts"
import { Engine, JobEvents } from "../engine/index.ts"
import { countedProgress } from "../engine/childrenOf.ts"
import { inSpan, outsideOfCallers } from "../engine/spans.ts"
import { readJob } from "../engine/readJob.ts"
import { JobDirectory } from "../ports/index.ts"
import { waitForJob } from "../engine/waitForJob.ts"
import type { Kind } from "../kinds/index.ts"
import { requireSignal } from "../domain/givenValues.ts"
import type { JobEvent } from "../engine/JobEvent.ts"
import {
  callerOf,
  callOptions,
  eventTypes,
  projectIdOf,
  requireMode,
  uploadFields,
  verbOptions,
} from "./checkOptions.ts"
import type { AbortOption, ProjectOption } from "./CallOptions.ts"
import type { EmbeddedEngine, StreamOptions, SubmitOptions, Subscription, WaitOptions } from "./EmbeddedEngine.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"
import type { JobReference } from "./JobResult.ts"
import { fileIdOf, idOf, toJobResult, uploadIdOf } from "./toJobResult.ts"
import { submitVerbs } from "./submitVerbs.ts"
import { concat, iterated, streamOf } from "./fileBodies.ts"
import type { KeepAlive } from "./KeepAlive.ts"

const defaultWaitMs = 300_000

type Verbs<K extends Kind, Transaction, SyncTransaction> = Pick<
  EmbeddedEngine<K, Transaction, SyncTransaction>,
  | "submit"
  | "submitSync"
  | "submitMany"
  | "submitManySync"
  | "get"
  | "wait"
  | "submitAndWait"
  | "signal"
  | "signalSync"
  | "stream"
  | "eraseData"
>

/** Converts a job for the program. */
export const shown = (job: Job) =>
  Effect.gen(function* () {
    const progress = yield* countedProgress(yield* JobDirectory, job.id, progressOf(job))
    return toJobResult<never>(job, yield* Engine, progress)
  })

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

type SignalOptions = ProjectOption & AbortOption & { readonly transaction?: unknown }

const signalOf = (job: JobReference<string>, name: string, value: unknown, { project }: ProjectOption) => ({
  jobId: idOf(job),
  name,
  value,
  ...(project !== undefined && { owner: { projectId: projectIdOf(project) } }),
})

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
    signal: async (job, name, value, options?: SignalOptions, ...rest: ReadonlyArray<unknown>) => {
      const given = callOptions("signal()", verbOptions.signal, options, rest)
      const asked = signalOf(job, name, value, given)
      return run(
        Effect.flatMap(Engine, (engine) =>
          "transaction" in given ? engine.signalJobIn(given.transaction, asked) : engine.signalJob(asked),
        ),
        given.signal,
      )
    },
    signalSync: (job, name, value, given) => {
      requireOptions("signalSync()", given, verbOptions.signalSync)
      runtime.closed.throwIfAborted()
      const engine = Context.get(runtime.context, Engine)
      return engine.signalJobInSync(given.transaction, signalOf(job, name, value, given))
    },
    stream: (job, options?: StreamOptions, ...rest: ReadonlyArray<unknown>) => {
      const { from = 0, project, signal } = callOptions("stream()", verbOptions.stream, options, rest)
      requireNumber("from", from, { least: 0, whole: true })
      requireSignal("signal", signal)
      const open = async () =>
        run(
          Effect.gen(function* () {
            const { id } = yield* findJob(job, project)
            return (yield* Engine).streamChunks(id, from)
          }),
          signal,
        )
      return iterated(open, runtime.context, () => [runtime.closed, signal], "reject", runtime.keepAlive) as never
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

/** Maximum number of events buffered for a slow reader. */
const maxKept = 1_000

export const eventVerbs = ({
  context,
  ended: stopped,
  keepAlive,
}: EngineRuntime): Pick<EmbeddedEngine, "on" | "events"> => {
  const events = Context.get(context, JobEvents)
  return {
    on: (type, listener) => {
      requireOneOf("event", type, Object.keys(eventTypes))
      if (typeof listener !== "function") throw new TypeError("on() expects a function as its listener")
      // Returned, because an async listener gives a promise, whose rejection the bus reports.
      const end = events.listen((event) =>
        event.type === type ? outsideOfCallers(() => listener(event as Parameters<typeof listener>[0])) : undefined,
      )
      const subscription: Subscription = Object.assign(() => end(), { [Symbol.dispose]: end })
      return subscription
    },
    events: (options = {}) => {
      requireOptions("events()", options, verbOptions.events)
      requireSignal("signal", options.signal)
      stopped.throwIfAborted()
      const { signal } = options
      return eventStream(events, signal === undefined ? stopped : AbortSignal.any([stopped, signal]), keepAlive)
    },
  }
}

/** Streams events from now on. When it is left or aborted, it ends without an error after the buffered events. */
const eventStream = (
  events: JobEvents["Service"],
  signal: AbortSignal,
  keepAlive: KeepAlive,
): AsyncIterableIterator<JobEvent> => {
  const kept: Array<JobEvent> = []
  let more = Promise.withResolvers<void>()
  const wake = () => {
    more.resolve()
    more = Promise.withResolvers()
  }
  const end = events.listen((event) => {
    if (kept.push(event) > maxKept) kept.shift()
    wake()
  })
  let ended = false
  const finish = () => {
    ended = true
    end()
    signal.removeEventListener("abort", finish)
    wake()
  }
  if (signal.aborted) finish()
  else signal.addEventListener("abort", finish)
  const next = async (): Promise<IteratorResult<JobEvent, undefined>> => {
    const event = kept.shift()
    if (event !== undefined) return { done: false, value: event }
    if (ended) return { done: true, value: undefined }
    await keepAlive.while(more.promise)
    return next()
  }
  const stream: AsyncIterableIterator<JobEvent> = {
    next,
    return: () => {
      kept.length = 0
      finish()
      return Promise.resolve({ done: true, value: undefined })
    },
    [Symbol.asyncIterator]: () => stream,
  }
  return stream
}

type CreateOptions = { readonly mode?: JobMode } & ProjectOption & AbortOption

type FileVerbs = Pick<EmbeddedEngine, "createUpload" | "receiveUpload" | "readFile" | "streamFile">

const openedFile = (id: string) =>
  Effect.gen(function* () {
    const engine = yield* Engine
    const file = yield* engine.findFile(id)
    return { file, ...(yield* engine.openFile(file)) }
  })

export const fileVerbs = ({ closed, context, keepAlive, run }: EngineRuntime, defaultMode: JobMode): FileVerbs => ({
  createUpload: async (upload, options?: CreateOptions, ...rest: ReadonlyArray<unknown>) => {
    const given = callOptions("createUpload()", verbOptions.createUpload, options, rest)
    requireOptions("createUpload()", upload, uploadFields)
    const { mode = defaultMode, project, signal } = given
    requireMode(mode)
    return run(
      Effect.gen(function* () {
        const engine = yield* Engine
        const { expiresAt, format, id } = yield* engine.createUpload(callerOf(mode, project, []), upload)
        return { id, format, expiresAt: new Date(expiresAt), maxBytes: engine.settings.upload.maxBytes }
      }),
      signal,
    )
  },
  receiveUpload: async (upload, contentType, body, options = {}) => {
    requireOptions("receiveUpload()", options, verbOptions.receiveUpload)
    return run(
      Effect.flatMap(Engine, (engine) =>
        engine.receiveUpload({
          uploadId: uploadIdOf(upload) as UploadId,
          contentType,
          contentLength: isBytes(body) ? body.length : isBlob(body) ? body.size : undefined,
          content: streamOf(body),
        }),
      ),
      options.signal,
    )
  },
  readFile: async (file, options?: AbortOption, ...rest: ReadonlyArray<unknown>) => {
    const { signal } = callOptions("readFile()", verbOptions.readFile, options, rest)
    return run(
      Effect.gen(function* () {
        const { content, file: opened } = yield* openedFile(fileIdOf(file))
        return concat(yield* Stream.runCollect(content), opened.bytes)
      }),
      signal,
    )
  },
  streamFile: (file, options?: AbortOption, ...rest: ReadonlyArray<unknown>) => {
    const given = () => callOptions("streamFile()", verbOptions.streamFile, options, rest).signal
    const open = async () => (await run(openedFile(fileIdOf(file)), given())).content
    return iterated(open, context, () => [closed, given()], "reject", keepAlive)
  },
})
