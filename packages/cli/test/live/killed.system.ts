import { join } from "node:path"
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest"
import {
  type OpenAiEndpoint,
  type OpenAiStandInProcess,
  readJournal,
  spawnOpenAiStandIn,
  type StandInProcessOptions,
  trickle,
} from "@kiln/testing/openai"
import { temporaryDirectory } from "@kiln/service-lab"
import { audit } from "../crash/support/audit.ts"
import type { Edit } from "../crash/fixtures/editModules.ts"
import { Lab, type Server } from "../crash/support/Lab.ts"
import { pauseAfterCheckpoint, pauseBeforeCommit } from "../crash/support/pauses.ts"
import { LiveClient, type LiveJob, type LiveKind } from "./support/LiveClient.ts"
import { labEnvironment } from "./support/openAiEnvironment.ts"

/** Kills the provider or the worker, as in a power failure, at every point of a call. */

const engine = {
  pollIntervalMs: 50,
  orphanIntervalMs: 100,
  // While nobody listens, any number of calls may fail.
  attempts: { maxFailures: 1_000, backoffBaseMs: 500, backoffMaxMs: 1_000 },
  circuit: { failingPauseMs: 500, failingPauseMaxMs: 500 },
}

/** Some ten processes are started, one after the other. */
const patience = { timeout: 300_000 }

const steps = {
  speech: ["speech"],
  transcription: ["transcription"],
  turn: ["transcription", "chat", "speech"],
} as const
const items = { speech: 1, transcription: 1, turn: 2 } as const
type AudioKind = keyof typeof steps

describe("killed in the middle of a live job", patience, () => {
  const files = temporaryDirectory()
  const journal = join(files.path, "calls.jsonl")
  let lab: Lab
  let standIn: OpenAiStandInProcess

  const startStandIn = async (options: Partial<StandInProcessOptions> = {}) => {
    standIn = await spawnOpenAiStandIn({ ...options, journal })
    return standIn
  }
  const start = async (edits: ReadonlyArray<Edit> = []): Promise<Server & { readonly live: LiveClient }> => {
    const server = await lab.start({ engine, edits, env: labEnvironment(standIn) })
    return Object.assign(server, { live: new LiveClient(server.listening.url, lab.live.key) })
  }

  beforeAll(async () => {
    lab = await Lab.open()
  })
  afterEach(() => standIn?.close())
  afterAll(async () => {
    await lab?.[Symbol.asyncDispose]()
    files[Symbol.dispose]()
  })

  const callsOf = ({ id }: LiveJob, endpoint: OpenAiEndpoint): number =>
    readJournal(journal).filter((call) => call.endpoint === endpoint && call.headers.idempotencyKey?.startsWith(id))
      .length

  /** One result, one charge, at most one call of each step in an attempt. */
  const expectOnce = async (client: LiveClient, kind: AudioKind, job: LiveJob) => {
    const poll = await client.finished(job)
    expect(poll).toMatchObject({ status: "done", error_code: null, billing: { status: "charged" } })
    expect(poll.billing?.line_items).toHaveLength(items[kind])
    const row = await lab.job(job.id)
    expect(row.files).toHaveLength(kind === "transcription" ? 0 : 1)
    const calls = steps[kind].map((endpoint) => callsOf(job, endpoint))
    for (const count of calls) expect(count).toBeLessThanOrEqual(row.attempts)
    const { chargedJobs, damaged } = await audit(lab)
    expect(chargedJobs.filter((id) => id === job.id)).toEqual([job.id])
    expect(damaged).toEqual([])
    return { calls, row }
  }

  it("the process that accepts: every job continues in the next one, and none is paid twice", async () => {
    // The second transcription is the voice turn's, whose reply then comes byte by byte.
    await startStandIn({
      usually: { chat: trickle(100) },
      script: { speech: [trickle(100)], transcription: [trickle(100)] },
    })
    await using server = await start()
    const { live } = server
    const speech = await live.any("speech", "Hello.")
    const transcription = await live.any("transcription", "")
    await standIn.untilCalled("speech")
    await standIn.untilCalled("transcription")
    const turn = await live.any("turn", "Be brief.")
    await standIn.untilCalled("chat")
    const { port } = new URL(standIn.url)
    await standIn.kill()
    const cut = standIn.calls().filter(({ outcome }) => outcome === "running")
    expect(cut.map(({ endpoint }) => endpoint)).toEqual(["speech", "transcription", "chat"])
    await startStandIn({ port: Number(port) })

    for (const [kind, job] of [
      ["speech", speech],
      ["transcription", transcription],
      ["turn", turn],
    ] as const) {
      const { calls, row } = await expectOnce(live, kind, job)
      expect(row.failures, "cut off, and perhaps refused a connection").toBeGreaterThanOrEqual(1)
      expect(row.lostWorkers).toBe(0)
      expect(calls).toEqual(kind === "turn" ? [1, 2, 1] : [2])
    }
  })

  /** Says by which job a point was reached, and then waits there with whatever job. */
  const pause = (point: string, jobId: string): string =>
    `globalThis.crashLab.pause(${point} + " " + ${jobId}); globalThis.crashLab.pause(${point});`
  const answered = `Effect.sync(() => { ${pause('"answered " + name', "this.#job.id")} })`
  const kept = `Effect.sync(() => { ${pause('"kept " + name', "this.#job.id")} })`
  /** At the end of an attempt, by the kind of its job; and on both sides of a checkpoint. */
  const edits: ReadonlyArray<Edit> = [
    {
      ...pauseBeforeCommit,
      replace: `if (end._tag === "Completed") { ${pause('"commit " + attempt.claim.job.kind', "attempt.claim.job.id")} } ${pauseBeforeCommit.find}`,
    },
    {
      ...pauseAfterCheckpoint,
      replace: `Effect.tap((value) => ${answered}.pipe(Effect.andThen(this.#keep(name, toKept(value))), Effect.andThen(${kept}))),`,
    },
  ]
  const victims: ReadonlyArray<readonly [point: string, kind: AudioKind & LiveKind, calls: ReadonlyArray<number>]> = [
    ["commit speech_synthesis", "speech", [2]],
    ["commit transcription", "transcription", [2]],
    ["answered transcribe", "turn", [2, 1, 1]],
    ["kept transcribe", "turn", [1, 1, 1]],
    ["answered reply", "turn", [1, 2, 1]],
    ["kept reply", "turn", [1, 1, 1]],
    ["commit voice_turn", "turn", [1, 1, 2]],
  ]

  it("the process that called, at every point between a response and its result: kept steps are not paid again", async () => {
    await startStandIn()
    let worker = await start(edits)
    for (const [point, kind, expected] of victims) {
      lab.hold(point)
      const job = await worker.live.any(kind, `until ${point}`)
      expect((await lab.reached(`${point} ${job.id}`)).pid).toBe(worker.pid)
      await worker.crash()
      lab.letGo(point)
      worker = await start(edits)
      const { calls, row } = await expectOnce(worker.live, kind, job)
      expect({ point, calls, attempts: row.attempts, lostWorkers: row.lostWorkers, failures: row.failures }).toEqual({
        point,
        calls: expected,
        attempts: 2,
        lostWorkers: 1,
        failures: 0,
      })
    }
  })
})
