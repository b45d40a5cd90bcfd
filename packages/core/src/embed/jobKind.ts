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
 * Defines a custom job kind: its request, output, price and attempts. Pass it to `createEngine` as one of its `kinds`, in every
 * process that submits or runs such jobs.
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
 * Creates an error for an attempt to throw. The job fails with this code, either immediately or, with `retry`, once the attempts
 * are used up. `detail` goes to the log, so it must not contain a prompt, a transcript or a secret.
 */
export const jobFailed = (errorCode: ErrorCode, detail: string, options: { readonly retry?: boolean } = {}): Error => {
  if (!isErrorCode(errorCode))
    throw new TypeError(`the error code passed to jobFailed() must be one of ${errorCodes.join(", ")}`)
  return new AttemptFailed({ errorCode, retry: options.retry ?? false, detail })
}

/** The rejection of a step called after its attempt. */
const overReason = new DOMException("the attempt is over", "AbortError")

type AnyRun = (attempt: Attempt) => Promise<AttemptOutcome<JsonObject>>

/** The cause of each error thrown to promise code, so that the code can catch and rethrow it without losing its meaning. */
const causes = new WeakMap<object, Cause.Cause<AttemptError>>()

/** Returns the error for promise code; `reason` if nothing failed and the step was interrupted. */
const thrownFor = (cause: Cause.Cause<AttemptError>, reason: unknown): unknown => {
  const squashed: unknown = Cause.hasInterruptsOnly(cause) ? reason : Cause.squash(cause)
  // A primitive cannot be looked up again; it is still a defect.
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
              // An awaited step rejects for its caller. If nobody awaits it, the end of the attempt reports enough.
              began.catch(() => undefined)
              return began
            }
            return run(asyncAttempt(attempt, signal, inner, files))
          },
          catch: (thrown) => thrown,
        })
        return Effect.matchEffect(work, {
          onSuccess: (outcome: Partial<AttemptOutcome<JsonObject>> | undefined) => {
            // JavaScript code may return nothing; the engine reports what is wrong with that.
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

/** Turns a step's promise into an effect. An error ends the step as it would end the attempt. */
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
