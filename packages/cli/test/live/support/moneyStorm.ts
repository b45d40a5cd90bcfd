import { startOpenAiStandIn } from "@kiln/testing/openai"
import { runJson, until } from "@kiln/service-lab"
import { audit } from "../../crash/support/audit.ts"
import { Client } from "../../crash/support/Client.ts"
import { Lab, leaseMs, type Server } from "../../crash/support/Lab.ts"
import type { MakeStore } from "../../crash/support/LabStore.ts"
import { randomFrom } from "../../crash/support/random.ts"
import { RetryingClient } from "../../crash/support/RetryingClient.ts"
import { sum } from "../../crash/support/stormChecks.ts"
import { exactSum } from "./exactSum.ts"
import type { LivePoll } from "./LiveClient.ts"
import { exportedJobs, exportedRows, ledgerOf, moneyViolations, type Settled, totalOf } from "./moneyChecks.ts"
import { scriptFaults } from "./moneyFaults.ts"
import { costOf, type Price, prices, type PricedWish, wishesFrom } from "./moneyWishes.ts"
import { labEnvironment } from "./openAiEnvironment.ts"

export interface MoneyStormOptions {
  /** Live jobs; a tenth as many sandbox jobs are among them. */
  readonly jobs: number
  readonly killEveryMs: number
  /** How often at most; it ends earlier when all jobs are finished. */
  readonly kills: number
  /** Decides the jobs, what goes wrong with the calls, and whom the kills hit; in what they are hit is up to the machine. */
  readonly seed: number
  readonly makeStore: MakeStore
}

export interface MoneyStormReport {
  readonly seed: number
  readonly kills: number
  readonly accepted: number
  readonly done: number
  readonly failed: number
  readonly sandbox: number
  readonly charges: number
  readonly calls: number
  readonly attempts: number
  readonly lostWorkers: number
  readonly seconds: number
  /** What all done live jobs must cost, and what each account of it comes to. */
  readonly expected: string
  readonly ledger: string
  readonly jsonl: string
  readonly csv: string
  /** Of audio alone: an image's poll contains no billing. */
  readonly expectedOfAudio: string
  readonly polled: string
  readonly violations: ReadonlyArray<string>
}

const clients = 16
const hourMs = 3_600_000

const engine = ({ jobs }: MoneyStormOptions) => ({
  queueCap: 0,
  pollIntervalMs: 200,
  orphanIntervalMs: 1_000,
  upload: { leaseDurationMs: leaseMs },
  // More than it can cost a job: what this is about is what they cost in money.
  attempts: { maxLostWorkers: jobs, backoffBaseMs: 50 },
  circuit: { failingPauseMs: 250, failingPauseMaxMs: 250 },
})

/** Kills one of the processes, again and again, and starts another in its place. Says how often. */
const killAgainAndAgain = async (
  servers: Array<Server>,
  start: () => Promise<Server>,
  { killEveryMs, kills, seed }: MoneyStormOptions,
  isOver: () => boolean,
): Promise<number> => {
  const random = randomFrom(seed + 1)
  for (let killed = 0; ; killed++) {
    // Not to wait for anything: this is the pace of the storm.
    await new Promise((resolve) => setTimeout(resolve, killEveryMs * (0.5 + random())))
    if (killed >= kills || isOver()) return killed
    const [victim] = servers.splice(Math.floor(random() * servers.length), 1)
    await victim?.crash()
    servers.push(await start())
  }
}

/** What an operator does, while all of it runs. */
const commandsOf = (lab: Lab) => {
  const kiln = (...args: ReadonlyArray<string>) => runJson(args, { KILN_DATA_DIR: lab.dataDirectory, ...lab.store.env })
  return {
    setPrices: async ({ image, input_audio_second, input_character, output_token }: Price) => {
      const audio = ["--input-audio-second", input_audio_second, "--input-character", input_character]
      await kiln("price", "set", "svc-audio", ...audio, "--output-token", output_token)
      await kiln("price", "set", "svc-image", "--image", image)
    },
    sandboxKey: async (): Promise<string> => {
      const scopes = ["--scope", "audio.create", "--scope", "images.create"]
      return (await kiln("key", "create", "--project", "lab", "--mode", "test", ...scopes)).key
    },
  }
}

