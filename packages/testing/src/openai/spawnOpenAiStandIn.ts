import { spawn, type ChildProcess } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import type { OpenAiEndpoint } from "./Endpoint.ts"
import { readJournal } from "./Journal.ts"
import type { RecordedOpenAiCall } from "./RecordedCall.ts"
import type { OpenAiStandInOptions } from "./startOpenAiStandIn.ts"

/** A stand-in in a separate process: it outlives its clients, and can be killed. */
export interface OpenAiStandInProcess {
  /** The base URL for clients; ends in `/v1`. */
  readonly url: string
  readonly pid: number
  /** Returns all calls so far, read from the journal, including calls before a kill and calls of earlier stand-ins with the same journal. */
  readonly calls: () => ReadonlyArray<RecordedOpenAiCall>
  /**
   * Resolves once `times` complete requests (default 1) were received, according to the journal. Rejects if the process ends
   * before.
   */
  readonly untilCalled: (endpoint: OpenAiEndpoint, times?: number) => Promise<void>
  /** Sends SIGKILL: running calls stay `running` in the journal. */
  readonly kill: () => Promise<void>
  /** Sends SIGTERM: running calls become `failed`. */
  readonly close: () => Promise<void>
  readonly [Symbol.asyncDispose]: () => Promise<void>
}

/** Options of a stand-in process. */
export interface StandInProcessOptions extends OpenAiStandInOptions {
  /** Required, because only the journal survives a killed process. */
  readonly journal: string
}

/** Interval between reads of the journal. */
const LOOK_EVERY_MS = 20

// The same extension as this file: TypeScript in the sources, JavaScript once built.
const program = fileURLToPath(new URL("./main.ts", import.meta.url)).replace(/ts$/, import.meta.url.slice(-2))

/**
 * Starts `main` in a separate process, which also ends when this one does. Behaviors are part of the options, which are sent
 * as JSON, so answers that contain bytes are not supported.
 */
export const spawnOpenAiStandIn = async (options: StandInProcessOptions): Promise<OpenAiStandInProcess> => {
  const child = spawn(process.execPath, [program, JSON.stringify(options), "--until-stdin-ends"], {
    stdio: ["pipe", "pipe", "inherit"],
  })
  const { pid, url } = await announced(child)
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (hasEnded()) return
    const exit = once(child, "exit")
    child.kill(signal)
    await exit
  }
  const close = (): Promise<void> => end("SIGTERM")
  return {
    url,
    pid,
    calls: () => readJournal(options.journal),
    untilCalled: async (endpoint, times = 1) => {
      const called = (): number =>
        readJournal(options.journal).filter((call) => call.endpoint === endpoint && call.request !== undefined).length
      while (called() < times) {
        if (hasEnded()) throw new Error(`the stand-in ended while a test waited for ${times} calls of ${endpoint}`)
        await sleep(LOOK_EVERY_MS)
      }
    },
    kill: () => end("SIGKILL"),
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Reads the first line that a stand-in prints. */
const announced = async (child: ChildProcess): Promise<{ readonly url: string; readonly pid: number }> => {
  if (child.stdout === null) throw new Error("the stand-in has no output")
  for await (const line of createInterface({ input: child.stdout })) {
    return JSON.parse(line) as { readonly url: string; readonly pid: number }
  }
  throw new Error("the stand-in ended before it listened")
}
