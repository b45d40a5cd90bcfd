import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Exit, Fiber } from "effect"
import { describe, expect, it } from "vitest"
import { type Program, runProgram } from "./runProgram.ts"

const usual: Program = {
  command: process.execPath,
  args: [],
  input: new Uint8Array(0),
  install: "install it",
  timeLimitMs: 60_000,
  maxOutputBytes: 1_000,
}

/** A program in JavaScript. */
const node = (code: string, program: Partial<Program> = {}) => runProgram({ ...usual, args: ["-e", code], ...program })

const failureOf = <A, E>(effect: Effect.Effect<A, E>): Promise<E> => Effect.runPromise(Effect.flip(effect))

const temporaryDirectory = () => {
  const path = mkdtempSync(join(tmpdir(), "kiln-program-"))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Repeats a call until it returns a value. */
const until = async <A>(ask: () => A | undefined): Promise<A> => {
  for (const givesUpAt = performance.now() + 20_000; performance.now() < givesUpAt;) {
    const answer = ask()
    if (answer !== undefined) return answer
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  throw new Error(`nothing within 20 s: ${ask.toString()}`)
}

/** Programs that write their process id to a file: one never exits, and one also ignores SIGTERM. */
const endless = (file: string): Partial<Program> => shell(`echo $$ > '${file}'; exec sleep 60`)
const stubborn = (file: string): Partial<Program> => shell(`trap '' TERM; echo $$ > '${file}'; exec sleep 60`)
const wordy = (file: string): Partial<Program> => shell(`echo $$ > '${file}'; exec yes`)
const shell = (script: string): Partial<Program> => ({ command: "/bin/sh", args: ["-c", script] })
const readPid = (file: string): number | undefined =>
  existsSync(file) ? Number(readFileSync(file, "utf8")) || undefined : undefined

it("passes the input and returns the output", async () => {
  const input = new TextEncoder().encode("$(whoami) `id` ; ä")
  const output = await Effect.runPromise(node("process.stdin.pipe(process.stdout)", { input }))
  expect(Buffer.from(output).toString()).toBe("$(whoami) `id` ; ä")
})

it("keeps the environment to itself", async () => {
  process.env["KILN_TEST_SECRET"] = "secret"
  try {
    const output = await Effect.runPromise(node("process.stdout.write(Object.keys(process.env).sort().join())"))
    expect(Buffer.from(output).toString()).toBe("LANG,PATH")
  } finally {
    delete process.env["KILN_TEST_SECRET"]
  }
})

describe("its failures", () => {
  it("a program that is missing breaks the provider, and says what to do", async () => {
    expect(await failureOf(runProgram({ ...usual, command: "kiln-no-such-program" }))).toMatchObject({
      _tag: "ProviderBroken",
      reason: "configuration",
      detail: expect.stringMatching(/^cannot run kiln-no-such-program \((ENOENT|EACCES)\): install it$/),
    })
  })

  it("so does a file that cannot be run", async () => {
    using directory = temporaryDirectory()
    const command = join(directory.path, "program")
    writeFileSync(command, "", { mode: 0o600 })
    expect(await failureOf(runProgram({ ...usual, command }))).toMatchObject({
      _tag: "ProviderBroken",
      detail: `cannot run ${command} (EACCES): install it`,
    })
  })

  it("an exit code also breaks it, with the last line of output", async () => {
    const code = `console.error("first"); console.error("no model"); process.exitCode = 3`
    expect(await failureOf(node(code))).toMatchObject({
      _tag: "ProviderBroken",
      reason: "configuration",
      detail: `${process.execPath} ended with exit code 3: no model`,
    })
  })

  it("a program that ends without reading its input is judged by its exit code", async () => {
    const input = new Uint8Array(4_000_000)
    expect(await failureOf(node("process.exit(4)", { input }))).toMatchObject({
      _tag: "ProviderBroken",
      detail: expect.stringContaining("ended with exit code 4"),
    })
  })

  it("a program that is killed can be retried", async () => {
    expect(await failureOf(node(`process.kill(process.pid, "SIGKILL")`))).toMatchObject({
      _tag: "ProviderFailure",
      errorCode: "provider_unavailable",
      retry: true,
      detail: `${process.execPath} was ended by SIGKILL`,
    })
  })

  it("so can one that cannot be started", async () => {
    expect(await failureOf(runProgram({ ...usual, args: ["a\0b"] }))).toMatchObject({
      _tag: "ProviderFailure",
      errorCode: "provider_unavailable",
    })
  })

  it("a program that never stops writing is stopped, and the request rejected", async () => {
    using directory = temporaryDirectory()
    const file = join(directory.path, "pid")
    expect(await failureOf(runProgram({ ...usual, ...wordy(file) }))).toMatchObject({
      _tag: "ProviderFailure",
      errorCode: "provider_rejected",
      retry: false,
      detail: "/bin/sh wrote more than 1000 bytes",
    })
    expect(isAlive(await until(() => readPid(file)))).toBe(false)
  })

  it("exactly the allowed bytes are accepted", async () => {
    expect(await Effect.runPromise(node(`process.stdout.write("x".repeat(1000))`))).toHaveLength(1_000)
  })
})

describe("a program that does not end", () => {
  it("is ended by the time limit", async () => {
    using directory = temporaryDirectory()
    const file = join(directory.path, "pid")
    expect(await failureOf(runProgram({ ...usual, ...endless(file), timeLimitMs: 1_500 }))).toMatchObject({
      errorCode: "provider_unavailable",
      retry: true,
      detail: "/bin/sh was not done after 1.5 s",
    })
    expect(isAlive(await until(() => readPid(file)))).toBe(false)
  })

  it.each([
    ["when it is asked to", endless],
    ["although it does not listen", stubborn],
  ])("ends with its caller, %s", async (_, program) => {
    using directory = temporaryDirectory()
    const file = join(directory.path, "pid")
    const fiber = Effect.runFork(runProgram({ ...usual, ...program(file) }))
    const pid = await until(() => readPid(file))
    expect(isAlive(pid)).toBe(true)
    const startedAt = performance.now()
    await Effect.runPromise(Fiber.interrupt(fiber))
    expect(isAlive(pid)).toBe(false)
    expect(performance.now() - startedAt).toBeLessThan(30_000)
    expect(Exit.hasInterrupts(await Effect.runPromise(Fiber.await(fiber)))).toBe(true)
  })
})
