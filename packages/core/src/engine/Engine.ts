import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Stream from "effect/Stream"
import {
  type BlobCorrupt,
  type BlobUnavailable,
  type Board,
  type Chunk,
  type Grant,
  isId,
  type Job,
  type JobId,
  owns,
  type PolledJob,
  type Principal,
  type StoreUnavailable,
  type Upload,
} from "../domain/index.ts"
import { withForcedOff } from "../domain/Gate.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { installedKinds } from "../kinds/installedKinds.ts"
import {
  type BlobRange,
  BlobStore,
  IdGenerator,
  JobDirectory,
  JobStore,
  type StoredFile,
  Switchboard,
  type UploadStore,
  WakeUp,
} from "../ports/index.ts"
import type { OpenBlob } from "../ports/BlobStore.ts"
import {
  type AcceptedJob,
  type CreateJobError,
  type CreateJobs,
  type JobOutcomes,
  makeCreateJobs,
} from "./createJob.ts"
import { makeCreateJobsIn, type CreateJobsIn } from "./createJobIn.ts"
import { createUpload, type UploadLifetime } from "./createUpload.ts"
import { EngineConfig } from "./EngineConfig.ts"
import type { EngineSettings } from "./EngineSettings.ts"
import { eraseJobData } from "./eraseJobData.ts"
import type * as Errors from "../domain/Errors.ts"
import { FileGone, JobNotFound } from "../domain/Errors.ts"
import { Fingerprint, type JobRequest, type Placement } from "./prepareJob.ts"
import { makeLatestRetry } from "./latestRetry.ts"
import { JobEvents } from "./JobEvents.ts"
import { JobReader, waitForJob } from "./waitForJob.ts"
import { type GroupCommit, layerGroupCommit } from "./GroupCommit.ts"
import { layerStoreSpans, withSpans } from "./spans.ts"
import { type IncomingFile, receiveUpload } from "./receiveUpload.ts"
import { makeStreamChunks } from "./JobWatch.ts"
import { countedProgress } from "./childrenOf.ts"
import { openNamed } from "./blobs.ts"
import {
  type AcceptedSignal,
  type AskedSignal,
  makeSignalJobIn,
  signalJob,
  type SignalError,
  type SignalJobIn,
} from "./signalJob.ts"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { Operator } from "./Operator.ts"

/** The errors of a transfer, in order of precedence. */
export type ReceiveError =
  | Errors.UploadNotFound
  | Errors.UploadExpired
  | Errors.UploadAlreadyCompleted
  | Errors.UploadInProgress
  | Errors.UnsupportedContentType
  | Errors.FileTooLarge
  | Errors.UploadsFull
  | Errors.StorageFull
  | Errors.EmptyFile
  | Errors.AudioFormatMismatch
  | Errors.UploadTimeout
  | StoreUnavailable
  | BlobUnavailable

/** The operations that are effects. Each has a span of its name. */
const operations = [
  "createUpload",
  "receiveUpload",
  "createJob",
  "createTickJob",
  "createJobs",
  "createJobIn",
  "createJobsIn",
  "getJob",
  "pollJob",
  "latestRetry",
  "waitForJob",
  "signalJob",
  "signalJobIn",
  "eraseJobData",
  "findFile",
  "openFile",
  "readBoard",
] as const

/** The operations that accept jobs. */
const producers = ["createJob", "createTickJob", "createJobs", "createJobIn", "createJobsIn"] as const

