import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { brotliCompressSync } from "node:zlib"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { axeViolations, chromiumPath, openBrowser, openPage, type Browser } from "@kiln/pages/chromium"
import { measurePaint } from "@kiln/pages/paint"
import { sendResponse, toRequest } from "../src/effect.ts"
import { assets } from "../src/page/assets.ts"
import { openPictureWorld } from "./support/pictureWorld.ts"
import { canary, openWorld, type World } from "./support/world.ts"

const images = join(import.meta.dirname, "../../../docs/images")

/** Writes the pictures of the documentation: `pnpm pictures`. */
const writesPictures = process.env["KILN_SCREENSHOTS"] === "write"

const desktop = { viewport: { width: 1_280, height: 800 } } as const
const looks = {
  "light, desktop": { ...desktop, colorScheme: "light" },
  "dark, desktop": { ...desktop, colorScheme: "dark" },
  "light, phone": { viewport: { width: 390, height: 800 }, colorScheme: "light", hasTouch: true },
  "dark, phone": { viewport: { width: 390, height: 800 }, colorScheme: "dark", hasTouch: true },
} as const

it("the page is small: at most 150 kB compressed", () => {
  const bytes = Object.values(assets).reduce((sum, text) => sum + brotliCompressSync(text).length, 0)
  expect(bytes).toBeLessThan(150_000)
  // A build that lost its content would be small, too.
  expect(bytes).toBeGreaterThan(20_000)
})

