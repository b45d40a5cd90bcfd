import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { serve, until } from "@kiln/service-lab"
import type { Weapons } from "./shapes.ts"

export const targetNames = ["kiln serve", "Express"] as const
/** Variables of a process, besides its settings. */
export type Environment = Readonly<Record<string, string>>
export type TargetName = (typeof targetNames)[number]

/** A process under attack. */
export interface Target extends AsyncDisposable {
  readonly pid: number
  readonly port: number
  readonly weapons: Weapons
  /** The path at which another client checks its health. */
  readonly health: string
  /** Most resident memory so far, in megabytes; `undefined` where the system does not tell. */
  readonly peakMegabytes: () => number | undefined
  /** A failure of the process: it ended, or an exception was not caught. */
  readonly failure: () => string | undefined
}

const peakOf = (pid: number): number | undefined => {
  const status = `/proc/${pid}/status`
  if (!existsSync(status)) return undefined
  return Math.round(Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(status, "utf8"))?.[1]) / 1_024)
}

/** Resident memory that a target may reach, in megabytes. */
export const megabytesAllowed = 300

/**
 * V8 sizes its heap by the memory of the machine and collects nothing before it is needed: on 24 GB, an Express host holds 60 MB
 * of live objects and 500 MB in all. A host with a memory budget sets these two flags. The limit of the old space proves more
 * than a measurement does, because a process that needs more than that ends.
 */
const expressFlags = ["--max-old-space-size=160", "--max-semi-space-size=16"]

/** Signed URLs a target has made, path and query as its clients send them. */
const announceUploads = async (port: number, prefix: string, key: string): Promise<ReadonlyArray<string>> => {
  const announce = async () => {
    const response = await fetch(`http://127.0.0.1:${port}${prefix}/v1/audio/uploads`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ format: "wav", declared_seconds: 1 }),
    })
    const { pathname, search } = new URL(((await response.json()) as { readonly upload_url: string }).upload_url)
    return pathname + search
  }
  return Promise.all(Array.from({ length: 50 }, announce))
}

/** Documents are made when they are first asked for: once, and not while others are watched. */
const askForPages = async (port: number, prefix: string): Promise<void> => {
  for (const path of ["/", "/openapi.json", "/docs"]) {
    const response = await fetch(`http://127.0.0.1:${port}${prefix}${path}`)
    if (response.status !== 200) throw new Error(`${path} is ${response.status}`)
    await response.arrayBuffer()
  }
}

/** The program itself on SQLite and files, with its worker and every limit of requests off. */
const startServe = async (environment: Environment): Promise<Target> => {
  using cleanUp = new DisposableStack()
  // In memory where the system has such a place: what is measured is the service, not a disk that others write to as well.
  const memory = "/dev/shm"
  const directory = mkdtempSync(join(existsSync(memory) ? memory : tmpdir(), "kiln-connections-"))
  cleanUp.defer(() => rmSync(directory, { recursive: true, force: true }))
  const kiln = await serve({
    KILN_DATA_DIR: directory,
    KILN_RATE_LIMITS: "off",
    ...environment,
  })
  const port = Number(new URL(kiln.listening.url).port)
  const key = kiln.listening.first_key?.key ?? ""
  await askForPages(port, "")
  const uploads = await announceUploads(port, "", key)
  const whenDone = cleanUp.move()
  let hasEnded = false
  void kiln.ended(24 * 3_600_000).then(
    () => (hasEnded = true),
    () => (hasEnded = true),
  )
  return {
    pid: kiln.pid,
    port,
    weapons: { prefix: "", key, uploads },
    health: "/healthz",
    peakMegabytes: () => peakOf(kiln.pid),
    failure: () => (hasEnded ? `it ended: ${kiln.stderr.slice(-2_000)}` : undefined),
    [Symbol.asyncDispose]: async () => {
      await kiln[Symbol.asyncDispose]()
      whenDone.dispose()
    },
  }
}

/** A host whose process must not notice what clients do to kiln. */
const startExpress = async (environment: Environment): Promise<Target> => {
  const host = join(import.meta.dirname, "expressHost.ts")
  const child = spawn(process.execPath, ["--conditions=@kiln/source", ...expressFlags, host], {
    env: { PATH: process.env["PATH"], ...environment },
    stdio: ["pipe", "pipe", "pipe"],
  })
  let said = ""
  child.stdout.setEncoding("utf8").on("data", (text: string) => (said += text))
  child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text))
  let hasEnded = false
  const ended = once(child, "close").then(() => (hasEnded = true))
  const [line] = await until(() => /^\{"port".*\}$/m.exec(said) ?? (hasEnded ? [said] : undefined))
  if (hasEnded || line === undefined) throw new Error(`the host ended: ${said}`)
  const { key, port } = JSON.parse(line) as { readonly key: string; readonly port: number }
  const prefix = "/api/kiln"
  await askForPages(port, prefix)
  const uploads = await announceUploads(port, prefix, key)
  return {
    pid: child.pid ?? 0,
    port,
    weapons: { prefix, key, uploads },
    health: `${prefix}/healthz`,
    peakMegabytes: () => peakOf(child.pid ?? 0),
    failure: () =>
      hasEnded ? `the host ended: ${said.slice(-2_000)}` : /^\{"uncaught".*$/m.exec(said)?.[0].slice(0, 2_000),
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL")
      await ended
    },
  }
}

export const startTarget = (name: TargetName, environment: Environment = {}): Promise<Target> =>
  name === "Express" ? startExpress(environment) : startServe(environment)
