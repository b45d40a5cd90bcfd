import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"

/** A running service, and a key for it. */
export interface Service {
  readonly url: string
  readonly key: string
  /** Stops the service and removes its data. */
  readonly stop: () => Promise<void>
}

const launcher = join(import.meta.dirname, "../../packages/cli/bin/kiln.mjs")

/** The environment without the user's settings, so that the demo cannot write to a real installation. */
const environment = (dataDirectory: string): NodeJS.ProcessEnv => ({
  ...Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(KILN_.*|PORT|HOST|PUBLIC_URL|DATABASE_URL)$/.test(name)),
  ),
  PORT: "0",
  KILN_DATA_DIR: dataDirectory,
  KILN_DRAIN_SECONDS: "0",
})

/** Shuts down a child that is still running, and waits for its exit. */
const end = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, "exit")
  child.kill("SIGTERM")
  await exited
}

/** Reads the line in which `serve --json` prints its address. */
const listening = async (child: ChildProcess): Promise<{ readonly url: string; readonly key: string }> => {
  let complaint = ""
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (complaint += text))
  if (child.stdout === null) throw new Error("the service has no output to read")
  for await (const line of createInterface({ input: child.stdout })) {
    const { first_key, url } = JSON.parse(line)
    return { url, key: first_key.key }
  }
  throw new Error(`the service did not start: ${complaint.trim()}`)
}

/** Starts a service on a free port with an empty data directory. `stop` works even before it is ready. */
export const startService = (): { readonly ready: Promise<Service>; readonly stop: () => Promise<void> } => {
  const directory = mkdtemp(join(tmpdir(), "kiln-demo-"))
  const started = directory.then((path) =>
    spawn(process.execPath, [launcher, "serve", "--json"], {
      env: environment(path),
      stdio: ["ignore", "pipe", "pipe"],
      // Ctrl-C goes to the demo, which then stops the service itself.
      detached: true,
    }),
  )
  const close = async () => {
    await end(await started)
    await rm(await directory, { recursive: true, force: true })
  }
  let closing: Promise<void> | undefined
  const stop = () => (closing ??= close())
  const ready = started.then(async (child) => ({ ...(await listening(child)), stop }))
  return { ready, stop }
}
