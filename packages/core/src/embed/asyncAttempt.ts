import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { Json, JsonObject } from "../domain/Json.ts"
import type { OutputFile, Usage } from "../domain/index.ts"
import { underCaller } from "../engine/CallerSpan.ts"
import type { AttemptContext, AttemptError, AttemptResult } from "../kinds/AttemptContext.ts"
import type { Kind } from "../kinds/KindTypes.ts"
import type { AudioInput } from "../providers/Provider.ts"
import type { CallerContext } from "./CallerContext.ts"
import type { AsyncAudio } from "./AsyncProviders.ts"
import { fieldOf } from "../providers/checks.ts"
import { fail } from "./fail.ts"
import { iterated, withStream } from "./fileBodies.ts"
import type { Attempt, AttemptOutcome } from "./JobKindOptions.ts"
import { wholeAudio } from "./providerSet.ts"
import { failing, thrownFor } from "./thrownErrors.ts"

/** The program's function that calls `run` with what its job carries. */
export const RestoreContext = Context.Reference<CallerContext["restore"] | undefined>(
  "@kiln/core/embed/RestoreContext",
  {
    defaultValue: () => undefined,
  },
)

/** The rejection of a step called after its attempt. */
const overReason = new DOMException("the attempt is over", "AbortError")

export type AsyncRun = (attempt: Attempt) => Promise<AttemptOutcome<JsonObject>>

/** Runs a kind's function that returns a promise. An interruption aborts its signal, and does not wait for it. */
export const runAsync =
  (run: AsyncRun) =>
  (context: AttemptContext<unknown>): Effect.Effect<AttemptResult, AttemptError> =>
    Effect.withFiber((fiber) =>
      Effect.callback<AttemptResult, AttemptError>((resume) => {
        const attempt = new AsyncAttempt(context, fiber.context)
        try {
          Promise.resolve(called(run, attempt, context, fiber.context)).then(
            (outcome) => resume(attempt.ended(outcome)),
            (thrown: unknown) => resume(attempt.threw(thrown)),
          )
        } catch (thrown) {
          resume(attempt.threw(thrown))
        }
        return Effect.sync(() => attempt.abort())
      }),
    )

/** Calls the function, with what the program attached to the job if it restores that. */
const called = (
  run: AsyncRun,
  attempt: Attempt,
  { submitted }: AttemptContext<unknown>,
  services: Context.Context<never>,
): Promise<AttemptOutcome<JsonObject>> => {
  const value = submitted.context
  const restored = value === undefined ? undefined : Context.get(services, RestoreContext)
  return restored === undefined ? run(attempt) : restored(value as never, () => run(attempt))
}

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

/** What `run` of a kind with promises works with. Each part that not every kind uses is made when it is first read. */
class AsyncAttempt implements Attempt {
  readonly request: unknown
  readonly #attempt: AttemptContext<unknown>
  readonly #context: Context.Context<never>
  #files: Array<OutputFile> | undefined
  #isOver = false
  #controller: AbortController | undefined
  #ask: Attempt["ask"] | undefined

  constructor(attempt: AttemptContext<unknown>, context: Context.Context<never>) {
    this.request = attempt.request
    this.#attempt = attempt
    this.#context = context
  }

  get jobId(): Attempt["jobId"] {
    return this.#attempt.call.jobId
  }

  get attempt(): number {
    return this.#attempt.call.attempt
  }

  get failures(): number {
    return this.#attempt.call.failures
  }

  get kindVersion(): number {
    return this.#attempt.kindVersion
  }

  get mode(): Attempt["mode"] {
    return this.#attempt.mode
  }

  get tags(): Attempt["tags"] {
    return this.#attempt.submitted.tags ?? []
  }

