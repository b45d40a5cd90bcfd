import { readFileSync } from "node:fs"
import { fixtures } from "@kiln/conformance"
import { JobStore, OperatorTokens, SecretStore } from "@kiln/core/ports"
import { formatApiKey } from "@kiln/core/domain"
import { withDelivery } from "@kiln/core/rules"
import { describe, expect, it } from "vitest"
import * as Effect from "effect/Effect"
import { seedEveryState } from "../support/copiedRecords.ts"
import { sqliteInstallation } from "../support/installations.ts"
import { writeSchedule } from "../support/scheduledRecords.ts"
import { runInProcess } from "../support/runInProcess.ts"

const guide = readFileSync(new URL("../../../../docs/guides/command-line.md", import.meta.url), "utf8")

/** Lines of the guide's shell blocks. */
const commands = [...guide.matchAll(/^```sh\n([^]*?)^```$/gm)].flatMap(([, block = ""]) => block.trim().split("\n"))

const { jobId, keyId, newJob } = fixtures
const tokenId = "tok_00000000000000000000000001"

/** Creates the records that the guide's placeholders stand for: jobs 50 and 51 have failed, 1 is queued and 4 is done. */
const seed = Effect.gen(function* () {
  yield* seedEveryState
  const jobs = yield* JobStore
  yield* jobs.createJobs([newJob(50, { request: { input: "Again." } })])
  const delivered = newJob(51)
  yield* jobs.createJobs([{ ...delivered, metadata: withDelivery({}) }])
  yield* jobs.cancelJobs([jobId(50), jobId(51)])
  yield* writeSchedule("nightly", 5_000)
  yield* (yield* OperatorTokens).createToken({
    id: tokenId,
    name: "a",
    roles: ["view"],
    secretHash: "x",
    expiresAt: null,
  })
  yield* (yield* SecretStore).getOrCreate("signing", new Uint8Array(32).fill(7))
})

const jobOf: Readonly<Record<string, string>> = {
  show: jobId(4),
  attempts: jobId(5),
  retry: jobId(50),
  signal: jobId(1),
  promote: jobId(1),
  reschedule: jobId(1),
  cancel: jobId(1),
  "erase-data": jobId(4),
}

const argumentsOf = (line: string): ReadonlyArray<string> =>
  line
    .replace(/^kiln /, "")
    .replace(/ < .*$/, "")
    .replace(/^(delivery retry) JOB_ID/, `$1 ${jobId(51)}`)
    .replace("JOB_ID", jobOf[line.split(" ")[2] ?? ""] ?? "")
    .replace("TOKEN_ID", tokenId)
    .replace("KEY_ID", keyId(1))
    .replace("--project default", "--project one")
    .replaceAll("'", "")
    .split(" ")

/** Commands that need a bucket, files or a service are run by other tests; here, they only have to exist. */
const needsFiles = (line: string): boolean =>
  line.includes("s3://") || line.startsWith("kiln blobs claim") || line.startsWith("kiln try")

describe("docs/guides/command-line.md", () => {
  it("shows commands that work, in its order", async () => {
    await using installation = await sqliteInstallation()
    await installation.use(seed)
    expect(commands.length).toBeGreaterThan(15)
    for (const line of commands) {
      expect(line).toMatch(/^kiln /)
      const isIdentify = line.startsWith("kiln key identify")
      const input = isIdentify ? formatApiKey("test", new Uint8Array(32)) : ""
      const { exit, stderr } = await runInProcess(
        [...argumentsOf(line), ...(needsFiles(line) ? ["--help"] : [])],
        installation.env,
        input,
      )
      // The key in the example does not exist here; everything else succeeds.
      expect({ line, exit, stderr }).toEqual({
        line,
        exit: isIdentify ? 1 : 0,
        stderr: isIdentify ? "kiln: no key of this installation has or had this secret\n" : "",
      })
    }
  })

  it("names every command", () => {
    for (const command of [
      "job list",
      "job show",
      "job retry",
      "job signal",
      "job promote",
      "job reschedule",
      "job cancel",
      "job erase-data",
      "queue stats",
      "audit list",
      "project erase",
    ])
      expect(guide).toContain(`kiln ${command}`)
  })
})

describe("docs/guides/self-hosting.md", () => {
  const page = readFileSync(new URL("../../../../docs/guides/self-hosting.md", import.meta.url), "utf8")
  const lines = [...page.matchAll(/^```sh\n([^]*?)^```$/gm)]
    .flatMap(([, block = ""]) => block.split("\n"))
    .flatMap((line) => /^(?:[A-Z_]+=\S+ )*kiln (.*)$/.exec(line)?.[1] ?? [])

  it("shows commands and flags that exist", async () => {
    expect(lines.length).toBeGreaterThan(6)
    for (const line of lines) {
      const { exit, stderr } = await runInProcess([...line.split(" "), "--help"])
      expect({ line, exit, stderr }).toEqual({ line, exit: 0, stderr: "" })
    }
  })
})
