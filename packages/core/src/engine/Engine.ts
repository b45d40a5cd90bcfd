import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type {
  BlobCorrupt,
  BlobUnavailable,
  Board,
  Grant,
  Job,
  Principal,
  StoreUnavailable,
  Upload,
} from "../domain/index.ts"
import { owns } from "../domain/index.ts"
import { withForcedOff } from "../domain/Gate.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { JobKinds } from "../kinds/JobKinds.ts"
import {
  type BlobRange,
  type BlobStore,
  type IdGenerator,
  JobStore,
  type OpenBlob,
  type StoredFile,
  Switchboard,
  type UploadStore,
  type WakeUp,
} from "../ports/index.ts"
import { type Accepted, createJob } from "./createJob.ts"
import { type Asked, createJobIn, makeCreateJobInSync } from "./createJobIn.ts"
import { createUpload } from "./createUpload.ts"
import { EngineConfig, type EngineSettings } from "./EngineConfig.ts"
import { eraseJobData } from "./eraseJobData.ts"
import type * as Errors from "../domain/Errors.ts"
import type { Fingerprint } from "./Fingerprint.ts"
import { makeGetJob } from "./getJob.ts"
import type { JobEvents } from "./JobEvents.ts"
import type { JobReader } from "./waitForJob.ts"
import { findFile, openFile } from "./openFile.ts"
import type { Placement } from "./prepareJob.ts"
import { withSpans } from "./spans.ts"
import { type IncomingFile, receiveUpload } from "./receiveUpload.ts"
import { waitForJob } from "./waitForJob.ts"

/** Why a transfer was refused or came to nothing, in order of precedence. */
export type ReceiveError =
  | Errors.UploadNotFound
  | Errors.UploadExpired
  | Errors.UploadAlreadyCompleted
  | Errors.UploadInProgress
  | Errors.UnsupportedContentType
  | Errors.FileTooLarge
  | Errors.UploadsFull
  | Errors.EmptyFile
  | Errors.AudioFormatMismatch
  | Errors.UploadTimeout
  | StoreUnavailable
  | BlobUnavailable

/** Why a job was not accepted, in order of precedence. */
export type CreateJobError =
  | Errors.InvalidRequest
  | Errors.IdempotencyKeyReused
  | Errors.LiveNotActive
  | Errors.UploadNotFound
  | Errors.UploadNotReady
  | Errors.UploadAlreadyUsed
  | Errors.UploadExpired
  | Errors.QueueFull
  | StoreUnavailable

/** Operations with a span of their name. `createJobInSync` is no effect. */
const operations = [
  "createUpload",
  "receiveUpload",
  "createJob",
  "createJobIn",
  "getJob",
  "waitForJob",
  "eraseJobData",
  "findFile",
  "openFile",
  "readBoard",
] as const

/** Everything a caller can ask of kiln; each operation lives in a file of its own. */
export class Engine extends Context.Service<
  Engine,
  {
    readonly settings: EngineSettings
    readonly kinds: ReadonlyArray<JobKind>
    readonly createUpload: (
      principal: Principal,
      request: unknown,
    ) => Effect.Effect<Upload, Errors.InvalidRequest | Errors.UploadsFull | StoreUnavailable>
    readonly receiveUpload: <E>(incoming: IncomingFile<E>) => Effect.Effect<void, ReceiveError | E>
    readonly createJob: (
      grant: Grant,
      kind: JobKind,
      request: unknown,
      idempotencyKey: string,
      placement?: Placement,
    ) => Effect.Effect<Accepted, CreateJobError>
    /**
     * The same inside a transaction of the caller's: the job exists exactly if that commits. Which handles count is the
     * store adapter's to say; anything else, and a store that takes none, is a defect.
     */
    readonly createJobIn: (transaction: unknown, asked: Asked) => Effect.Effect<Accepted, CreateJobError>
    /** The same for synchronous handles; throws what `createJobIn` fails with. */
    readonly createJobInSync: (transaction: unknown, asked: Asked) => Accepted
    readonly getJob: (principal: Principal, jobId: string) => Effect.Effect<Job, Errors.JobNotFound | StoreUnavailable>
    /** The job once it is finished; for as long as it takes, outages of the store included, where no `timeoutMs` is given. */
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
    /** Prices, switches and live providers as they count for this process. */
    readonly readBoard: Effect.Effect<Board, StoreUnavailable>
  }
>()("@kiln/core/engine/Engine") {
  static readonly layer: Layer.Layer<
    Engine,
    never,
    JobStore | UploadStore | BlobStore | Switchboard | IdGenerator | WakeUp | JobEvents | JobReader | Fingerprint
  > = Layer.effect(
    Engine,
    Effect.gen(function* () {
      const settings = yield* EngineConfig
      const kinds = yield* JobKinds
      const switchboard = yield* Switchboard
      const context = yield* Effect.context<
        JobStore | UploadStore | BlobStore | IdGenerator | WakeUp | JobEvents | JobReader | Fingerprint
      >()
      const provide = Effect.provide(context)
      const engine = Engine.of({
        settings,
        kinds,
        createUpload: (principal, request) => provide(createUpload(principal, request)),
        receiveUpload: (incoming) => provide(receiveUpload(incoming)),
        createJob: (grant, kind, request, idempotencyKey, placement) =>
          provide(createJob(grant, kind, request, idempotencyKey, placement)),
        createJobIn: (transaction, asked) => provide(createJobIn(transaction, asked)),
        createJobInSync: yield* makeCreateJobInSync,
        getJob: makeGetJob(yield* JobStore),
        waitForJob: (principal, jobId, timeoutMs) =>
          provide(waitForJob(jobId, (job) => owns(principal, job), timeoutMs)),
        eraseJobData: (principal, jobId) => provide(eraseJobData(principal, jobId)),
        findFile: (fileId) => provide(findFile(fileId)),
        openFile: (file, range) => provide(openFile(file, range)),
        readBoard: Effect.map(switchboard.readBoard, (board) => withForcedOff(board, settings.forcedOff)),
      })
      return withSpans("Engine", engine, operations)
    }),
  )
}

export type { Accepted, Asked, IncomingFile, Placement }
