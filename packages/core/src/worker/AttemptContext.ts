import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
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
import { openNamed } from "../engine/openNamed.ts"
import { asJson } from "../kinds/asJson.ts"
import {
  type Ask,
  type AttemptContext,
  type AttemptError,
  AttemptFailed,
  GateShut,
  LeaseLost,
} from "../kinds/AttemptContext.ts"
import { type JobKind } from "../kinds/JobKind.ts"
import { KindBug } from "../kinds/KindBug.ts"
import { measureUpload } from "../kinds/uploadedAudio.ts"
import { BlobStore, type Claim, IdGenerator, JobStore, MediaProbe } from "../ports/index.ts"
import { builtInPorts, callProvider, type GeneratedFile, type ProviderCall, Providers } from "../providers/index.ts"
import { ProviderGuard } from "../providers/ProviderGuard.ts"
import { GateWatch } from "./GateWatch.ts"
import type { HeldLease } from "./HeldLease.ts"
import { retrying } from "./retrying.ts"
import { UsedNames } from "./UsedNames.ts"

/** Bytes of one generated file: more is no valid answer to any request of the built-in kinds. */
const maxGeneratedBytes = 64 * 1_024 * 1_024

/** About 15 seconds. The attempt does not wait for a blob store that is unavailable for longer. */
const putRetries = 20

/** What an attempt leaves for its end. */
export interface AttemptNotes {
  /** Keys of blobs whose write was begun. */
  readonly written: Array<string>
  readonly names: UsedNames
}
export const newNotes = (): AttemptNotes => ({ written: [], names: new UsedNames() })

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
  const providers = (yield* Providers)[job.mode]
  const guard = yield* ProviderGuard

  const request = yield* storedRequest(kind, job.request)

  const gateIsOpen = passage(yield* GateWatch, kind, job.mode)
  // The lease comes last, so that nothing is awaited between its check and the step.
  const mayBuy = Effect.andThen(gateIsOpen, lease.check)

  const call = callOf(job)
  const asks = [...builtInPorts, ...kind.ports].map((port) => {
    const ask = (question: object): Effect.Effect<unknown, AttemptError> =>
      Effect.suspend(() => {
        const provider = providers[port.name]
        if (provider === undefined)
          return Effect.die(new KindBug(`the kind does not declare the provider "${port.name}"`))
        const answer = callProvider(port, provider, question, call)
        return job.mode === "sandbox" ? answer : guard.call(port.name, mayBuy)(answer)
      })
    return [port.name, ask] as const
  })

  // What was bought is kept as soon as the store answers, and never bought again because it did not.
  const keep = Effect.fnUntraced(function* (step: string, value: Json): Effect.fn.Return<void, AttemptError> {
    const problem = valueProblem(value)
    if (!isStorableText(step))
      return yield* Effect.die(new KindBug("the name of a step has U+0000 or unpaired surrogates"))
    if (problem !== undefined) return yield* Effect.die(new KindBug(`the value of a step ${problem}`))
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
    ask: Object.fromEntries(asks) as object as Ask,
    has: (name) => providers[name] !== undefined,
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

/** Writes the files of an attempt. Each is durable when its write succeeds. */
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
        new KindBug("the media type of a file must be text without U+0000 and unpaired surrogates"),
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
    return { id: ids.next("fil"), name, blobKey, mediaType, ...info } satisfies OutputFile
  })

/** Says why a value cannot be stored. Checked here, so that every store gives the same answer. */
const valueProblem = (value: Json): string | undefined => {
  const json = asJson(value)
  if (json === undefined) return "is not JSON"
  return json.length > limits.kindJsonLength ? "is too long" : undefined
}

/** Returns the job's upload, measured. */
const uploadedAudio = ({ job, upload }: Claim, blobs: BlobStore["Service"]) =>
  Effect.suspend(() => {
    const file = upload?.file
    if (upload === null || file === null || file === undefined)
      return Effect.die(new KindBug(`a job of ${job.kind} has no uploaded file`))
    const content = Stream.unwrap(Effect.map(openNamed(blobs, file), (blob) => blob.content)).pipe(
      // A row names the blob, so a missing one is damage.
      Stream.catchTag("BlobNotFound", ({ key }) => Stream.fail(new BlobCorrupt({ key }))),
    )
    return measureUpload(upload, { bytes: file.bytes, content })
  })

/** Fails while the gate of live jobs is closed. Sandbox jobs have no gate. */
const passage = (gates: GateWatch["Service"], { gate }: JobKind, mode: JobMode): Effect.Effect<void, AttemptError> =>
  mode === "sandbox"
    ? Effect.void
    : Effect.flatMap(gates.missing(gate), (missing) =>
        missing.length === 0 ? Effect.void : Effect.fail(new GateShut({ missing })),
      )

const tooLarge = new AttemptFailed({ errorCode: "result_invalid", retry: true, detail: "the result is too large" })

/** Reads the stored request. It was readable when the job was accepted, by this version of the kind or another. */
const storedRequest = (kind: JobKind, request: JsonObject | null): Effect.Effect<unknown, AttemptFailed> =>
  Effect.mapBoth(
    Effect.suspend(() => Effect.fromResult(kind.reader.read(request))),
    {
      onSuccess: ({ value }) => value,
      onFailure: () =>
        new AttemptFailed({ errorCode: "internal_error", retry: false, detail: "the stored request does not decode" }),
    },
  )
