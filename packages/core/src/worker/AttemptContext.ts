import { Effect, Stream } from "effect"
import {
  BlobCorrupt,
  type Job,
  jobBlobKey,
  type JobMode,
  type Json,
  type JsonObject,
  limits,
  type OutputFile,
  isStorableText,
} from "../domain/index.ts"
import { asJson } from "../kinds/asJson.ts"
import { type AttemptContext, type AttemptError, AttemptFailed, GateShut, LeaseLost } from "../kinds/AttemptContext.ts"
import { type JobKind } from "../kinds/JobKind.ts"
import { Misuse } from "../kinds/Misuse.ts"
import { openNamed } from "../engine/openNamed.ts"
import { measureUpload } from "../kinds/uploadedAudio.ts"
import {
  BlobStore,
  type Claim,
  type GeneratedFile,
  IdGenerator,
  JobStore,
  MediaProbe,
  type ProviderCall,
  Providers,
} from "../ports/index.ts"
import { askProviders } from "./askProviders.ts"
import { GateWatch } from "./GateWatch.ts"
import type { HeldLease } from "./HeldLease.ts"
import { ProviderGuard } from "./ProviderGuard.ts"
import { retrying } from "./retrying.ts"
import type { UsedNames } from "./UsedNames.ts"

/** Bytes of one generated file: more is no answer to any request these kinds make. */
const maxGeneratedBytes = 64 * 1_024 * 1_024

/** About a quarter of a minute: a blob store that is away for longer is not waited for with the job in hand. */
const putRetries = 20

/** What an attempt leaves behind for its end. */
export interface AttemptNotes {
  /** Keys of blobs that were begun. */
  readonly written: Array<string>
  readonly names: UsedNames
}

/** Builds what a kind's `run` works with, for one claim. */
export const attemptContext = Effect.fnUntraced(function* (
  kind: JobKind,
  claim: Claim,
  lease: Pick<HeldLease, "check">,
  { names, written }: AttemptNotes,
) {
  const { job, token } = claim
  const store = yield* JobStore
  const blobs = yield* BlobStore
  const ids = yield* IdGenerator
  const probe = yield* MediaProbe
  const { live, sandbox } = yield* Providers
  const guard = yield* ProviderGuard

  const request = yield* storedRequest(kind, job.request)

  const gateIsOpen = passage(yield* GateWatch, kind, job.mode)
  // Last, and with nothing to wait for between it and the step.
  const mayBuy = Effect.andThen(gateIsOpen, lease.check)

  const call = callOf(job)
  const asked =
    job.mode === "sandbox"
      ? askProviders(sandbox, call)
      : askProviders(live, call, (name) => guard.through(name, mayBuy))

  // What was bought is written again and again while the claim holds, never bought again because a store was away.
  const keep = Effect.fnUntraced(function* (step: string, value: Json): Effect.fn.Return<void, AttemptError> {
    const problem = valueProblem(value)
    if (!isStorableText(step))
      return yield* Effect.die(new Misuse("the name of a step has U+0000 or unpaired surrogates"))
    if (problem !== undefined) return yield* Effect.die(new Misuse(`the value of a step ${problem}`))
    const write = store.checkpointJobs([{ jobId: job.id, token, step, value }])
    const [outcome] = yield* Effect.retry(write, retrying)
    if (outcome !== "Written") return yield* new LeaseLost()
  })

  const writeFile = fileWriter(claim, blobs, ids, written)

  const context: AttemptContext<unknown> = {
    request,
    kindVersion: job.kindVersion,
    mode: job.mode,
    call,
    ask: asked.ask,
    has: asked.has,
    audio: Effect.provideService(uploadedAudio(claim, blobs), MediaProbe, probe),
    step: <A extends Json, E extends AttemptError>(name: string, effect: Effect.Effect<A, E>) =>
      names.once(
        "step",
        name,
      )(
        Effect.suspend(() =>
          Object.hasOwn(job.checkpoints, name)
            ? Effect.succeed(job.checkpoints[name] as A)
            : mayBuy.pipe(
                Effect.andThen(effect),
                Effect.tap((value) => keep(name, value)),
              ),
        ),
      ),
    lastStep: (name, effect) => names.once("step", name)(Effect.andThen(mayBuy, effect)),
    keepFile: (name, file) => names.once("file", name)(writeFile(name, file)),
    fileStep: (name, effect) =>
      names.once("file", name)(Effect.flatMap(Effect.andThen(mayBuy, effect), (file) => writeFile(name, file))),
  }
  return context
})

