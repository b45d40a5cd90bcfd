import { mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { once } from "node:events"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { chromiumPath, openBrowser, openPage, type Browser, type Page } from "@kiln/pages/chromium"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { fixtures } from "@kiln/conformance"
import { builtInKinds, createEngine } from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { JobStore, KeyDirectory, ScheduleStore, Switchboard } from "@kiln/core/ports"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs } from "@kiln/testing"
import { makeDashboard, sendResponse, toRequest } from "../src/effect.ts"

const { jobId, keyId, newJob, newLiveJob, noLimits, projectId } = fixtures

const pause = (ms: number) => Effect.promise(() => new Promise((resolve) => setTimeout(resolve, ms)))

const claim = (kind: string, leaseDurationMs: number) =>
  Effect.flatMap(JobStore, (jobs) =>
    jobs.claimJobs({
      runnable: [{ kind, kindVersion: 1, mode: "sandbox" }],
      limits: noLimits,
      limit: 1,
      leaseDurationMs,
      maxLostWorkers: 3,
    }),
  )

/** A worker whose speech provider has no quota left. */
const publishWorker = Effect.gen(function* () {
  const board = yield* Switchboard
  yield* board.publishWorker({
    workerId: "req_01k9q3w5zr8x2v6m4n7p0t1c3d",
    liveKinds: ["speech_synthesis"],
    providers: [{ provider: "speech", status: "paused", reason: "quota", since: Date.now() - 60_000 }],
    scope: {
      slots: 8,
      share: 4,
      perProject: 0,
      forcedOff: [],
      kinds: [
        {
          kind: "speech_synthesis",
          fromVersion: 1,
          toVersion: 1,
          modes: ["live", "sandbox"],
          providers: ["speech"],
          switches: ["ai", "audio"],
          limit: null,
          rates: [],
        },
      ],
    },
    ttlMs: 3_600_000,
  })
})

/** A live job that reserves nearly all of its project's cap, before a switch is left off. */
const fillCap = Effect.gen(function* () {
  const board = yield* Switchboard
  for (const name of ["ai", "audio"]) yield* board.setSwitch(name, true)
  yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "0.000015" } })
  yield* board.activatePrice("svc-audio", true)
  yield* board.setSpendCap(projectId(1), { currency: "usd", day: "0.00015", month: null })
  const [created] = yield* (yield* JobStore).createJobs([newLiveJob(1)])
  expect(created?._tag).toBe("Created")
  yield* board.setSwitch("ai", false)
})

/** A job that loses each of its workers, and one whose worker hangs beyond its lease. */
const loseWorkers = Effect.gen(function* () {
  const jobs = yield* JobStore
  yield* jobs.createJobs([newJob(2, { kind: "transcription" })])
  for (let n = 0; n < 4; n++) {
    yield* claim("transcription", 5)
    yield* pause(20)
  }
  yield* jobs.createJobs([newJob(3, { kind: "image_generation" })])
  yield* claim("image_generation", 5)
  yield* pause(20)
})

const createProjects = Effect.gen(function* () {
  const directory = yield* KeyDirectory
  yield* directory.createProject({ id: projectId(1), name: "acme" })
  yield* directory.createProject({ id: projectId(9), name: "flooder" })
})

const flood = Effect.gen(function* () {
  const jobs = yield* JobStore
  const many = Array.from({ length: 120 }, (_, n) => newJob(1_000 + n, { projectId: projectId(9), keyId: keyId(9) }))
  yield* jobs.createJobs(many)
})

const refuseSchedule = Effect.gen(function* () {
  const schedule = {
    kind: "speech_synthesis",
    request: {},
    owner: { projectId: projectId(1), keyId: keyId(1), mode: "sandbox" },
    priority: "normal",
    timing: { cron: "0 7 * * *", timeZone: "UTC" },
    missed: "once",
    paused: false,
    last: null,
    refusal: "the spend cap is reached",
  }
  yield* (yield* ScheduleStore).writeSchedule("digest", 0, { nextAt: Date.now(), document: JSON.stringify(schedule) })
})

