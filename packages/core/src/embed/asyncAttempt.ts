import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { OutputFile } from "../domain/index.ts"
import type { JsonObject } from "../domain/givenValues.ts"
import { fieldOf } from "../providers/checks.ts"
import { outsideOfCallers, underCaller } from "../engine/spans.ts"
import { asyncHooks } from "../engine/programContext.ts"
import type { AttemptContext, AttemptError, AttemptResult } from "../kinds/AttemptContext.ts"
import { KindBug } from "../kinds/KindBug.ts"
import type { Kind } from "../kinds/KindDefinition.ts"
import type { AudioInput } from "../providers/Provider.ts"
import { CurrentStep, type RunningStep, shownCall } from "../worker/attempt/Attempt.ts"
import type { AsyncAudio } from "./AsyncProviders.ts"
import { AttemptParts, failing, thrownFor } from "./AttemptParts.ts"
import type { Attempt, AttemptOutcome } from "./AttemptTypes.ts"
import type { CallerContext } from "./EngineOptions.ts"
import { MadeErrors } from "./failure.ts"
import { iterated, withStream } from "./fileBodies.ts"
import type { AsyncRun } from "./JobKindOptions.ts"
import { promisedEngine } from "./promisedEngine.ts"
import { wholeAudio } from "./providerSet.ts"
import { resultOf } from "./resultOf.ts"

type Facts = Pick<AttemptContext<unknown>, "request" | "kindVersion" | "call" | "submitted" | "after">

/** The facts of a job that `run` of a kind with promises is given, alone or in a batch. */
export class AsyncJob {
  readonly request: unknown
  readonly #job: Facts

  constructor(job: Facts) {
    this.request = job.request
    this.#job = job
  }

  get jobId(): Attempt["jobId"] {
    return this.#job.call.jobId
  }

  get attempt(): number {
    return this.#job.call.attempt
  }

  get failures(): number {
    return this.#job.call.failures
  }

  get kindVersion(): number {
    return this.#job.kindVersion
  }

  get tags(): Attempt["tags"] {
    return this.#job.submitted.tags ?? []
  }

  get metadata(): Attempt["metadata"] {
    return this.#job.submitted.metadata ?? {}
  }

  get after(): Attempt["after"] {
    return this.#job.after
  }

  get schedule(): Attempt["schedule"] {
    const { schedule } = this.#job.submitted
    if (schedule === undefined) return undefined
    const { name, previousAt, tickAt } = schedule
    return { name, tickAt: new Date(tickAt), previousAt: previousAt === null ? null : new Date(previousAt) }
  }
}

/** The program's function that calls `run` with what its job carries. */
export const RestoreContext = Context.Reference<CallerContext["restore"] | undefined>(
  "@kiln/core/embed/RestoreContext",
  {
    defaultValue: () => undefined,
  },
)

/** The rejection of a step called after its attempt. */
const overReason = new DOMException("the attempt is over", "AbortError")

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
  return outsideOfCallers(() => (restored === undefined ? run(attempt) : restored(value as never, () => run(attempt))))
}

/** Without Node, a call in a step is not told apart. */
const steps = asyncHooks && new asyncHooks.AsyncLocalStorage<RunningStep>()

/** Calls the function of a step, so that the functions of the attempt that it calls know that they are called in it. */
const inStep = <A>(step: RunningStep | undefined, work: () => A): A =>
  step === undefined || steps === undefined ? work() : steps.run(step, work)

/** Gives the audio of a request the content stream that providers read. */
const withContent = (question: object): object => {
  if (!("audio" in question)) return question
  const { data, ...about } = question.audio as AsyncAudio
  const audio: AudioInput = { ...about, content: Stream.succeed(data) }
  return { ...question, audio }
}

