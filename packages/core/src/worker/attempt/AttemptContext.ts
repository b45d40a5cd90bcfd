import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { countStep } from "../../domain/Child.ts"
import {
  BlobCorrupt,
  type BlobUnavailable,
  isError,
  isTaggedError,
  type Job,
  type Json,
  type OutputFile,
  submittedOf,
} from "../../domain/index.ts"
import type { Submitted } from "../../domain/JobMetadata.ts"
import { childrenCheckpoint, progressFrom, progressIn, progressProblem, progressStep } from "../../domain/Progress.ts"
import { givenField } from "../../domain/givenValues.ts"
import { openNamed } from "../../engine/blobs.ts"
import { inSpan } from "../../engine/spans.ts"
import {
  type Ask,
  type AttemptContext,
  type AttemptError,
  type AttemptFile,
  GateShut,
  LeaseLost,
  type MeasuredAudio,
} from "../../kinds/AttemptContext.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import { measureUpload } from "../../kinds/uploadedAudio.ts"
import { type BlobStore, type Claim, MediaProbe } from "../../ports/index.ts"
import {
  type AnyProvider,
  builtInPorts,
  type ProviderCall,
  type ProviderFailure,
  type ProviderPort,
  resultInvalid,
} from "../../providers/index.ts"
import type { ProviderCallError } from "../../providers/ProviderError.ts"
import { type Attempt, storeNow, writeFile } from "./Attempt.ts"
import { type AttemptServices, attemptServices } from "./AttemptServices.ts"
import { ownersVerbs, submittingVerbs } from "./attemptEngine.ts"
import { cannotGoOn } from "./AttemptEnd.ts"
import { emitChunk } from "./EmittedChunks.ts"
import { awaitChildren, type KeptCount } from "./children.ts"
import { type Inherited, inherits, readInherited } from "./inherited.ts"
import { fromKept, keepStep, toKept } from "./keepStep.ts"
import type { LeaseWatch } from "./leases.ts"
import { ProgressReports } from "./ProgressReports.ts"
import { awaitSignal, sleepUntil, type WaitServices } from "./waiting.ts"

/** Returns the function that builds the context of a kind's `run`, for the attempts of one worker. */
export const attemptContexts = Effect.fnUntraced(function* (watch: LeaseWatch) {
  const services = yield* attemptServices(watch)
  return (attempt: Attempt, request: unknown): AttemptContext<unknown> => new RunContext(services, attempt, request)
})

/**
 * The context of `run`. Each part is created when the kind first reads it, because most kinds use few of them, and a kind that
 * only computes uses none.
 */
class RunContext implements AttemptContext<unknown> {
  readonly request: unknown
  readonly #services: AttemptServices
  readonly #attempt: Attempt
  #ask: Ask | undefined
  #inherited: Effect.Effect<Inherited, AttemptError> | undefined

  constructor(services: AttemptServices, attempt: Attempt, request: unknown) {
    this.#services = services
    this.#attempt = attempt
    this.request = request
  }

