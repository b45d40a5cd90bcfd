import { existsSync, writeFileSync } from "node:fs"
import { type AddressInfo, createServer } from "node:net"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { describe, expect, it, vi } from "vitest"
import { checkNames, thoroughChecks } from "../../src/doctor/Examination.ts"
import { ProcessIo } from "../../src/ProcessIo.ts"
import { runKiln } from "../../src/program.ts"
import { sqliteInstallation } from "../support/installations.ts"
import { refusalOf, runInProcess } from "../support/runInProcess.ts"
import { diagnose, named } from "./diagnose.ts"
import { makeWell } from "./wellInstallation.ts"

/** A server that accepts connections and never answers. */
const silentServer = async () => {
  const server = createServer(() => undefined)
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve))
  return { port: (server.address() as AddressInfo).port, [Symbol.dispose]: () => void server.close() }
}

describe("kiln doctor", () => {
  it("prints each check as it finishes, not all of them at the end", async () => {
    await using installation = await sqliteInstallation()
    await makeWell(installation)
    using s3 = await silentServer()
    let printed = ""
    const io = {
      environment: {
        ...installation.env,
        KILN_BLOBS: `s3://files?endpoint=http://127.0.0.1:${s3.port}`,
        AWS_ACCESS_KEY_ID: "a",
        AWS_SECRET_ACCESS_KEY: "b",
      },
      write: (text: string) => void (printed += text),
      writeError: () => undefined,
      readInput: () => Promise.resolve(""),
      inputIsTerminal: false,
    }
    const doctor = Effect.runFork(Effect.provideService(runKiln(["doctor"]), ProcessIo, io))
    // The bucket does not answer for a long time, and everything before it is known.
    await vi.waitFor(() => expect(printed).toMatch(/^ok +deliveries /m), { timeout: 60_000 })
    expect(printed).toMatch(/^ok +database /m)
    expect(doctor.pollUnsafe(), printed).toBeUndefined()
    await Effect.runPromise(Fiber.interrupt(doctor))
  })

  it("--quick leaves out what reads everything, and says so", async () => {
    await using installation = await sqliteInstallation()
    await makeWell(installation)
    const diagnosis = await diagnose(installation.env, "--quick")
    expect(diagnosis.ok).toBe(true)
    const left = diagnosis.checks.filter(({ summary }) => summary === "left out by --quick")
    expect(left.map(({ name, status }) => [name, status])).toEqual(thoroughChecks.map((name) => [name, "skipped"]))
    expect(named(diagnosis, "ok")).toContain("installation")
  })

  it("--only runs the named checks", async () => {
    await using installation = await sqliteInstallation()
    await makeWell(installation)
    const names = async (only: string) =>
      (await diagnose(installation.env, "--only", only)).checks.map(({ name }) => name)
    expect(await names("queue, keys")).toEqual(["keys", "queue"])
    expect(await names("blobs")).toEqual(["blobs"])
    expect(await names("settings")).toEqual(["settings"])
    const { stdout } = await runInProcess(["doctor", "--only", "migrations"], installation.env)
    expect(stdout).toMatch(/^ok +migrations +all \d+ applied\n$/)
    expect(await refusalOf(["doctor", "--only", "queue,nonsense"], installation.env, 2)).toContain(
      `--only: there is no check nonsense; the checks are ${checkNames.join(", ")}`,
    )
  })

  it("makes nothing where KILN_BLOBS names a directory without files", async () => {
    await using installation = await sqliteInstallation()
    await makeWell(installation)
    const place = join(installation.directory, "mistyped")
    const diagnosis = await diagnose(
      { ...installation.env, KILN_BLOBS: `file:${place}` },
      "--only",
      "installation,blobs",
    )
    expect(diagnosis.checks.map(({ name }) => name)).toEqual(["installation", "blobs"])
    expect(named(diagnosis, "warning")).toEqual(["installation"])
    expect(existsSync(place)).toBe(false)
  })

  it("--only reports what keeps the named checks from running", async () => {
    await using installation = await sqliteInstallation()
    writeFileSync(join(installation.directory, "kiln.db"), "no database".repeat(100))
    expect(named(await diagnose(installation.env, "--only", "queue"), "problem")).toEqual(["database"])
    const invalid = { ...installation.env, PORT: "x" }
    expect(named(await diagnose(invalid, "--only", "queue"), "problem")).toEqual(["settings"])
  })
})
