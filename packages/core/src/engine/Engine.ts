import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type {
  BlobCorrupt,
  BlobUnavailable,
  Board,
  Grant,
  Job,
  JobId,
  PolledJob,
  Principal,
  StoreUnavailable,
  Upload,
} from "../domain/index.ts"
import type { JobTrace } from "../domain/JobTrace.ts"
import { owns } from "../domain/index.ts"
import { withForcedOff } from "../domain/Gate.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { installedKinds } from "../kinds/installedKinds.ts"
import {
  type BlobRange,
  type BlobStore,
  type IdGenerator,
  JobStore,
  type OpenBlob,
  type CreateOutcome,
  type StoredFile,
  Switchboard,
  type UploadStore,
  type WakeUp,
} from "../ports/index.ts"
import type { AcceptedJob, CreateJobError, SettleJob } from "./acceptedOf.ts"
import { makeCreateJobs } from "./createJob.ts"
import { makeCreateJobsIn } from "./createJobIn.ts"
import type { JobOutcomes } from "./createJobs.ts"
import { createUpload } from "./createUpload.ts"
import { EngineConfig, type EngineSettings } from "./EngineConfig.ts"
import { eraseJobData } from "./eraseJobData.ts"
import type * as Errors from "../domain/Errors.ts"
import type { Fingerprint } from "./Fingerprint.ts"
import { makeGetJob, makePollJob } from "./getJob.ts"
import { makeLatestRetry } from "./latestRetry.ts"
import type { JobEvents } from "./JobEvents.ts"
import type { JobReader } from "./waitForJob.ts"
import { findFile, openFile } from "./openFile.ts"
import type { GroupCommit } from "./GroupCommit.ts"
import type { JobRequest, Placement } from "./prepareJob.ts"
import { withSpans } from "./spans.ts"
import { type IncomingFile, receiveUpload } from "./receiveUpload.ts"
import { waitForJob } from "./waitForJob.ts"

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
  {
    readonly settings: EngineSettings
    readonly kinds: ReadonlyArray<JobKind>
    readonly createUpload: (
      principal: Principal,
      request: unknown,
    ) => Effect.Effect<Upload, Errors.InvalidRequest | Errors.UploadsFull | Errors.StorageFull | StoreUnavailable>
    readonly receiveUpload: <E>(incoming: IncomingFile<E>) => Effect.Effect<void, ReceiveError | E>
    readonly createJob: (
      grant: Grant,
      kind: JobKind,
      request: unknown,
      idempotencyKey: string | undefined,
      placement?: Placement,
    ) => Effect.Effect<AcceptedJob, CreateJobError>
    /** `createJob` for the tick of a schedule, which `placement` names. Returns the store's outcome, for `acceptedOf`. */
    readonly createTickJob: (
      asked: JobRequest,
    ) => Effect.Effect<CreateOutcome | undefined, Errors.InvalidRequest | StoreUnavailable>
    /**
     * Accepts a list of jobs, in order, each with its own outcome. All requests are read before the first job is stored. The jobs
     * share store calls of up to 500 with each other and with other callers. A store that fails is an outcome of the jobs it
     * affects; those can be repeated with their idempotency keys. An interrupted call stores no further jobs of its list.
     */
    readonly createJobs: (asked: ReadonlyArray<JobRequest>) => Effect.Effect<JobOutcomes>
    /**
     * `createJob` without a fiber, for callers with promises: calls `settle` once, with an outcome for `acceptedOf`. Throws
     * `InvalidRequest`, and the defects of `createJob`. It has no span.
     */
    readonly pushJob: (asked: JobRequest, settle: SettleJob) => void
    /**
     * `createJob` inside a transaction of the caller: the job exists exactly if that commits, and workers are woken then. The
     * store's adapter defines which handles are transactions; any other handle, and a store without them, is a defect.
     */
    readonly createJobIn: (transaction: unknown, asked: JobRequest) => Effect.Effect<AcceptedJob, CreateJobError>
    /** `createJobs` inside a transaction of the caller. Fails as a whole when the store fails. */
    readonly createJobsIn: (
      transaction: unknown,
      asked: ReadonlyArray<JobRequest>,
    ) => Effect.Effect<JobOutcomes, StoreUnavailable>
    /**
     * `createJobIn` for synchronous handles. Throws what `createJobIn` fails with. It has no span; `trace` is stored with the job.
     */
    readonly createJobInSync: (transaction: unknown, asked: JobRequest, trace?: JobTrace) => AcceptedJob
    /** `createJobsIn` for synchronous handles. Throws what `createJobsIn` fails with. */
    readonly createJobsInSync: (transaction: unknown, asked: ReadonlyArray<JobRequest>, trace?: JobTrace) => JobOutcomes
    readonly getJob: (principal: Principal, jobId: string) => Effect.Effect<Job, Errors.JobNotFound | StoreUnavailable>
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
      const provide = Effect.provide(context)
      const latestRetry = makeLatestRetry(store)
      const { createJob, createJobs, createTickJob, pushJob } = yield* makeCreateJobs
      const engine = Engine.of({
        settings,
        kinds,
        createUpload: (principal, request) => provide(createUpload(principal, request)),
        receiveUpload: (incoming) => provide(receiveUpload(incoming)),
        createJob: (grant, kind, request, idempotencyKey, placement) =>
          createJob({ grant, kind, request, idempotencyKey, placement }),
        createTickJob,
        createJobs,
        pushJob,
        ...(yield* makeCreateJobsIn),
        getJob: makeGetJob(store),
        pollJob: makePollJob(store),
        latestRetry: ({ keyId }, { id, status }) => latestRetry({ id, keyId, status }),
        waitForJob: (principal, jobId, timeoutMs) =>
          provide(waitForJob(jobId, (job) => owns(principal, job), timeoutMs)),
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
