import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"

const launcher = join(import.meta.dirname, "../../../cli/bin/kiln.mjs")

export interface RunningService extends AsyncDisposable {
  readonly url: string
  /** A test key with all scopes. */
  readonly key: string
}

/** The real service as a separate process, on a free port, with SQLite and files in its own directory. */
export const startService = async (settings: Readonly<Record<string, string>> = {}): Promise<RunningService> => {
  const directory = await mkdtemp(join(tmpdir(), "kiln-client-"))
  const child = spawn(process.execPath, ["--conditions=@kiln/source", launcher, "serve", "--json"], {
    env: {
      PATH: process.env["PATH"],
      PORT: "0",
      KILN_DATA_DIR: directory,
      KILN_DRAIN_SECONDS: "0",
      ...settings,
    },
    stdio: ["ignore", "pipe", "pipe"],
  })
  let log = ""
  child.stderr.setEncoding("utf8").on("data", (text: string) => (log += text))
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const exited = once(child, "exit")
      child.kill("SIGTERM")
      await exited
    }
    await rm(directory, { recursive: true, force: true })
  }
  for await (const line of createInterface({ input: child.stdout })) {
    const { first_key, url } = JSON.parse(line)
    return { url, key: first_key.key, [Symbol.asyncDispose]: stop }
  }
  await stop()
  throw new Error(`the service did not start: ${log}`)
}
