import { requireNumber } from "../domain/givenValues.ts"
import { type Rate, rateProblem } from "../domain/Rate.ts"

/** Limits on the calls to one live provider. */
export interface ProviderBounds {
  /** Concurrent calls of one process; 0 sets no limit besides the worker's own concurrency. */
  readonly concurrency: number
  /** Milliseconds until a call times out: the request is aborted and the attempt fails. */
  readonly callLimitMs: number
  /** Calls of all processes together in a period of time; no limit if omitted. Jobs that find no call left wait at no cost. */
  readonly rate?: Rate
}

/**
 * A service that job kinds ask for answers, such as speech for a text. The declaration is complete: a provider of the port,
 * in either style, its limits, the check of its answers and its fake are all derived from it.
 */
export interface ProviderPort<Name extends string = string, Request = never, Answer = unknown> {
  /** The name of the port in providers, settings, metrics and `ask`. */
  readonly name: Name
  /** Default limits of a live provider. `settings.providers` overrides them. */
  readonly bounds: ProviderBounds
  /** Returns the answer as kinds may use it. Throws if it is invalid: the attempt then fails with `result_invalid`. */
  readonly check: (answer: unknown, request: Request) => Answer
  /** A valid answer. Fakes and the simulation return it unless they are told otherwise. */
  readonly example?: Answer
}

/** The options of `providerPort`. */
export interface ProviderPortOptions<Name extends string, Request, Answer> {
  /** A lower-case letter, then letters and digits; at most 64 characters. */
  readonly name: Name
  /** Default timeout of a call in milliseconds; 5 minutes if omitted. */
  readonly callLimitMs?: number
  /** Default limit of concurrent calls; 0, no limit, if omitted. */
  readonly concurrency?: number
  /** Default limit of calls in a period of time, of all processes together; no limit if omitted. */
  readonly rate?: Rate
  /**
   * Validates an answer and returns the value that kinds receive. The provider is third-party code, so the answer is `unknown`.
   * The types of both parameters declare the port: annotate `request`. Throw `resultInvalid("…")` to say what is wrong in the
   * log; of any other error the log names only the class, because its message may quote the answer.
   */
  readonly check: (answer: unknown, request: Request) => Answer
  /** A valid answer for fakes. */
  readonly example?: NoInfer<Answer>
}

/**
 * Declares a provider port. A request field named `audio` must be `AudioDetails`: providers that return an Effect receive it
 * with a stream of the file's content, providers that return a promise with the bytes.
 *
 * Throws `TypeError` for an invalid name or limit.
 *
 * @example
 * const embedding = providerPort({
 *   name: "embedding",
 *   callLimitMs: 30_000,
 *   check: (answer, _request: { readonly text: string }) => z.array(z.number()).parse(answer),
 * })
 */
export const providerPort = <const Name extends string, Request extends object, Answer>({
  callLimitMs = 300_000,
  check,
  concurrency = 0,
  example,
  name,
  rate,
}: ProviderPortOptions<Name, Request, Answer>): ProviderPort<Name, Request, Answer> => {
  if (!/^[a-z][A-Za-z0-9]{0,63}$/.test(name))
    throw new TypeError(`provider port "${name}": the name must be a lower-case letter followed by letters and digits`)
  if (typeof check !== "function") throw new TypeError(`provider port "${name}": check must be a function`)
  requireNumber(`callLimitMs of provider port "${name}"`, callLimitMs, { least: 1 })
  requireNumber(`concurrency of provider port "${name}"`, concurrency, { least: 0, whole: true })
  const problem = rate === undefined ? undefined : rateProblem(rate)
  if (problem !== undefined) throw new TypeError(`rate of provider port "${name}" ${problem}`)
  return {
    name,
    bounds: { concurrency, callLimitMs, ...(rate && { rate }) },
    check,
    ...(example === undefined ? {} : { example }),
  }
}