  get #job(): Job {
    return this.#attempt.claim.job
  }

  get #providers() {
    return this.#services.providers[this.mode]
  }

  get kindVersion() {
    return this.#job.kindVersion
  }

  get mode() {
    return this.#job.mode
  }

  get call(): ProviderCall {
    return callOf(this.#job)
  }

  get submitted(): Submitted {
    return submittedOf(this.#job)
  }

  get after(): AttemptContext<unknown>["after"] {
    return this.#attempt.after
  }

  get ask(): Ask {
    return (this.#ask ??= this.#makeAsk())
  }

  get has(): AttemptContext<unknown>["has"] {
    return (name) => givenField(this.#providers, name) !== undefined
  }

  get audio(): Effect.Effect<MeasuredAudio, AttemptError> {
    const { blobs, probe } = this.#services
    const measured = Effect.provideService(uploadedAudio(this.#attempt.claim, blobs), MediaProbe, probe)
    return this.#part(
      Effect.map(measured, (audio) => ({
        ...audio,
        content: Stream.catchCause(audio.content, (cause) => Stream.fromEffect(this.#cutOr(cause))),
      })),
    )
  }

  get step(): AttemptContext<unknown>["step"] {
    return <A, E extends AttemptError>(name: string, effect: Effect.Effect<A, E>) =>
      this.#named(
        "step",
        name,
      )(
        this.#kept(name, () =>
          this.#attempt.names.within(name, inSpan("Attempt.step", effect, { attributes: { "kiln.step": name } })),
        ),
      )
  }

  get lastStep(): AttemptContext<unknown>["lastStep"] {
    return (name, effect) => this.#named("lastStep", name)(Effect.andThen(this.#mayBuy, effect))
  }

  get progress(): AttemptContext<unknown>["progress"] {
    return (value, message) =>
      Effect.suspend(() => {
        const attempt = this.#attempt
        const problem = progressProblem(value, message)
        if (problem !== undefined) return Effect.die(new KindBug(problem))
        attempt.reports ??= new ProgressReports(this.#services, attempt.claim)
        attempt.reports.report(progressFrom(value, message))
        return Effect.void
      })
  }

  get emit(): AttemptContext<unknown>["emit"] {
    return (chunk) => emitChunk(this.#attempt, chunk)
  }

  get emitted(): number {
    return this.#attempt.chunks?.count ?? 0
  }

  get children(): AttemptContext<unknown>["children"] {
    return (step, kind, requests) =>
      this.#named(
        "children",
        step,
      )(
        Effect.andThen(
          this.#mayBuy,
          awaitChildren(this.#services, this.#job, step, kind, requests, this.#countOf(step), {
            now: () => this.#now(),
            tell: (total) => this.#tellChildren(step, total),
          }),
        ),
      )
  }

  get sleep(): AttemptContext<unknown>["sleep"] {
    return (name, time) => this.#named("sleep", name)(sleepUntil(this.#waiting, name, time))
  }

  get waitFor(): AttemptContext<unknown>["waitFor"] {
    return (name, options) => this.#named("waitFor", name)(awaitSignal(this.#waiting, name, options))
  }

  get engine(): AttemptContext<unknown>["engine"] {
    const { get, readFile, ...others } = ownersVerbs(this.#services, this.#job)
    return {
      ...submittingVerbs(this.#services, this.#attempt, {
        named: (call, step) => this.#named(call, step),
        kept: (step, run) => this.#kept(step, run),
        known: (step) => this.#known(step),
        now: () => this.#now(),
      }),
      get: (jobId) => this.#part(get(jobId)),
      readFile: (fileId) => Stream.catchCause(readFile(fileId), (cause) => Stream.fromEffect(this.#cutOr(cause))),
      signal: (jobId, name, value) => this.#part(Effect.andThen(this.#mayBuy, others.signal(jobId, name, value))),
      cancel: (jobId) => this.#part(Effect.andThen(this.#mayBuy, others.cancel(jobId))),
    }
  }

  get #waiting(): WaitServices {
    return {
      store: this.#services.store,
      job: this.#job,
      now: () => this.#now(),
      keep: (step, value) => this.#keep(step, value),
      inherited: this.#inheritance,
    }
  }

  /** What the jobs that this one retries had finished, read once; `undefined` for a job that is no retry. */
  get #inheritance(): Effect.Effect<Inherited, AttemptError> | undefined {
    if (!inherits(this.#job)) return undefined
    return (this.#inherited ??= Effect.runSync(Effect.cached(readInherited(this.#services, this.#job))))
  }

  /** Returns what this job, or the one that it retries, keeps under a name; `undefined` if nothing. */
  #known(name: string): Effect.Effect<Json | undefined, AttemptError> {
    const { checkpoints } = this.#job
    return Effect.suspend(() => {
      if (Object.hasOwn(checkpoints, name)) return Effect.succeed(checkpoints[name])
      const inheritance = this.#inheritance
      return inheritance === undefined
        ? Effect.succeed(undefined)
        : Effect.map(inheritance, ({ steps }) => steps.get(name))
    })
  }

  /** Returns the value that this job, or the one that it retries, has of a step; otherwise runs it and keeps the value. */
  #kept<A>(name: string, run: () => Effect.Effect<A, AttemptError>): Effect.Effect<A, AttemptError> {
    const { checkpoints } = this.#job
    return Effect.suspend(() => {
      if (Object.hasOwn(checkpoints, name)) return Effect.succeed(fromKept(checkpoints[name]) as A)
      const runNow = this.#mayBuy.pipe(
        Effect.andThen(Effect.suspend(run)),
        Effect.tap((value) => this.#keep(name, toKept(value))),
      )
      const inheritance = this.#inheritance
      if (inheritance === undefined) return runNow
      return Effect.flatMap(inheritance, ({ steps }) => {
        const value = steps.get(name)
        return value === undefined ? runNow : Effect.as(this.#keep(name, value), fromKept(value) as A)
      })
    })
  }

  /** Writes once for each step: what it keeps does not change while the children end. */
  #tellChildren(step: string, total: number): Effect.Effect<void, AttemptError> {
    const { attempts, checkpoints } = this.#job
    const told = progressIn(checkpoints[progressStep], attempts)
    if (this.#attempt.reports !== undefined || (told !== null && told.children === undefined)) return Effect.void
    if (told?.children?.step === step && told.children.total === total) return Effect.void
    return this.#keep(progressStep, childrenCheckpoint(step, total, attempts))
  }

  #now(): number {
    return storeNow(this.#attempt, this.#services.watch)
  }

  get keepFile(): AttemptContext<unknown>["keepFile"] {
    return (name, file) => this.#named("keepFile", name)(this.#writeFile(name, file))
  }

  get writeFile(): AttemptContext<unknown>["writeFile"] {
    return (name, effect) =>
      this.#named(
        "writeFile",
        name,
      )(Effect.flatMap(Effect.andThen(this.#mayBuy, effect), (file) => this.#writeFile(name, file)))
  }

  /** Runs a part of the attempt under a name that is used once. */
  #named(call: Parameters<Attempt["names"]["once"]>[0], name: string) {
    return <A>(effect: Effect.Effect<A, AttemptError>) => this.#part(this.#attempt.names.once(call, name)(effect))
  }

  /**
   * Runs a part of the attempt. If the attempt cannot go on, the part does not fail: the work is interrupted, so that no code of the kind
   * takes a wait for an error. No part begins after that.
   */
  #part<A, E = AttemptError>(effect: Effect.Effect<A, E | AttemptError>): Effect.Effect<A, E | AttemptError> {
    return Effect.suspend(() =>
      this.#attempt.isCut ? Effect.interrupt : Effect.catchCause(effect, (cause) => this.#cutOr(cause)),
    )
  }

  #cutOr<E>(cause: Cause.Cause<E>): Effect.Effect<never, E> {
    // Any other error is for the kind's code to handle.
    if (!cannotGoOn(cause as Cause.Cause<never>)) return Effect.failCause(cause)
    this.#attempt.cut(cause as Cause.Cause<never>)
    return Effect.interrupt
  }

  /** Checks the lease last, so that nothing is awaited between its check and the step. */
  get #mayBuy(): Effect.Effect<void, AttemptError> {
    return Effect.andThen(this.#gateIsOpen, this.#holdsLease)
  }

  /** Fails while the gate of live jobs is closed. Sandbox jobs have no gate. */
  get #gateIsOpen(): Effect.Effect<void, AttemptError> {
    if (this.mode === "sandbox") return Effect.void
    return Effect.flatMap(this.#services.gates.missing(this.#attempt.kind.gate), (missing) =>
      missing.length === 0 ? Effect.void : Effect.fail(new GateShut({ missing })),
    )
  }

  /** Fails if the claim is lost or its lease has ended. A worker that was frozen notices it here first. */
  get #holdsLease(): Effect.Effect<void, LeaseLost> {
    const { watch } = this.#services
    return Effect.suspend(() => (this.#attempt.lease.holdsAt(watch.now()) ? Effect.void : Effect.fail(new LeaseLost())))
  }

  #makeAsk(): Ask {
    const { guard } = this.#services
    const call = this.call
    const { keyId, kind, projectId } = this.#job
    const source = { caller: `${projectId} ${keyId}`, kind }
    const asks = [...builtInPorts, ...this.#attempt.kind.ports].map((port) => {
      const ask = (question: object): Effect.Effect<unknown, AttemptError> =>
        Effect.suspend(() => {
          const provider = givenField(this.#providers, port.name) as AnyProvider | undefined
          if (provider === undefined)
            return Effect.die(
              new KindBug(`the kind does not declare the provider "${port.name}": add it to its providers`),
            )
          const answer = inSpan(`Provider.${port.name}`, callProvider(port, provider, question, call), {
            kind: "client",
            attributes: { "kiln.provider": port.name, "kiln.job.id": call.jobId, "kiln.job.attempt": call.attempt },
          })
          return this.#part(
            guard.guardedIn(this.mode, [port.name]).length === 0
              ? answer
              : guard.call(port.name, this.#attempt, this.#mayBuy, source)(answer),
          )
        })
      return [port.name, ask] as const
    })
    return Object.fromEntries(asks) as object as Ask
  }

  /** The number of children of a step, which stays with the step even if the children's records are deleted. */
  #countOf(step: string): KeptCount {
    const known = this.#job.checkpoints[countStep(step)]
    return typeof known === "number"
      ? { known, keep: () => Effect.void }
      : { known: undefined, keep: (count) => this.#keep(countStep(step), count) }
  }

  #keep(step: string, value: Json): Effect.Effect<void, AttemptError> {
    return keepStep(this.#services.store, this.#attempt.claim, step, value)
  }

  #writeFile(name: string, file: AttemptFile): Effect.Effect<OutputFile, AttemptError> {
    return writeFile(this.#services, this.#attempt, name, file)
  }
}

/** Calls a provider and checks its answer. An invalid answer fails with `result_invalid`. */
const callProvider = (
  port: ProviderPort,
  provider: AnyProvider,
  request: object,
  call: ProviderCall,
): Effect.Effect<unknown, ProviderCallError | BlobUnavailable | BlobCorrupt> =>
  Effect.flatMap(provider(request as never, call), (answer) =>
    Effect.try({ try: () => port.check(answer, request as never), catch: invalidAnswer }),
  )

const invalidAnswer = (thrown: unknown): ProviderFailure =>
  isTaggedError<ProviderFailure>(thrown, "ProviderFailure")
    ? thrown
    : resultInvalid(`validating the answer threw ${isError(thrown) ? thrown.name : typeof thrown}`)

const callOf = ({ attempts, failures, id, lostWorkers }: Job): ProviderCall => ({
  jobId: id,
  attempt: attempts,
  failures,
  deferrals: attempts - 1 - failures - lostWorkers,
})

/** Returns the job's upload with its measured duration. */
const uploadedAudio = ({ job, upload }: Claim, blobs: BlobStore["Service"]) =>
  Effect.suspend(() => {
    const file = upload?.file
    if (upload === null || file === null || file === undefined)
      return Effect.die(
        new KindBug(
          `a job of ${job.kind} has no uploaded file: name the field of its request in upload, and give it an upload`,
        ),
      )
    const content = Stream.unwrap(Effect.map(openNamed(blobs, file), (blob) => blob.content)).pipe(
      // A row names the blob, so a missing blob is damage.
      Stream.catchTag("BlobNotFound", ({ key }) => Stream.fail(new BlobCorrupt({ key }))),
    )
    return measureUpload(upload, { bytes: file.bytes, content })
  })