/** The context of `run` of a kind with promises. Each part that not every kind uses is made when it is first read. */
class AsyncAttempt extends AsyncJob implements Attempt {
  readonly #attempt: AttemptContext<unknown>
  readonly #context: Context.Context<never>
  #files: Array<OutputFile> | undefined
  #isOver = false
  #parts: AttemptParts | undefined
  #errors: MadeErrors | undefined
  #controller: AbortController | undefined
  #ask: Attempt["ask"] | undefined
  #engine: Attempt["engine"] | undefined

  constructor(attempt: AttemptContext<unknown>, context: Context.Context<never>) {
    super(attempt)
    this.#attempt = attempt
    this.#context = context
  }

  get mode(): Attempt["mode"] {
    return this.#attempt.mode
  }

  get signal(): AbortSignal {
    return (this.#controller ??= new AbortController()).signal
  }

  get has(): Attempt["has"] {
    return this.#attempt.has
  }

  get ask(): Attempt["ask"] {
    return (this.#ask ??= Object.fromEntries(
      Object.entries<(question: never) => Effect.Effect<unknown, AttemptError>>(this.#attempt.ask).map(
        ([name, askOne]) => [
          name,
          (question: object) => this.#run(`ask.${name}()`, askOne(withContent(question) as never)),
        ],
      ),
    ) as never)
  }