const findings = [
  {
    check: "disk",
    status: "problem" as const,
    summary: "the disk of the database is nearly full",
    remedy: "free space, or move KILN_DATA_DIR",
    findings: [],
  },
]

/** Each trouble: the links to click from the overview, and the words that tell. */
const troubles: ReadonlyArray<
  readonly [trouble: string, clicks: ReadonlyArray<(page: Page) => Promise<void>>, words: RegExp]
> = [
  ["a disk that is nearly full", [], /the disk of the database is nearly full/],
  ["a provider without quota", [], /speech.*paused.*quota/s],
  [
    "a poison job",
    [(page) => page.getByRole("link", { name: "attempts_exhausted" }).click(), (page) => openJob(page, jobId(2))],
    /3 lost workers/,
  ],
  ["a project that floods", [(page) => page.getByRole("link", { name: /^Ready/ }).click()], /flooder.*flooder/s],
  [
    "a worker that hangs",
    [(page) => page.locator("a.figure", { hasText: "Retrying" }).click(), (page) => openJob(page, jobId(3))],
    /Waits for.*another worker|Waits for.*no running worker/s,
  ],
  [
    "a switch left off",
    [(page) => page.getByRole("link", { name: "the switch ai is off" }).first().click()],
    /ai.*off/s,
  ],
  [
    "a spend cap that is reached",
    [(page) => page.locator(".card", { hasText: "Spending" }).getByRole("link").first().click()],
    /0\.00015/,
  ],
  [
    "a schedule whose jobs are refused",
    [(page) => page.getByRole("link", { name: "Schedules" }).last().click()],
    /the spend cap is reached/,
  ],
]

const openJob = (page: Page, id: string): Promise<void> => page.locator(`a[title="${id}"]`).click()

const missing = chromiumPath === undefined ? " (skipped: no chromium on the path)" : ""

// Without Chromium there is no page to walk; the name of the suite says so.
describe.skipIf(chromiumPath === undefined)(`on call${missing}`, () => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-troubles-"))
  let engine: Awaited<ReturnType<typeof open>>
  let server: ReturnType<typeof createServer>
  let browser: Browser
  let base: string

  const open = () =>
    createEngine({
      store: sqliteStore({ path: join(directory, "kiln.db") }),
      blobs: memoryBlobs(),
      kinds: builtInKinds(),
      providers: { sandbox: sandboxProviders() },
      log: false,
      autoStart: false,
    })

  beforeAll(async () => {
    engine = await open()
    const context = embeddedContext(engine)
    const plant = Effect.all([createProjects, publishWorker, fillCap, loseWorkers, flood, refuseSchedule])
    await Effect.runPromise(Effect.provideContext(plant, context))
    const handle = await Effect.runPromise(
      Effect.provideContext(
        makeDashboard({
          authorize: () => Effect.succeed({ name: "on call", roles: ["operate"] }),
          findings: Effect.succeed(findings),
          version: undefined,
        }),
        context,
      ),
    )
    server = createServer((message, response) => {
      const respond = async () => {
        const request = await toRequest(message)
        const answer = await Effect.runPromise(
          handle({ request, remoteAddress: undefined }, new URL(request.url).pathname),
        )
        await sendResponse(response, answer, message.method === "HEAD")
      }
      void respond()
    }).listen(0, "127.0.0.1")
    await once(server, "listening")
    base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    browser = await openBrowser()
  })
  afterAll(async () => {
    await browser.close()
    server.close()
    server.closeAllConnections()
    await engine.stop()
    rmSync(directory, { recursive: true, force: true })
  })

  it.each(troubles)("%s is found from the overview in at most three clicks", async (_, clicks, words) => {
    expect(clicks.length).toBeLessThanOrEqual(3)
    const { close, page } = await openPage(browser, base, { viewport: { width: 1_280, height: 800 } })
    await page.goto(base)
    await page.getByRole("heading", { name: "Queues" }).waitFor()
    await page.getByText("the disk of the database is nearly full").waitFor()
    for (const click of clicks) await click(page)
    await expect.poll(() => page.locator("main").innerText(), { timeout: 30_000 }).toMatch(words)
    await close()
  })
})