  get signal(): AbortSignal {
    return (this.#controller ??= new AbortController()).signal
  }

  get metadata(): Attempt["metadata"] {
    return this.#attempt.submitted.metadata ?? {}
  }

  get has(): Attempt["has"] {
    return this.#attempt.has
  }

  get ask(): Attempt["ask"] {
    return (this.#ask ??= Object.fromEntries(
      Object.entries<(question: never) => Effect.Effect<unknown, AttemptError>>(this.#attempt.ask).map(
        ([name, askOne]) => [name, (question: object) => this.#run(askOne(withContent(question) as never))],
      ),
    ) as never)
  }

  get audio(): Attempt["audio"] {
    return () =>
      this.#run(
        Effect.flatMap(this.#attempt.audio, ({ content, ...about }) =>
          Effect.map(wholeAudio(content, about.bytes), (data) => ({ ...about, data })),
        ),
      )
  }

  get upload(): Attempt["upload"] {
    return async () => {
      const { content, ...about } = await this.#run(this.#attempt.audio)
      const kept = Stream.tapCause(content, (cause) => Effect.sync(() => thrownFor(cause, overReason)))
      return {
        ...about,
        stream: () =>
          iterated(
            () => this.#run(Effect.succeed(kept)),
            this.#context,
            () => [this.signal],
          ),
      }
    }
  }

  get fail(): Attempt["fail"] {
    return fail
  }

  get step(): Attempt["step"] {
    return <Value extends Json>(name: string, work: (signal: AbortSignal) => Promise<Value>) =>
      this.#run(this.#attempt.step(name, promised(work)))
  }

  get progress(): Attempt["progress"] {
    return (value, message) => {
      if (!this.#isOver) Effect.runSyncWith(this.#context)(this.#attempt.progress(value, message))
    }
  }

  get children(): Attempt["children"] {
    return (step: string, kind: Kind | string, requests: ReadonlyArray<unknown>) =>
      // The kind's author names the kind of the children, and JavaScript code may pass anything.
      this.#run(
        this.#attempt.children(step, (typeof kind === "string" ? kind : fieldOf(kind, "name")) as string, requests),
      ) as never
  }

  get writeFile(): Attempt["writeFile"] {
    return async (name, work) => {
      // Aborted while the file is created, and while what it returned is read.
      const controller = new AbortController()
      const created = Effect.map(
        promised(() => work(controller.signal)),
        withStream,
      )
      const written = Effect.onExit(this.#attempt.writeFile(name, created), (exit) =>
        Exit.isSuccess(exit) ? Effect.void : Effect.sync(() => controller.abort()),
      )
      const file = await this.#run(written)
      ;(this.#files ??= []).push(file)
    }
  }

  /**
   * Ends the attempt: no step begins after it. Returns its result. JavaScript code may return nothing; the engine reports what is wrong
   * with that.
   */
  ended(outcome: Partial<AttemptOutcome<JsonObject>> | undefined): Exit.Exit<AttemptResult> {
    this.#isOver = true
    try {
      const { output, usage = {}, warningCode } = outcome ?? {}
      return Exit.succeed({
        output: output as JsonObject,
        files: this.#files ?? [],
        usage: usage as Usage,
        warningCode,
      })
    } catch (error) {
      return Exit.die(error)
    }
  }

  /** Ends the attempt with what its function threw. */
  threw(thrown: unknown): Effect.Effect<never, AttemptError> {
    this.#isOver = true
    return failing(thrown)
  }

  /** Aborts the signal and the steps. */
  abort(): void {
    this.#isOver = true
    // A signal that nothing has read yet is aborted when it is read.
    this.#controller ??= new AbortController()
    this.#controller.abort()
  }

  /** Runs a part of the attempt. It ends with the attempt, and does not begin after it. */
  #run<A>(effect: Effect.Effect<A, AttemptError>): Promise<A> {
    const began = this.#runNow(effect)
    // An awaited step rejects for its caller. If nobody awaits it, the end of the attempt reports enough.
    began.catch(() => undefined)
    return began
  }

  async #runNow<A>(effect: Effect.Effect<A, AttemptError>): Promise<A> {
    if (this.#isOver) throw thrownFor(Cause.interrupt(), overReason)
    const { signal } = this
    const exit = await Effect.runPromiseExitWith(underCaller(this.#context))(effect, { signal })
    if (Exit.isSuccess(exit)) return exit.value
    throw thrownFor(exit.cause, signal.aborted ? signal.reason : overReason)
  }
}
