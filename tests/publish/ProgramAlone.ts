import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { freePort } from "../deploy/support/heldSocket.ts"

/** What one job of the program came to. */
export interface Ran {
  readonly status: string
  /** Length of the audio in bytes, as its URL gives it. */
  readonly audioBytes: number
  readonly stderr: string
}

/** Creates a sandbox job on a service, and downloads its audio. */
export const speakOnce = async (url: string, key: string): Promise<Pick<Ran, "status" | "audioBytes">> => {
  const authorization = `Bearer ${key}`
  const headers = { authorization, "content-type": "application/json", "idempotency-key": "once" }
  const created = await fetch(`${url}/v1/audio/speech`, { method: "POST", headers, body: `{"input":"Hello."}` })
  const { id } = (await created.json()) as { readonly id: string }
  for (;;) {
    const response = await fetch(`${url}/v1/jobs/${id}`, { headers: { authorization } })
    const { output, status } = (await response.json()) as { status: string; output?: { audio_url: string } }
    if (status === "failed") return { status, audioBytes: 0 }
    if (output !== undefined) {
      const audio = await fetch(output.audio_url)
      return { status, audioBytes: (await audio.bytes()).length }
    }
    await sleep(100)
  }
}

/** Waits for the address and the first key that `kiln serve --json` prints. */
export const readFirstLine = async (
  output: AsyncIterable<unknown>,
): Promise<{ readonly url: string; readonly first_key: { readonly key: string } }> => {
  let text = ""
  for await (const piece of output) {
    text += String(piece)
    const [line] = /^\{.*\}$/m.exec(text) ?? []
    if (line !== undefined) return JSON.parse(line)
  }
  throw new Error(`ended before it listened: ${text}`)
}

/** The environment without kiln's settings, Node's flags and the variables of the test run. npm may need the rest to reach its registry. */
const ownEnvironment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) =>
        !/^(NODE_OPTIONS|NODE_PATH|INIT_CWD|VITEST.*|npm_(?!config_).*|KILN_.*|DATABASE_URL|HOST|PUBLIC_URL)$/.test(
          name,
        ),
    ),
  )

/** Runs `npx kiln.tgz serve` in an empty directory, with one sandbox job. */
export const serveFromTarball = async (
  tarball: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<Ran> => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-alone-"))
  // npx runs programs with the Node it finds, which may be another one than this.
  const path = [dirname(process.execPath), process.env["PATH"]].join(delimiter)
  const args = ["--yes", "--prefer-offline", `file:${tarball}`, "serve", "--json"]
  const kiln = spawn("npx", args, {
    cwd: directory,
    env: { ...ownEnvironment(), PATH: path, PORT: String(freePort()), ...settings },
    stdio: ["ignore", "pipe", "pipe"],
    // npx forwards no signals, so the whole group gets them.
    detached: true,
  })
  let stderr = ""
  kiln.stderr.on("data", (piece) => (stderr += String(piece)))
  // npx ends first; its output closes with the program.
  const closed = once(kiln, "close")
  try {
    const { first_key, url } = await readFirstLine(kiln.stdout).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${stderr}`)
    })
    const spoken = await speakOnce(url, first_key.key)
    process.kill(-(kiln.pid ?? 0), "SIGTERM")
    await closed
    return { ...spoken, stderr }
  } finally {
    if (kiln.exitCode === null && kiln.signalCode === null) process.kill(-(kiln.pid ?? 0), "SIGKILL")
    rmSync(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
  }
}