/** The operations that callers have; each is in a file of its name. */
export class Engine extends Context.Service<
  Engine,
  Omit<CreateJobs, "createJob"> &
    CreateJobsIn & {
      readonly settings: EngineSettings
      readonly kinds: ReadonlyArray<JobKind>
      readonly createUpload: (
        principal: Principal,
        request: unknown,
        lifetime?: UploadLifetime,
      ) => Effect.Effect<Upload, Errors.InvalidRequest | Errors.UploadsFull | Errors.StorageFull | StoreUnavailable>
      readonly receiveUpload: <E>(incoming: IncomingFile<E>) => Effect.Effect<void, ReceiveError | E>
      readonly createJob: (
        grant: Grant,
        kind: JobKind,
        request: unknown,
        idempotencyKey: string | undefined,
        placement?: Placement,
      ) => Effect.Effect<AcceptedJob, CreateJobError>
      readonly getJob: (
        principal: Principal,
        jobId: string,
      ) => Effect.Effect<Job, Errors.JobNotFound | StoreUnavailable>
      /** `getJob`, with only the part of the job that its caller polls for. */
      readonly pollJob: (
        principal: Principal,
        jobId: string,
      ) => Effect.Effect<PolledJob, Errors.JobNotFound | StoreUnavailable>
      /**
       * Returns the newest retry of a failed job of this principal; `undefined` if it was not retried. The job must have been read for
       * the same principal.
       */
      readonly latestRetry: (
        principal: Principal,
        job: Pick<Job, "id" | "status">,
      ) => Effect.Effect<JobId | undefined, StoreUnavailable>
      /** Waits until the job is finished, through outages of the store. Without `timeoutMs`, it waits without a limit. */
      readonly waitForJob: (
        principal: Principal,
        jobId: string,
        timeoutMs?: number,
      ) => Effect.Effect<Job, Errors.JobNotFound | Errors.WaitTimeout>
      /**
       * Calls the listener once: when the job is finished, or the time is over. It is not called after the returned function was. For
       * callers that wait by the thousand: it costs no fiber.
       *
       * @param isReadNext whether the caller reads the job after this call, and so sees an end from before. Otherwise it is read here.
       */
      readonly onJobEnd: (jobId: JobId, timeoutMs: number, listener: () => void, isReadNext?: boolean) => () => void
      /**
       * Streams the chunks that the attempts of a job emit: those it has, from an index, and each further one until the job has finished.
       * The caller has checked that it may see the job.
       */
      readonly streamChunks: (jobId: JobId, from: number) => Stream.Stream<Chunk>
      /** Keeps a signal of a job, the first value of each name, and wakes the job if it waits for it. */
      readonly signalJob: (asked: AskedSignal) => Effect.Effect<AcceptedSignal, SignalError | StoreUnavailable>
      /** `signalJob` inside a transaction of the caller: it takes effect when that commits. */
      readonly signalJobIn: SignalJobIn["signalJobIn"]
      /** The same for synchronous handles. Throws what `signalJobIn` fails with. */
      readonly signalJobInSync: SignalJobIn["signalJobInSync"]
      readonly eraseJobData: (
        principal: Principal,
        jobId: string,
      ) => Effect.Effect<void, Errors.JobNotFound | Errors.JobProcessing | StoreUnavailable | BlobUnavailable>
      readonly findFile: (fileId: string) => Effect.Effect<StoredFile, Errors.FileGone | StoreUnavailable>
      readonly openFile: (
        file: StoredFile,
        range?: BlobRange,
      ) => Effect.Effect<OpenBlob, Errors.FileGone | StoreUnavailable | BlobUnavailable | BlobCorrupt>
      /** Returns prices, switches and live providers, with the switches that this process forces off. */
      readonly readBoard: Effect.Effect<Board, StoreUnavailable>
    }
>()("@kiln/core/engine/Engine") {
  static readonly layer: Layer.Layer<
    Engine,
    never,
    | JobStore
    | UploadStore
    | BlobStore
    | Switchboard
    | IdGenerator
    | WakeUp
    | JobEvents
    | JobReader
    | Fingerprint
    | GroupCommit
  > = Layer.effect(
    Engine,
    Effect.gen(function* () {
      const settings = yield* EngineConfig
      const kinds = yield* installedKinds
      const store = yield* JobStore
      const switchboard = yield* Switchboard
      const context = yield* Effect.context<
        JobStore | UploadStore | BlobStore | IdGenerator | WakeUp | JobEvents | JobReader
      >()
      const reader = Context.get(context, JobReader)
      const provide = Effect.provide(context)
      const latestRetry = makeLatestRetry(store)
      const { createJob, createJobs, createTickJob, pushJob } = yield* makeCreateJobs
      const engine = Engine.of({
        settings,
        kinds,
        createUpload: (principal, request, lifetime) => provide(createUpload(principal, request, lifetime)),
        receiveUpload: (incoming) => provide(receiveUpload(incoming)),
        createJob: (grant, kind, request, idempotencyKey, placement) =>
          createJob({ grant, kind, request, idempotencyKey, placement }),
        createTickJob,
        createJobs,
        pushJob,
        ...(yield* makeCreateJobsIn),
        getJob: makeGetJob(store),
        pollJob: makePollJob(store, Option.getOrUndefined(yield* Effect.serviceOption(JobDirectory))),
        latestRetry: ({ keyId }, { id, status }) => latestRetry({ id, keyId, status }),
        waitForJob: (principal, jobId, timeoutMs) =>
          provide(waitForJob(jobId, (job) => owns(principal, job), timeoutMs)),
        onJobEnd: (jobId, timeoutMs, listener, isReadNext = false) =>
          reader.onEnd(jobId, timeoutMs, listener, isReadNext),
        streamChunks: yield* makeStreamChunks,
        signalJob: (asked) => provide(signalJob(asked)),
        ...(yield* makeSignalJobIn),
        eraseJobData: (principal, jobId) => provide(eraseJobData(principal, jobId)),
        findFile: (fileId) => provide(findFile(fileId)),
        openFile: (file, range) => provide(openFile(file, range)),
        readBoard: Effect.map(switchboard.readBoard, (board) => withForcedOff(board, settings.forcedOff)),
      })
      return withSpans("Engine", engine, operations, producers)
    }),
  )
}