/** Serves a dashboard on a free port. */
const serveWorld = async (world: World) => {
  const server = createServer((message, response) => {
    const respond = async () => {
      const answer = await world.fetch(await toRequest(message))
      await sendResponse(response, answer, message.method === "HEAD")
    }
    void respond()
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  return {
    server,
    base: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    [Symbol.dispose]: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

const missing = chromiumPath === undefined ? " (skipped: no chromium on the path)" : ""

// Without Chromium there is no page to walk; the name of the suite says so.
describe.skipIf(chromiumPath === undefined)(`the operator's page${missing}`, () => {
  let world: World
  let browser: Browser
  let host: Awaited<ReturnType<typeof serveWorld>>
  let base: string
  let failedId: string

  beforeAll(async () => {
    world = await openWorld("sqlite")
    const { engine } = world
    await Promise.all(
      Array.from({ length: 12 }, (_, n) => engine.submitAndWait("echo", { text: `${n}` }, { project: "acme" })),
    )
    const failed = await Promise.all(
      [1, 2, 3].map((n) =>
        engine.submitAndWait("echo", { text: `fail ${canary} ${n}` }, { project: "night-batch", tags: ["nightly"] }),
      ),
    )
    failedId = failed[0]?.id ?? ""
    await Promise.all(
      Array.from({ length: 7 }, (_, n) =>
        engine.submit("echo", { text: `${n}` }, { project: "waits", delayMs: 3_600_000 }),
      ),
    )
    await engine.schedules.set("nightly", { kind: "echo", cron: "0 3 * * *", request: { text: "x" } })
    host = await serveWorld(world)
    base = host.base
    browser = await openBrowser()
  })
  afterAll(async () => {
    await browser.close()
    host[Symbol.dispose]()
    await world[Symbol.asyncDispose]()
  })

  const open = (options: Parameters<typeof openPage>[2] = {}) => openPage(browser, base, options)

  it("asks for a token, refuses a wrong one, and shows what its role may do", async () => {
    const { close, page, troubles } = await open(desktop)
    await page.goto(base)
    await page.getByLabel("Token").fill("kiln_ops_wrong")
    await page.getByRole("button", { name: "Sign in" }).click()
    await page.getByRole("alert").filter({ hasText: "unknown, revoked or expired" }).waitFor()
    expect(await axeViolations(page)).toEqual([])
    await page.getByLabel("Token").fill(world.tokens.view)
    await page.keyboard.press("Enter")
    await page.getByRole("heading", { name: "Overview" }).waitFor()
    await page.getByRole("link", { name: "Types", exact: true }).click()
    await page.getByRole("row", { name: /^echo / }).waitFor()
    expect(await page.getByRole("button", { name: "Pause" }).count()).toBe(0)
    await page.getByRole("button", { name: "Sign out" }).click()
    await page.getByLabel("Token").waitFor()
    expect(troubles).toEqual([])
    await close()
  })

  it.each(Object.entries(looks))(
    "has no accessibility violation in any view, and fits the screen: %s",
    async (_, look) => {
      const { close, page, troubles } = await open({ ...look, token: world.tokens.operate })
      const views = [
        "",
        "jobs",
        "jobs?status=failed&tag=nightly",
        `jobs/${failedId}`,
        "jobs/job_x",
        "failures",
        "types",
        "workers",
      ]
      const others = ["projects", "keys", "schedules", "deliveries", "switches", "prices", "audit"]
      for (const view of [...views, ...others]) {
        await page.goto(`${base}#/${view}`)
        await page.locator("main h1, main [role=alert]").first().waitFor()
        await page.locator("main .loading").waitFor({ state: "detached" })
        expect([view, await axeViolations(page)]).toEqual([view, []])
        const isWider = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)
        expect([view, isWider]).toEqual([view, false])
      }
      // The job that does not exist answers 404, which the browser logs.
      expect(troubles.filter((trouble) => !trouble.includes("404"))).toEqual([])
      await close()
    },
  )

  it("finds the jobs that failed, and retries all of them after a dry run, once", async () => {
    const { close, page, troubles } = await open({ ...desktop, token: world.tokens.operate })
    await page.goto(base)
    await page.getByRole("link", { name: "content_rejected" }).click()
    await page.getByRole("row").nth(3).waitFor()
    expect(await page.getByRole("row").count()).toBe(1 + 3)
    await page.getByRole("button", { name: "Retry all matching" }).click()
    const dialog = page.getByRole("dialog")
    await dialog.getByText("Retry 3 jobs?").waitFor()
    await dialog.getByText(/kiln job retry --type echo --error-code content_rejected/).waitFor()
    expect(await axeViolations(page)).toEqual([])
    await dialog.getByRole("button", { name: "Retry 3 jobs" }).dblclick()
    await dialog.getByText("3 jobs retried.").waitFor()
    await dialog.getByRole("button", { name: "Close" }).click()
    await expect
      .poll(async () => (await world.engine.operator.list({ errorCode: "content_rejected" })).jobs.length)
      .toBe(6)
    expect(troubles).toEqual([])
    await close()
  })

  it("shows callers' data only behind a click, to those who may see it", async () => {
    const plain = await open({ ...desktop, token: world.tokens.operate })
    await plain.page.goto(`${base}#/jobs/${failedId}`)
    await plain.page.getByText("A token with the role content shows them.").waitFor()
    expect(await plain.page.content()).not.toContain(canary)
    await plain.close()
    const { close, page } = await open({ ...desktop, token: world.tokens.content })
    await page.goto(`${base}#/jobs/${failedId}`)
    await page.getByRole("button", { name: "Show content" }).waitFor()
    expect(await page.content()).not.toContain(canary)
    await page.getByRole("button", { name: "Show content" }).click()
    await page.getByText(canary).first().waitFor()
    expect(await axeViolations(page)).toEqual([])
    await close()
  })

  it("pauses a type by keyboard alone, confirmed in words, and finds why its jobs wait in two clicks", async () => {
    const { close, page, troubles } = await open({ ...desktop, token: world.tokens.operate })
    await page.goto(`${base}#/types`)
    const pause = page.getByRole("button", { name: "Pause", exact: true })
    await pause.waitFor()
    await pause.focus()
    await page.keyboard.press("Enter")
    await page.getByRole("dialog").getByText("Pause echo: 7 waiting jobs will not start").waitFor()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.getByRole("dialog").waitFor({ state: "detached" })
    await page.getByRole("button", { name: "Resume", exact: true }).waitFor()
    expect((await world.engine.operator.board()).pausedKinds).toEqual(["echo"])
    await page.goto(`${base}#/`)
    await page.getByRole("link", { name: "the type echo is paused" }).first().click()
    await page.getByRole("button", { name: "Resume", exact: true }).waitFor()
    await world.engine.operator.resume("echo")
    expect(troubles).toEqual([])
    await close()
  })

  it("starts waiting jobs at another time or now, one and all that match", async () => {
    const submit = (n: number) =>
      world.engine.submit("echo", { text: `${n}` }, { project: "later", delayMs: 3_600_000 })
    const [first] = await Promise.all([1, 2, 3].map(submit))
    const { close, page, troubles } = await open({ ...desktop, token: world.tokens.operate })
    const dialog = page.getByRole("dialog")
    await page.goto(`${base}#/jobs/${first?.id}`)
    await page.getByText("its start in 60 min").waitFor()
    await page.getByRole("button", { name: "Reschedule", exact: true }).click()
    await dialog.getByLabel("New start").fill("")
    expect(await dialog.getByRole("button", { name: "Reschedule the job" }).isDisabled()).toBe(true)
    const inFiveHours = new Date(Date.now() + 5 * 3_600_000 - new Date().getTimezoneOffset() * 60_000)
    await dialog.getByLabel("New start").fill(inFiveHours.toISOString().slice(0, 16))
    await dialog.getByText(`kiln job reschedule ${first?.id} --at 20`).waitFor()
    expect(await axeViolations(page)).toEqual([])
    await dialog.getByRole("button", { name: "Reschedule the job" }).click()
    await page.getByText("its start in 5 h").waitFor()
    await page.getByRole("button", { name: "Priority", exact: true }).click()
    await dialog.getByLabel("New priority").selectOption("low")
    await dialog.getByText(`kiln job reschedule ${first?.id} --priority low`).waitFor()
    expect(await axeViolations(page)).toEqual([])
    await dialog.getByRole("button", { name: "Change the priority" }).click()
    await page.locator("dd", { hasText: /^low$/ }).waitFor()
    await page.getByRole("button", { name: "Promote", exact: true }).click()
    await dialog.getByRole("button", { name: "Promote the job" }).click()
    await page.getByRole("heading", { name: "echo done" }).waitFor()
    expect(await page.getByRole("button", { name: "Reschedule", exact: true }).count()).toBe(0)

    await page.goto(`${base}#/jobs?project=prj_later&status=queued`)
    await page.getByRole("button", { name: "Promote all matching" }).click()
    await dialog.getByRole("button", { name: "Promote 2 jobs" }).click()
    await dialog.getByText("2 jobs promoted.").waitFor()
    await dialog.getByRole("button", { name: "Close" }).click()
    await page.getByText("No jobs match.").waitFor()
    await page.goto(`${base}#/jobs?project=prj_later&type=echo`)
    await page.getByRole("button", { name: "Cancel all matching" }).click()
    // Nothing is left to confirm.
    await dialog.getByText("Cancel 0 jobs?").waitFor()
    expect(await dialog.getByRole("button").allTextContents()).toEqual(["Close"])
    expect(troubles).toEqual([])
    await close()
  })

  it("shows the section of a view on a phone, and a way on from a job that is gone", async () => {
    const { close, page } = await open({ ...looks["dark, phone"], token: world.tokens.view })
    await page.goto(`${base}#/audit`)
    const section = page.getByRole("link", { name: "Audit", exact: true })
    await section.waitFor()
    await expect.poll(() => section.evaluate((link) => link.getBoundingClientRect().right <= innerWidth)).toBe(true)
    await page.goto(`${base}#/jobs/job_x`)
    await page.getByRole("link", { name: "All jobs" }).click()
    await page.getByRole("heading", { name: "Jobs" }).waitFor()
    await close()
  })

  it("goes on when the service was unreachable for a while", async () => {
    const { close, page } = await open({ ...desktop, token: world.tokens.view })
    await page.goto(base)
    await page.getByRole("heading", { name: "Overview" }).waitFor()
    await page.context().setOffline(true)
    host.server.closeAllConnections()
    await page.getByText("not updating").waitFor({ timeout: 60_000 })
    await page.context().setOffline(false)
    await page.getByText("not updating").waitFor({ state: "detached", timeout: 60_000 })
    expect(await page.getByRole("heading", { name: "Queues" }).isVisible()).toBe(true)
    await close()
  })

  // A shared machine says little about time: measured only on request, for docs/guides/dashboard.md.
  it.runIf(process.env["KILN_PAINT"] === "measure")("is painted soon", { timeout: 300_000 }, async () => {
    const options = { ...desktop, token: world.tokens.operate }
    const views = ["", "jobs", `jobs/${failedId}`, "failures", "types", "workers", "projects", "keys", "schedules"]
    for (const view of [...views, "deliveries", "switches", "prices", "audit"]) {
      const figures = await measurePaint(browser, base, `${base}#/${view}`, "main h1", options)
      console.log(view, figures)
      expect(figures.firstPaintMs).toBeGreaterThan(0)
    }
  })

  it("shows what jobs wait for as a filter, and how far it looked", async () => {
    const { close, page, troubles } = await open({ ...desktop, token: world.tokens.operate })
    await page.goto(`${base}#/jobs`)
    await page.getByLabel("Waits for").selectOption("start_delayed")
    await page.getByRole("button", { name: "Show", exact: true }).click()
    await page.getByText("Looked at all 7 jobs that may match.").waitFor()
    expect(await page.getByRole("row").count()).toBe(1 + 7)
    await page.getByLabel("Job id, or part").fill("zzzz")
    await page.getByRole("button", { name: "Show", exact: true }).click()
    await page.getByText("No jobs match.").waitFor()
    expect(await axeViolations(page)).toEqual([])
    expect(troubles).toEqual([])
    await close()
  })

  // Pictures are committed, and written only on request.
  it.runIf(writesPictures)("is pictured in the documentation", { timeout: 120_000 }, async () => {
    const { jobId, world: pictured } = await openPictureWorld()
    await using _ = pictured
    using host = await serveWorld(pictured)
    for (const [name, view] of [
      ["dashboard-overview", ""],
      ["dashboard-job", `jobs/${jobId}`],
    ] as const) {
      for (const colorScheme of ["light", "dark"] as const) {
        const look = { viewport: { width: 1_120, height: 700 }, colorScheme, token: pictured.tokens.operate }
        const { close, page } = await openPage(browser, host.base, look)
        await page.goto(`${host.base}#/${view}`)
        await page.locator("main h1").waitFor()
        await page.waitForTimeout(1_000)
        const picture = await page.screenshot({ path: join(images, `${name}-${colorScheme}.png`) })
        expect(picture.length).toBeLessThan(120_000)
        await close()
      }
    }
  })
})
