import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"
import type { InstalledProject } from "./InstalledProject.ts"

/** The response of an installed `kiln serve` to one request, and how it shuts down. */
export interface ServedOnce {
  readonly status: number
  readonly body: string
  readonly exitCode: number | null
}

/** Starts the project's `kiln` on a free port, requests `path`, and shuts it down. */
export const serveOnce = async (
  project: InstalledProject,
  path: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<ServedOnce> => {
  const kiln = spawn(join(project.root, "node_modules/.bin/kiln"), ["serve"], {
    cwd: project.root,
    env: { ...project.environment, PORT: "0", KILN_DATA_DIR: join(project.root, "data"), ...settings },
    stdio: ["ignore", "pipe", "pipe"],
  })
  const ended = once(kiln, "exit")
  let said = ""
  kiln.stderr.setEncoding("utf8").on("data", (text: string) => (said += text))
  try {
    const url = await listening(createInterface({ input: kiln.stdout }))
    if (url === undefined) throw new Error(`kiln ended before it listened:\n${said}`)
    const response = await fetch(`${url}${path}`)
    const body = await response.text()
    kiln.kill("SIGTERM")
    const [exitCode]: ReadonlyArray<unknown> = await ended
    return { status: response.status, body, exitCode: typeof exitCode === "number" ? exitCode : null }
  } finally {
    kiln.kill("SIGKILL")
  }
}

const listening = async (lines: AsyncIterable<string>): Promise<string | undefined> => {
  for await (const line of lines) {
    const [, url] = /kiln is listening at (\S+)/.exec(line) ?? []
    if (url !== undefined) return url
  }
  return undefined
}