  get audio(): Attempt["audio"] {
    return () =>
      this.#run(
        "audio()",
        Effect.flatMap(this.#attempt.audio, ({ content, ...about }) =>
          Effect.map(wholeAudio(content, about.bytes), (data) => ({ ...about, data })),
        ),
      )
  }

  get upload(): Attempt["upload"] {
    return async () => {
      const { content, ...about } = await this.#run("upload()", this.#attempt.audio)
      const kept = Stream.tapCause(content, (cause) => Effect.sync(() => thrownFor(cause, overReason)))
      return {
        ...about,
        stream: () =>
          iterated(
            () => this.#run("upload().stream()", Effect.succeed(kept)),
            this.#context,
            () => [this.signal],
            "hang",
          ),
      }
    }
  }

  get failure(): Attempt["failure"] {
    return this.#made.failure
  }

  get step(): Attempt["step"] {
    return <Value>(name: string, work: (signal: AbortSignal) => Promise<Value>) =>
      this.#runKept(
        "step",
        name,
        this.#attempt.step(
          name,
          Effect.withFiber((fiber) => {
            const step = fiber.getRef(CurrentStep)
            const inside = typeof work === "function" ? (signal: AbortSignal) => inStep(step, () => work(signal)) : work
            return this.#work("step", name, inside) as Effect.Effect<never>
          }),
        ),
      ) as Promise<Value>
  }

  get progress(): Attempt["progress"] {
    return (value, message) => {
      if (!this.#isOver) Effect.runSyncWith(this.#context)(this.#attempt.progress(value, message))
    }
  }

  get emit(): Attempt["emit"] {
    return (chunk: never) => {
      if (this.#isOver) return
      const exit = Effect.runSyncExitWith(this.#context)(this.#attempt.emit(chunk))
      if (Exit.isFailure(exit)) throw thrownFor(exit.cause, overReason)
    }
  }

  get emitted(): number {
    return this.#attempt.emitted
  }

  get children(): Attempt["children"] {
    return (step: string, kind: Kind | string, requests: ReadonlyArray<unknown>) =>
      // The kind's author names the kind of the children, and JavaScript code may pass anything.
      this.#runKept(
        "children",
        step,
        this.#attempt.children(step, (typeof kind === "string" ? kind : fieldOf(kind, "name")) as string, requests),
      ) as never
  }

  get sleep(): Attempt["sleep"] {
    return (name, time) => this.#runKept("sleep", name, this.#attempt.sleep(name, time))
  }

  get waitFor(): Attempt["waitFor"] {
    return (name, options) => this.#runKept("waitFor", name, this.#attempt.waitFor(name, options)) as never
  }

  get engine(): Attempt["engine"] {
    return (this.#engine ??= promisedEngine({
      attempt: this.#attempt,
      context: this.#context,
      signal: () => this.signal,
      run: (call, effect, isKept) => this.#run(call, effect, isKept),
    }))
  }

  get writeFile(): Attempt["writeFile"] {
    return (name, work) => {
      // Aborted while the file is created, and while what it returned is read.
      const controller = new AbortController()
      const created = Effect.map(this.#work("writeFile", name, work, controller.signal), withStream)
      const written = Effect.onExit(this.#attempt.writeFile(name, created), (exit) =>
        Exit.isSuccess(exit) ? Effect.void : Effect.sync(() => controller.abort()),
      )
      return this.#runKept(
        "writeFile",
        name,
        Effect.provideService(
          Effect.map(written, (file) => void (this.#files ??= []).push(file)),
          CurrentStep,
          steps?.getStore(),
        ),
      )
    }
  }

  /** Ends the attempt: no step begins after it. Returns its result. */
  ended(outcome: Partial<AttemptOutcome<JsonObject>> | undefined): Exit.Exit<AttemptResult> {
    const early = this.#parts?.bug
    this.#end()
    if (early !== undefined) return Exit.die(early)
    const result = resultOf(outcome, this.#files)
    const unthrown = Exit.isSuccess(result) ? this.#errors?.bug : undefined
    return unthrown === undefined ? result : Exit.die(unthrown)
  }

  /** Ends the attempt with what its function threw. */
  threw(thrown: unknown): Effect.Effect<never, AttemptError> {
    this.#end()
    return failing(thrown)
  }

  /** Interrupts the attempt. Aborts the signal and the parts that run, and nothing that the function waits for settles any more. */
  abort(): void {
    this.#isOver = true
    this.#begun.cut()
    // A signal that nothing has read yet is aborted when it is read.
    const controller = (this.#controller ??= new AbortController())
    outsideOfCallers(() => controller.abort())
  }

  get #begun(): AttemptParts {
    return (this.#parts ??= new AttemptParts())
  }

  get #made(): MadeErrors {
    return (this.#errors ??= new MadeErrors())
  }

  /** Ends the attempt. The parts that still run are interrupted, because the next attempt would run them a second time beside them. */
  #end(): void {
    this.#isOver = true
    if (this.#parts?.isRunning === true) this.abort()
  }

  /** Turns the function of a step or a file into an effect. An error ends the step as it would end the attempt. */
  #work<A>(
    call: string,
    name: unknown,
    work: (signal: AbortSignal) => Promise<A>,
    own?: AbortSignal,
  ): Effect.Effect<A, AttemptError> {
    if (typeof work !== "function")
      return Effect.die(new KindBug(`${shownCall(call, name)} expects a function as its second argument`))
    return Effect.matchEffect(
      Effect.tryPromise({ try: async (signal) => work(own ?? signal), catch: (thrown) => thrown }),
      {
        onSuccess: Effect.succeed,
        onFailure: (thrown) => {
          this.#errors?.wasThrown(thrown)
          return failing(thrown)
        },
      },
    )
  }

  #runKept<A>(call: string, name: unknown, effect: Effect.Effect<A, AttemptError>): Promise<A> {
    return this.#run(shownCall(call, name), effect, true)
  }

  /** Runs a part of the attempt. It ends with the attempt, and does not begin after it. */
  #run<A, E>(call: string, effect: Effect.Effect<A, E>, isKept = false): Promise<A> {
    const parts = this.#begun
    if (this.#isOver && !parts.isCut) return refused()
    return parts.begin(
      { call, isKept },
      () => Effect.runPromiseExitWith(underCaller(this.#context))(effect, { signal: this.signal }),
      ({ cause }) => thrownFor(cause as Cause.Cause<AttemptError>, overReason),
    )
  }
}

/** Rejects a part that is begun after the end of its attempt. Code that does not wait for it must not end the process. */
const refused = <A>(): Promise<A> => {
  thrownFor(Cause.interrupt(), overReason)
  const rejected = Promise.reject<A>(overReason)
  rejected.catch(() => undefined)
  return rejected
}
