import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync } from "node:fs"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { afterEach, describe, expect, it, type ProvidedContext, vi } from "vitest"
import { setup } from "../src/globalSetup.ts"
import { labDirectory } from "../src/labDirectory.ts"
import { askFor } from "../src/postgresServer.ts"
import { ask } from "./support/clients.ts"

type Provided = ProvidedContext["kilnPostgres"]

const start = async () => {
  const values: Array<Provided> = []
  const stop = await setup({ provide: (_, value) => void values.push(value as Provided) })
  const [provided = { url: "" }] = values
  return { provided, [Symbol.asyncDispose]: stop }
}

/** Returns the directories of this process's clusters. */
const directories = (): ReadonlyArray<string> =>
  [tmpdir(), "/dev/shm"]
    .filter((base) => existsSync(base))
    .flatMap((base) => readdirSync(base).filter((name) => name.startsWith("kiln-postgres-")))
    .filter((name) => name.includes(`-${process.pid}-`))

afterEach(() => vi.unstubAllEnvs())

const withoutServer = (): void => {
  vi.stubEnv("DATABASE_URL", "")
  vi.stubEnv("KILN_TEST_DATABASE_URL", "")
}

describe("the global setup", () => {
  it("starts one server on the first request, and leaves nothing behind", async () => {
    withoutServer()
    let url = ""
    {
      await using run = await start()
      expect(directories()).toEqual([])
      const answers = await Promise.all([askFor(run.provided), askFor(run.provided)])
      url = answers[0]
      expect(answers[1]).toBe(url)
      expect(directories()).not.toEqual([])
      expect(await ask(url, "SELECT 1")).toBe(1)
    }
    expect(directories()).toEqual([])
    await expect(ask(url, "SELECT 1")).rejects.toMatchObject({ code: "ECONNREFUSED" })
  })

  it("does not respond to clients without the token", async () => {
    withoutServer()
    await using run = await start()
    if (!("port" in run.provided)) throw new Error("a server that is already running")
    const socket = connect(run.provided.port, "127.0.0.1")
    socket.write("guess")
    expect(await text(socket)).toBe("")
    expect(directories()).toEqual([])
  })

  const urls: ReadonlyArray<readonly [string, string, string | undefined]> = [
    ["postgres://a/b", "", "postgres://a/b"],
    ["postgres://a/b", "postgresql://c/d", "postgresql://c/d"],
    ["postgres://a/b", "sqlite:x", "postgres://a/b"],
    ["sqlite:x", "", undefined],
  ]
  it.each(urls)("with DATABASE_URL=%s and KILN_TEST_DATABASE_URL=%s uses %s", async (url, testUrl, used) => {
    vi.stubEnv("DATABASE_URL", url)
    vi.stubEnv("KILN_TEST_DATABASE_URL", testUrl)
    await using run = await start()
    expect("url" in run.provided ? run.provided.url : undefined).toBe(used)
  })

  it("removes only the directories of dead processes", async () => {
    withoutServer()
    const alive = labDirectory({})
    const { pid } = spawnSync(process.execPath, ["--version"])
    const dead = alive.replace(`-${process.pid}-`, `-${pid}-`)
    mkdirSync(join(dead, "data"), { recursive: true })
    await using _ = await start()
    expect(existsSync(dead)).toBe(false)
    expect(existsSync(alive)).toBe(true)
    spawnSync("rm", ["-r", alive])
  })
})