export type { AcceptedJob, JobRequest, CreateJobError, IncomingFile, JobOutcomes, Placement }

type Read<A> = (principal: Principal, jobId: string) => Effect.Effect<A, JobNotFound | StoreUnavailable>

/*
 * The only ways to read a caller's job: by id and principal together. They take the store once, because providing services to each
 * call costs more than the rest of it, and polls are the most frequent calls.
 */

const makeGetJob =
  (store: JobStore["Service"]): Read<Job> =>
  (principal, jobId) =>
    isId("job", jobId) ? Effect.flatMap(store.findJobs([{ jobId, principal }]), found) : notFound

const makePollJob = (store: JobStore["Service"], directory: JobDirectory["Service"] | undefined): Read<PolledJob> => {
  const counted = (job: PolledJob) =>
    job.progress?.children === undefined
      ? Effect.succeed(job)
      : Effect.map(countedProgress(directory, job.id, job.progress), (progress) => ({ ...job, progress }))
  return (principal, jobId) =>
    isId("job", jobId)
      ? Effect.flatMap(store.pollJobs([{ jobId, principal }]), (jobs) =>
          jobs[0]?.progress?.children === undefined ? found(jobs) : Effect.flatMap(found(jobs), counted),
        )
      : notFound
}

const notFound = Effect.suspend(() => Effect.fail(new JobNotFound()))

const found = <A>([job]: ReadonlyArray<A | undefined>): Effect.Effect<A, JobNotFound> =>
  job === undefined ? notFound : Effect.succeed(job)

/** Returns a generated file by its id. The signed URL is the authorization; each call checks in the row that the file still exists. */
const findFile = Effect.fnUntraced(function* (fileId: string) {
  if (!isId("fil", fileId)) return yield* Effect.fail(new FileGone())
  const store = yield* JobStore
  const file = yield* store.findFile(fileId)
  if (file === undefined) return yield* Effect.fail(new FileGone())
  return file satisfies StoredFile
})

/** Opens a file or a range of it. Fails with `FileGone` if its blob was deleted after its row was read. */
const openFile = Effect.fnUntraced(function* (file: StoredFile, range?: BlobRange) {
  const blobs = yield* BlobStore
  return yield* openNamed(blobs, file, range).pipe(
    Effect.catchTag("BlobNotFound", (error) => Effect.flatMap(findFile(file.id), () => Effect.die(error))),
  )
})

/**
 * The engine over some adapter's stores and blobs, together with what it shares with a worker in the same process: the job
 * store whose callers share commits, fingerprints, wake-ups and events.
 * Needs `SecureRandom`, which `layerCrypto` provides.
 */
export const layerEngine = Layer.merge(Engine.layer, Operator.layer).pipe(
  Layer.provideMerge(Fingerprint.layer),
  Layer.provideMerge(JobReader.layer),
  Layer.provideMerge(layerStoreSpans),
  Layer.provideMerge(layerGroupCommit),
  Layer.provideMerge(Layer.mergeAll(IdGenerator.layer, WakeUp.layer, JobEvents.layer)),
)

/** Randomness by Web Crypto, which every runtime has. */
export const layerCrypto: Layer.Layer<SecureRandom.SecureRandom> = SecureRandom.layerWebCrypto
