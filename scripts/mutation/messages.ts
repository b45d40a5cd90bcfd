import { once } from "node:events"
import type { BroadcastChannel } from "node:worker_threads"

/** Hits of mutants, by their ids. */
type Hits = Record<string, number>

/** Which mutants the loading of the sources has hit, and which ones each test. */
export interface MutantCoverage {
  readonly static: Hits
  readonly perTest: Record<string, Hits>
}

/** One run of a test. */
export interface TestRun {
  readonly id: string
  readonly ms: number
  readonly error: string | undefined
}

/** From the runner to the worker that has loaded the tests. */
export type Request =
  | { readonly type: "dry" }
  | {
      readonly type: "mutant"
      readonly activeMutant: string
      readonly hitLimit: number | undefined
      /** Names of the test files to try first, in lower case and without an extension. */
      readonly ownTests: ReadonlyArray<string>
      /** All if `undefined`. */
      readonly tests: ReadonlyArray<string> | undefined
      /** How long each test took without a mutant, in milliseconds. */
      readonly times: ReadonlyMap<string, number>
    }

/** From the worker, once when it has loaded the tests and then after each request. */
export interface Response {
  readonly runs: ReadonlyArray<TestRun>
  /** Whether the test that failed also fails without the mutant now. */
  readonly isStained: boolean
  readonly coverage: MutantCoverage | undefined
}

/** Sends to the other thread. */
export const send = (channel: BroadcastChannel, message: Request | Response): void => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel between threads has no origin
  channel.postMessage(message)
}

/** Waits for the next message of the other thread. */
export const receive = async <Message extends Request | Response>(channel: BroadcastChannel): Promise<Message> => {
  const [event] = (await once(channel, "message")) as [MessageEvent<Message>]
  return event.data
}

declare module "vitest" {
  interface ProvidedContext {
    /** Name of the channel for requests and responses. */
    channel: string
    testFiles: ReadonlyArray<string>
    /** The mutant that is active while the sources are loaded; empty for none. */
    staticMutant: string
  }
}
