import { Context, Effect, Layer } from "effect"
import type {
  BlobCorrupt,
  BlobUnavailable,
  Board,
  Grant,
  Job,
  JsonObject,
  Principal,
  StoreUnavailable,
  Upload,
} from "../domain/index.ts"
import { withForcedOff } from "../domain/index.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { JobKinds } from "../kinds/JobKinds.ts"
import {
  type BlobRange,
  type BlobStore,
  type IdGenerator,
  type JobStore,
  type OpenBlob,
  type StoredFile,
  Switchboard,
  type UploadStore,
  type WakeUp,
} from "../ports/index.ts"
import { type Accepted, createJob } from "./CreateJob.ts"
import { createUpload } from "./CreateUpload.ts"
import { EngineConfig, type EngineSettings } from "./EngineConfig.ts"
import { eraseJobData } from "./EraseJobData.ts"
import type * as Errors from "./errors.ts"
import type { Fingerprint } from "./Fingerprint.ts"
import { getJob } from "./GetJob.ts"
import type { JobSignals } from "./JobSignals.ts"
import { findFile, openFile } from "./OpenFile.ts"
import { type IncomingFile, receiveUpload } from "./ReceiveUpload.ts"
import { waitForJob } from "./WaitForJob.ts"

/** Why a transfer was refused or came to nothing, in order of precedence. */
export type ReceiveError =
  | Errors.UploadNotFound
  | Errors.UploadExpired
  | Errors.UploadAlreadyCompleted
  | Errors.UploadInProgress
  | Errors.UnsupportedContentType
  | Errors.FileTooLarge
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

/** Everything a caller can ask of kiln; each operation lives in a file of its own. */
export class Engine extends Context.Service<
  Engine,
  {
    readonly settings: EngineSettings
    readonly kinds: ReadonlyArray<JobKind>
    readonly createUpload: (
      principal: Principal,
      request: unknown,
    ) => Effect.Effect<Upload, Errors.InvalidRequest | StoreUnavailable>
    readonly receiveUpload: <E>(incoming: IncomingFile<E>) => Effect.Effect<void, ReceiveError | E>
    readonly createJob: <Request extends JsonObject>(
      grant: Grant,
      kind: JobKind<string, Request>,
      request: unknown,
      idempotencyKey: string,
    ) => Effect.Effect<Accepted, CreateJobError>
    readonly getJob: (principal: Principal, jobId: string) => Effect.Effect<Job, Errors.JobNotFound | StoreUnavailable>
    readonly waitForJob: (
      principal: Principal,
      jobId: string,
    ) => Effect.Effect<Job, Errors.JobNotFound | StoreUnavailable>
    readonly eraseJobData: (
      principal: Principal,
      jobId: string,
    ) => Effect.Effect<void, Errors.JobNotFound | Errors.JobUnfinished | StoreUnavailable | BlobUnavailable>
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
    JobStore | UploadStore | BlobStore | Switchboard | IdGenerator | WakeUp | JobSignals | Fingerprint
  > = Layer.effect(
    Engine,
    Effect.gen(function* () {
      const settings = yield* EngineConfig
      const kinds = yield* JobKinds
      const switchboard = yield* Switchboard
      const context = yield* Effect.context<
        JobStore | UploadStore | BlobStore | IdGenerator | WakeUp | JobSignals | Fingerprint
      >()
      const provide = Effect.provide(context)
      return Engine.of({
        settings,
        kinds,
        createUpload: (principal, request) => provide(createUpload(principal, request)),
        receiveUpload: (incoming) => provide(receiveUpload(incoming)),
        createJob: (grant, kind, request, idempotencyKey) => provide(createJob(grant, kind, request, idempotencyKey)),
        getJob: (principal, jobId) => provide(getJob(principal, jobId)),
        waitForJob: (principal, jobId) => provide(waitForJob(principal, jobId)),
        eraseJobData: (principal, jobId) => provide(eraseJobData(principal, jobId)),
        findFile: (fileId) => provide(findFile(fileId)),
        openFile: (file, range) => provide(openFile(file, range)),
        readBoard: Effect.map(switchboard.readBoard, (board) => withForcedOff(board, settings.forcedOff)),
      })
    }),
  )
}

export type { Accepted, IncomingFile }
