import { execFile } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { testEngine } from "@kiln/testing"
import { assertDone, assertFailed } from "@kiln/testing/assert"
import { describe, expect, it } from "vitest"
import { digestKind, syncDigests, type Team } from "./digest.ts"

const design: Team = { name: "design", timeZone: "Europe/Berlin", members: ["ada", "grace"] }
const sales: Team = { name: "sales", timeZone: "America/New_York", members: ["alan"] }

/** An engine in virtual time from a Thursday on, three days before Berlin changes to summer time, with all mails it sends. */
const setup = async () => {
  const mails: Array<{ readonly to: string; readonly text: string; readonly at: string }> = []
  const failingFor = new Set<string>()
  let headlines: ReadonlyArray<string> = ["Kilns are hot"]
  const kind = digestKind({
    findTeam: async (name) => [design, sales].find((team) => team.name === name),
    headlines: async () => headlines,
    sendMail: async (to, text) => {
      if (failingFor.delete(to)) throw new Error("the mail server is away")
      mails.push({ to, text, at: kiln.now().toISOString() })
    },
  })
  const kiln = await testEngine({ kinds: [kind], startAt: new Date("2030-03-28T00:00:00Z") })
  return { failingFor, kiln, mails, publish: (lines: ReadonlyArray<string>) => (headlines = lines) }
}

describe("the digest", () => {
  it("comes at seven in the team's time zone, on weekdays, before and after the change to summer time", async () => {
    const { kiln, mails } = await setup()
    await using _ = kiln
    await syncDigests(kiln, [design, sales])
    for (let hour = 0; hour < 5 * 24; hour++) await kiln.advance("1 hour")
    const timesFor = (member: string) => mails.filter(({ to }) => to === member).map(({ at }) => at)
    const berlin = ["2030-03-28T06:00:00.000Z", "2030-03-29T06:00:00.000Z", "2030-04-01T05:00:00.000Z"]
    expect(timesFor("ada")).toEqual(berlin)
    expect(timesFor("grace")).toEqual(berlin)
    expect(timesFor("alan")).toEqual([
      "2030-03-28T11:00:00.000Z",
      "2030-03-29T11:00:00.000Z",
      "2030-04-01T11:00:00.000Z",
    ])
  })

  it("is mailed once to each member, with the same headlines, when the mail server fails in the middle", async () => {
    const { failingFor, kiln, mails, publish } = await setup()
    await using _ = kiln
    failingFor.add("grace")
    // Inline, `submit` includes the retry. By then, there is more news.
    kiln.on("attempt_failed", () => publish(["Kilns are hot", "Clay is wet"]))
    const job = await kiln.submit("digest", { team: "design" })
    assertDone(job)
    expect(job.attempts).toBe(2)
    expect(mails.map(({ text, to }) => [to, text])).toEqual([
      ["ada", "Kilns are hot"],
      ["grace", "Kilns are hot"],
    ])
  })

  it("is not mailed without news", async () => {
    const { kiln, mails, publish } = await setup()
    await using _ = kiln
    publish([])
    const job = await kiln.submit("digest", { team: "design" })
    assertDone(job)
    expect(job.output).toEqual({ mails: 0 })
    expect(mails).toEqual([])
  })

  it("fails immediately for a team that was removed", async () => {
    const { kiln } = await setup()
    await using _ = kiln
    const job = await kiln.submit("digest", { team: "archive" })
    assertFailed(job, "team_unknown")
    expect(job.attempts).toBe(1)
  })

  it("has one schedule for each team, however often they are set, and none for a team that left", async () => {
    const { kiln, mails } = await setup()
    await using _ = kiln
    const names = async () => (await kiln.schedules.list()).map(({ name }) => name)
    await kiln.schedules.set("other", { kind: "digest", request: { team: "sales" }, everyMs: 7 * 86_400_000 })
    await syncDigests(kiln, [design, sales])
    await syncDigests(kiln, [design, sales])
    expect(await names()).toEqual(["digest:design", "digest:sales", "other"])
    await syncDigests(kiln, [sales])
    expect(await names()).toEqual(["digest:sales", "other"])
    await kiln.advance("1 day")
    expect(mails.map(({ to }) => to)).toEqual(["alan"])
  })

  it("skips mornings on which its schedule is paused", async () => {
    const { kiln, mails } = await setup()
    await using _ = kiln
    await syncDigests(kiln, [sales])
    await kiln.schedules.pause("digest:sales")
    await kiln.advance("1 day")
    // A process that starts sets the schedules again. This one stays paused.
    await syncDigests(kiln, [sales])
    await kiln.advance("3 hours")
    expect(mails).toEqual([])
    await kiln.schedules.resume("digest:sales")
    await kiln.advance("1 day")
    expect(mails).toHaveLength(1)
  })
})

describe("the program", () => {
  const run = async (...args: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
    const main = join(import.meta.dirname, "main.ts")
    const { stderr, stdout } = await promisify(execFile)(process.execPath, ["--conditions=@kiln/source", main, ...args])
    expect(stderr).toBe("")
    return stdout.trimEnd().split("\n")
  }

  it("keeps its schedules in the database, and digests come in real time too", async () => {
    const directory = mkdtempSync(join(tmpdir(), "kiln-digest-"))
    try {
      const first = [
        "digest:design 0 7 * * mon-fri in Europe/Berlin",
        "digest:sales 0 7 * * mon-fri in America/New_York",
        "to ada@example.com: News for design",
        "to grace@example.com: News for design",
      ]
      expect(await run(directory)).toEqual(first)
      expect(await run(directory)).toEqual(first)
      const lines = await run(directory, "--every", "1000")
      expect(lines.slice(0, 2)).toEqual(["digest:design every 1000 ms", "digest:sales every 1000 ms"])
      // What was running then is finished, and mailed, before the program ends.
      expect(lines).toContain("3 digests")
      expect(lines).toContain("to alan@example.com: News for sales")
    } finally {
      rmSync(directory, { recursive: true })
    }
  })
})
