import { Effect } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { Switchboard } from "@kiln/core/ports"
import { answer, answerLate, type OpenAiStandIn, startOpenAiStandIn } from "@kiln/testing/openai"
import { runJson, until } from "@kiln/service-lab"
import { audit } from "../crash/support/audit.ts"
import { Lab, type Server } from "../crash/support/Lab.ts"
import { LiveClient, type LiveJob } from "./support/LiveClient.ts"
import { labEnvironment, longLease } from "./support/openAiEnvironment.ts"

/**
 * A switch is turned off while hundreds of live jobs run: nothing more is bought, nothing is lost, and the jobs continue later.
 */

const patience = { timeout: 240_000 }

describe("live jobs switched off in the middle", patience, () => {
  let lab: Lab
  let standIn: OpenAiStandIn
  let server: Server
  const jobs: Array<LiveJob> = []

  const start = async (calls: OpenAiStandIn, env: Readonly<Record<string, string>> = {}) =>
    lab.start({
      engine: { queueCap: 0 },
      env: { ...labEnvironment(calls), ...longLease, KILN_CONCURRENCY: "8", ...env },
    })
  const clientOf = ({ listening }: Server) => new LiveClient(listening.url, lab.live.key)
  const kiln = (line: string) => runJson(line.split(" "), { KILN_DATA_DIR: lab.dataDirectory })

  /** That many speech jobs, asked for by several clients at once. */
  const create = async (count: number) => {
    const client = clientOf(server)
    let left = count
    const ask = async () => {
      while (left-- > 0) jobs.push(await client.speak(`Number ${left}.`))
    }
    await Promise.all(Array.from({ length: 12 }, ask))
  }
  const statuses = async () => {
    const { jobs: rows } = await lab.store.rows()
    const count = (status: string) => rows.filter((row) => row.status === status).length
    return {
      rows,
      done: count("done"),
      failed: count("failed"),
      unfinished: count("queued") + count("processing"),
    }
  }
  const allDone = () =>
    until(async () => {
      await new Promise((resolve) => setTimeout(resolve, 250))
      return (await statuses()).unfinished === 0 ? true : undefined
    }, 150_000)

  /** Every job of before and of now: done, charged once, and paid for once. */
  const expectAllOnce = async () => {
    const { chargedJobs, damaged, jobs: rows, unnamed } = await audit(lab)
    const ids = jobs.map(({ id }) => id).toSorted()
    expect(rows.map(({ id }) => id).toSorted()).toEqual(ids)
    expect(rows.filter((row) => row.status !== "done" || row.failures > 0 || row.lostWorkers > 0)).toEqual([])
    expect(chargedJobs.toSorted()).toEqual(ids)
    const called = standIn
      .callsOf("speech")
      .map(({ headers }) => headers.idempotencyKey?.replace("-speech", "") ?? "nobody")
    expect(called.toSorted()).toEqual(ids)
    expect({ damaged, unnamed }).toEqual({ damaged: [], unnamed: [] })
  }

  /** From a second after that moment on, no call begins, for as long as is looked. */
  const expectNoCallsAfter = async (moment: number) => {
    await new Promise((resolve) => setTimeout(resolve, moment + 3_500 - Date.now()))
    expect(standIn.calls().filter(({ beganAtMs }) => beganAtMs > moment + 1_000)).toEqual([])
    expect(
      standIn.calls().filter(({ outcome }) => outcome !== "answered"),
      "what was under way was not wasted",
    ).toEqual([])
  }

  beforeAll(async () => {
    standIn = await startOpenAiStandIn()
    lab = await Lab.open()
    server = await start(standIn)
  }, 120_000)
  afterAll(async () => {
    await lab?.[Symbol.asyncDispose]()
    await standIn?.close()
  })

  it("by the command line, with 1,000 jobs queued: no call after one second, no job failed, and all done afterwards", async () => {
    standIn.usually("speech", answerLate(500))
    await create(1_000)
    await until(() => (standIn.calls().length >= 8 ? true : undefined))
    expect(await kiln("switch off ai")).toEqual({ switch: "ai", status: "off" })
    await expectNoCallsAfter(Date.now())
    const off = await statuses()
    expect(off).toMatchObject({ failed: 0, unfinished: 1_000 - off.done })
    expect(off.unfinished, "it was in the middle").toBeGreaterThan(300)
    expect(off.done).toBeGreaterThan(0)
    expect(
      off.rows.filter(({ held }) => held),
      "given back",
    ).toEqual([])
    const refusal = await clientOf(server).post("speech", { input: "One more." })
    expect([refusal.status, (await refusal.json()).error.details]).toEqual([403, { missing: ["switch:ai"] }])

    standIn.usually("speech", answer())
    await kiln("switch on ai")
    await allDone()
    await expectAllOnce()
  })

  it("between two steps of a voice turn: the next step does not start, and finished steps are kept", async () => {
    const before = jobs.length
    standIn.usually("transcription", answerLate(2_500))
    const client = clientOf(server)
    const turns: Array<LiveJob> = []
    for (let count = 0; count < 4; count++) turns.push(await client.any("turn", "Be brief."))
    await standIn.untilCalled("transcription", 4)
    // Not by the command line, which may take longer to start than the transcriptions take.
    const set = Effect.flatMap(Switchboard, (board) => board.setSwitch("audio", false))
    await Effect.runPromise(Effect.provide(set, lab.store.layer))
    const moment = Date.now()
    await standIn.untilEnded("transcription", 4)
    await expectNoCallsAfter(moment)
    expect(standIn.callsOf("chat")).toEqual([])
    for (const { id } of turns) {
      expect(await lab.job(id)).toMatchObject({ status: "processing", held: false, failures: 0 })
      expect(Object.keys((await lab.job(id)).checkpoints)).toEqual(["transcribe"])
    }
    await kiln("switch on audio")
    for (const turn of turns) expect(await client.finished(turn)).toMatchObject({ status: "done" })
    for (const endpoint of ["transcription", "chat"] as const) expect(standIn.callsOf(endpoint)).toHaveLength(4)
    expect(standIn.callsOf("speech")).toHaveLength(before + 4)
    jobs.push(...turns)
  })

  it("by the environment of one of two processes: that process calls no provider, even if it is the last one", async () => {
    standIn.usually("speech", answerLate(500))
    await using idle = await startOpenAiStandIn()
    const forced = await start(idle, { KILN_SWITCH_AI: "off" })
    const refusal = await clientOf(forced).post("speech", { input: "Hello?" })
    expect([refusal.status, (await refusal.json()).error.details]).toEqual([403, { missing: ["switch:ai"] }])
    await create(200)
    await until(async () => ((await statuses()).unfinished < 190 ? true : undefined))
    server.kill("SIGTERM")
    expect((await server.ended(60_000)).exit).toBe(0)
    await expectNoCallsAfter(Date.now())
    const off = await statuses()
    expect(off.failed).toBe(0)
    expect(off.unfinished).toBeGreaterThan(20)

    server = await start(standIn)
    await allDone()
    await expectAllOnce()
    expect(idle.calls()).toEqual([])
  })
})