const callOf = ({ attempts, failures, id, lostWorkers }: Job): ProviderCall => ({
  jobId: id,
  attempt: attempts,
  failures,
  deferrals: attempts - 1 - failures - lostWorkers,
})

/** Writes the files of an attempt; each is durable when it returns. */
const fileWriter = (
  { job, token }: Claim,
  blobs: BlobStore["Service"],
  ids: IdGenerator["Service"],
  written: Array<string>,
) =>
  Effect.fnUntraced(function* (name: string, { data, mediaType }: GeneratedFile) {
    const blobKey = jobBlobKey(job.id, token, name)
    if (!isStorableText(mediaType))
      return yield* Effect.die(
        new Misuse("the media type of a file must be a text without U+0000 and unpaired surrogates"),
      )
    written.push(blobKey)
    const info = yield* Effect.mapError(
      Effect.retry(blobs.put(blobKey, Stream.succeed(data), { maxBytes: maxGeneratedBytes }), {
        schedule: retrying,
        while: (error) => error._tag === "BlobUnavailable",
        times: putRetries,
      }),
      (error) => (error._tag === "BlobTooLarge" ? tooLarge : error),
    )
    return { id: yield* ids.next("fil"), name, blobKey, mediaType, ...info } satisfies OutputFile
  })

/** What cannot be stored is said where it is made, and not by some stores alone. */
const valueProblem = (value: Json): string | undefined => {
  const json = asJson(value)
  if (json === undefined) return "is nothing that JSON carries"
  return json.length > limits.kindJsonLength ? "is too long" : undefined
}

/** The file the job consumes, measured. */
const uploadedAudio = ({ job, upload }: Claim, blobs: BlobStore["Service"]) =>
  Effect.suspend(() => {
    const file = upload?.file
    if (upload === null || file === null || file === undefined)
      return Effect.die(new Misuse(`a job of ${job.kind} has no uploaded file`))
    const content = Stream.unwrap(Effect.map(openNamed(blobs, file), (blob) => blob.content)).pipe(
      // The row names it and it is gone: as damaged as a blob can be.
      Stream.catchTag("BlobNotFound", ({ key }) => Stream.fail(new BlobCorrupt({ key }))),
    )
    return measureUpload(upload, { bytes: file.bytes, content })
  })

/** Goes through while the gate is open. Sandbox jobs have none. */
const passage = (gates: GateWatch["Service"], { gate }: JobKind, mode: JobMode): Effect.Effect<void, AttemptError> =>
  mode === "sandbox"
    ? Effect.void
    : Effect.flatMap(gates.missing(gate), (missing) =>
        missing.length === 0 ? Effect.void : Effect.fail(new GateShut({ missing })),
      )

const tooLarge = new AttemptFailed({ errorCode: "result_invalid", retry: true, detail: "the result is too large" })

/** It could be read when the job was accepted, by this version or another. */
const storedRequest = (kind: JobKind, request: JsonObject | null): Effect.Effect<unknown, AttemptFailed> =>
  Effect.mapBoth(
    Effect.suspend(() => Effect.fromResult(kind.reader.read(request))),
    {
      onSuccess: ({ value }) => value,
      onFailure: () =>
        new AttemptFailed({ errorCode: "internal_error", retry: false, detail: "the stored request does not decode" }),
    },
  )
