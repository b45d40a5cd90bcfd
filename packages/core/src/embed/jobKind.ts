import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { type ErrorCode, errorCodes, isErrorCode } from "../domain/ErrorCode.ts"
import type { Json, JsonObject } from "../domain/Json.ts"
import { isTaggedError, type OutputFile } from "../domain/index.ts"
import { type AttemptContext, type AttemptError, AttemptFailed, type AttemptResult, JobKind } from "../kinds/index.ts"
import type { ProviderRef } from "../providers/builtInPorts.ts"
import type { AudioInput } from "../providers/Provider.ts"
import type { AsyncAudio } from "./AsyncProviders.ts"
import { checkDefinition } from "../kinds/checkDefinition.ts"
import type { AnySchema } from "../kinds/KindDefinition.ts"
import type { Attempt, AttemptOutcome, DefinedKind, JobKindOptions } from "./JobKindOptions.ts"
import { wholeAudio } from "./providerSet.ts"

/**
 * Defines a kind of job of one's own, in one place: what is asked for, what comes out, what it costs, and how it is done.
 * Give it to `createEngine` as one of its `kinds`, in every process that submits or runs such jobs.
 */
export const jobKind = <
  const Name extends string,
  S extends AnySchema,
  Output extends object = JsonObject,
  const File extends string = never,
  const Provider extends ProviderRef = never,
  const OrProvider extends ProviderRef = never,
  const Upload extends string = never,
>(
  options: JobKindOptions<Name, S, Output, File, Provider, OrProvider, Upload>,
): DefinedKind<Name, S, Output, File, Provider, OrProvider, Upload> => {
  checkDefinition(options)
  const { run, sandbox, ...definition } = options
  return JobKind({
    ...(definition as object as Parameters<typeof JobKind>[0]),
    run: running(run as AnyRun),
    ...(sandbox && { sandbox: running(sandbox as AnyRun) }),
  }) as object as DefinedKind<Name, S, Output, File, Provider, OrProvider, Upload>
}

/**
 * To be thrown by an attempt: the job fails with this code, at once, or after another attempt where `retry` says so. `detail`
 * is for the log: never a prompt, a transcript or a secret.
 */
export const jobFailed = (errorCode: ErrorCode, detail: string, options: { readonly retry?: boolean } = {}): Error => {
  if (!isErrorCode(errorCode)) throw new TypeError(`the error code of a job must be one of ${errorCodes.join(", ")}`)
  return new AttemptFailed({ errorCode, retry: options.retry ?? false, detail })
}

/** What a step that comes too late rejects with. */
const overReason = new DOMException("the attempt is over", "AbortError")

type AnyRun = (attempt: Attempt) => Promise<AttemptOutcome<JsonObject>>

/** Why each error was thrown to the code in between, which knows promises alone: so it can catch them, and they keep what they mean. */
const causes = new WeakMap<object, Cause.Cause<AttemptError>>()

/** What the code in between sees; `reason` where nothing failed and it was ended. */
const thrownFor = (cause: Cause.Cause<AttemptError>, reason: unknown): unknown => {
  const squashed: unknown = Cause.hasInterruptsOnly(cause) ? reason : Cause.squash(cause)
  // What is no object cannot be known again; it means what it meant, a defect.
  if (typeof squashed === "object" && squashed !== null) causes.set(squashed, cause)
  return squashed
}

const failing = (thrown: unknown): Effect.Effect<never, AttemptError> => {
  const cause = typeof thrown === "object" && thrown !== null ? causes.get(thrown) : undefined
  if (cause !== undefined) return Effect.failCause(cause)
  return isTaggedError<AttemptFailed>(thrown, "AttemptFailed") ? Effect.fail(thrown) : Effect.die(thrown)
}

const running =
  (run: AnyRun) =>
  (attempt: AttemptContext<unknown>): Effect.Effect<AttemptResult, AttemptError> =>
    Effect.flatMap(Effect.context(), (context) =>
      Effect.suspend(() => {
        const files: Array<OutputFile> = []
        let isOver = false
        const work = Effect.tryPromise({
          try: async (signal) => {
            /** Ends with the attempt, and begins nothing after it. */
            const inner = <A>(effect: Effect.Effect<A, AttemptError>): Promise<A> => {
              const began = (async () => {
                if (isOver || signal.aborted) throw thrownFor(Cause.interrupt(), overReason)
                const exit = await Effect.runPromiseExitWith(context)(effect, { signal })
                if (Exit.isSuccess(exit)) return exit.value
                throw thrownFor(exit.cause, signal.aborted ? signal.reason : overReason)
              })()
              // Whoever waits for it hears of it; where nobody does, the attempt's own end says enough.
              began.catch(() => undefined)
              return began
            }
            return run(asyncAttempt(attempt, signal, inner, files))
          },
          catch: (thrown) => thrown,
        })
        return Effect.matchEffect(work, {
          onSuccess: (outcome: Partial<AttemptOutcome<JsonObject>> | undefined) => {
            // JavaScript may return nothing: the engine says what is wrong with that.
            const { output, usage = {}, warningCode } = outcome ?? {}
            return Effect.succeed({ output: output as JsonObject, files, usage, warningCode })
          },
          onFailure: failing,
        }).pipe(
          Effect.ensuring(
            Effect.sync(() => {
              isOver = true
            }),
          ),
        )
      }),
    )

/** Work as a step takes it. What it throws ends the step as it would end the attempt. */
const promised = <A>(work: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, AttemptError> =>
  Effect.matchEffect(Effect.tryPromise({ try: async (signal) => work(signal), catch: (thrown) => thrown }), {
    onSuccess: Effect.succeed,
    onFailure: failing,
  })

/** Gives the audio of a request the content stream that providers read. */
const withContent = (question: object): object => {
  if (!("audio" in question)) return question
  const { data, ...about } = question.audio as AsyncAudio
  const audio: AudioInput = { ...about, content: Stream.succeed(data) }
  return { ...question, audio }
}

type Inner = <A>(effect: Effect.Effect<A, AttemptError>) => Promise<A>

const asyncAttempt = (
  {
    ask,
    audio,
    call: { attempt, failures, jobId },
    has,
    fileStep,
    kindVersion,
    mode,
    request,
    step,
  }: AttemptContext<unknown>,
  signal: AbortSignal,
  inner: Inner,
  files: Array<OutputFile>,
): Attempt => ({
  jobId,
  attempt,
  failures,
  request,
  kindVersion,
  mode,
  signal,
  has,
  ask: Object.fromEntries(
    Object.entries<(question: never) => Effect.Effect<unknown, AttemptError>>(ask).map(([name, askOne]) => [
      name,
      (question: object) => inner(askOne(withContent(question) as never)),
    ]),
  ) as never,
  audio: () =>
    inner(
      Effect.flatMap(audio, ({ content, ...about }) =>
        Effect.map(wholeAudio(content, about.bytes), (data) => ({ ...about, data })),
      ),
    ),
  step: <Value extends Json>(name: string, work: (signal: AbortSignal) => Promise<Value>) =>
    inner(step(name, promised(work))),
  file: async (name, work) => {
    files.push(await inner(fileStep(name, promised(work))))
  },
})
