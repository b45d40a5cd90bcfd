import { type ChildProcess, spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { Effect, type Scope } from "effect"

/** A real process that runs a script, and is killed when its scope closes. */
export interface Child {
  readonly process: ChildProcess
  /** Resolves to the next line it prints. Rejects if it exits first. */
  readonly line: () => Promise<string>
  /** Resolves to the unread lines when the process has exited. */
  readonly rest: () => Promise<ReadonlyArray<string>>
  /** Resolves to its exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>
}

export const child = (script: URL, ...args: ReadonlyArray<string>): Effect.Effect<Child, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => start(script, args)),
    ({ ended, process: running }) =>
      Effect.promise(() => {
        running.kill("SIGKILL")
        return ended
      }),
  )

const start = (script: URL, args: ReadonlyArray<string>): Child => {
  const running = spawn(process.execPath, ["--conditions=@kiln/source", fileURLToPath(script), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  const lines = createInterface({ input: running.stdout })
  const iterator = lines[Symbol.asyncIterator]()
  const ended = new Promise<number | string>((resolve) =>
    running.once("close", (code, signal) => resolve(code ?? signal ?? "unknown")),
  )
  return {
    process: running,
    line: async () => {
      const { done, value } = await iterator.next()
      if (done === true) throw new Error(`${script.href} ended: ${await ended}`)
      return value
    },
    rest: async () => {
      await ended
      const rest: Array<string> = []
      for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) rest.push(next.value)
      return rest
    },
    ended,
  }
}