/** Does it for every item, so many at once. */
const forEachOf = async <A>(items: ReadonlyArray<A>, use: (item: A) => Promise<void>): Promise<void> => {
  const left = [...items].reverse()
  const work = async () => {
    for (let item = left.pop(); item !== undefined; item = left.pop()) await use(item)
  }
  await Promise.all(Array.from({ length: clients }, work))
}

/** The jobs that are finished, once all are. */
const untilFinished = (lab: Lab, jobs: number) =>
  until(async () => {
    // Not more often: it reads every row.
    await new Promise((resolve) => setTimeout(resolve, 500))
    const { jobs: rows } = await lab.store.rows()
    return rows.filter(({ status }) => status === "done" || status === "failed").length >= jobs ? true : undefined
  }, hourMs)

/**
 * Two processes on one store, one of them killed and replaced again and again, a provider that fails in every way, and a
 * price that changes in the middle, while clients that retry create live jobs and sandbox jobs. Then every account of the
 * money is held against what the jobs must cost.
 */
export const stormOfMoney = async (options: MoneyStormOptions): Promise<MoneyStormReport> => {
  await using standIn = await startOpenAiStandIn()
  await using lab = await Lab.open(options.makeStore)
  const startedAt = performance.now()
  const random = randomFrom(options.seed)
  const wishes = wishesFrom(random, options.jobs)
  scriptFaults(standIn, random, options.jobs)
  const commands = commandsOf(lab)
  await commands.setPrices(prices[0])
  const sandboxKey = await commands.sandboxKey()
  const start = () => lab.start({ engine: engine(options), env: { ...labEnvironment(standIn), KILN_CONCURRENCY: "8" } })
  const servers = await Promise.all([start(), start()])
  const byMode = {
    live: new RetryingClient(() => servers.map(({ client }) => client), random),
    sandbox: new RetryingClient(() => servers.map(({ listening }) => new Client(listening.url, sandboxKey)), random),
  }
  let over = false
  const killing = killAgainAndAgain(servers, start, options, () => over)
  const accepted: Array<{ readonly wish: PricedWish; readonly ids: ReadonlyArray<string> }> = []
  const settled: Array<Settled> = []
  const work = async () => {
    try {
      for (const price of prices) {
        if (price !== prices[0]) await commands.setPrices(price)
        await forEachOf(
          wishes.filter((wish) => wish.price === price),
          async (wish) => void accepted.push({ wish, ids: await byMode[wish.mode].create(wish) }),
        )
      }
      await untilFinished(lab, wishes.length)
    } finally {
      over = true
    }
  }
  const [kills, worked] = await Promise.allSettled([killing, work()])
  const failures = [kills, worked].flatMap((end) => (end.status === "rejected" ? [String(end.reason)] : []))
  await forEachOf(accepted, async ({ ids, wish }) => {
    const poll = (await byMode[wish.mode].finished(wish, ids[0] ?? "")) as LivePoll
    settled.push({ wish, ids, poll })
  })
  const found = await audit(lab)
  const ledger = await ledgerOf(lab)
  const paid = settled.filter(({ poll, wish }) => wish.mode === "live" && poll.status === "done")
  const live = found.jobs.filter(({ mode }) => mode === "live")
  return {
    seed: options.seed,
    kills: kills.status === "fulfilled" ? kills.value : 0,
    accepted: accepted.length,
    done: live.filter(({ status }) => status === "done").length,
    failed: live.filter(({ status }) => status === "failed").length,
    sandbox: found.jobs.length - live.length,
    charges: ledger.length,
    calls: standIn.calls().length,
    attempts: sum(live.map(({ attempts }) => attempts)),
    lostWorkers: sum(live.map(({ lostWorkers }) => lostWorkers)),
    seconds: Math.round((performance.now() - startedAt) / 1_000),
    expected: exactSum(paid.map(({ wish }) => costOf(wish))),
    ledger: totalOf(ledger),
    jsonl: totalOf(await exportedJobs(lab)),
    csv: totalOf(await exportedRows(lab)),
    expectedOfAudio: exactSum(paid.filter(({ wish }) => wish.kind !== "image").map(({ wish }) => costOf(wish))),
    polled: exactSum(settled.map(({ poll }) => poll.billing?.amount ?? "0")),
    violations: [...failures, ...moneyViolations(wishes, settled, found, ledger, standIn.calls())],
  }
}
