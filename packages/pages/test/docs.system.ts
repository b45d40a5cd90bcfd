import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { axeViolations, type Browser, chromiumPath, openBrowser, openPage } from "../src/chromium.ts"
import { openService, type Service } from "./support/service.ts"

/** Each scheme and each width once: colors do not depend on the width. */
const looks = {
  "light, desktop": { viewport: { width: 1_280, height: 900 }, colorScheme: "light" },
  "dark, phone": { viewport: { width: 390, height: 800 }, colorScheme: "dark", hasTouch: true },
} as const

/** Asks until an assertion holds, on a slow machine too. */
const until = <A>(ask: () => Promise<A> | A) => expect.poll(ask, { timeout: 60_000 })

const missing = chromiumPath === undefined ? " (skipped: no chromium on the path)" : ""

// Without Chromium there is no page to walk; the name of the suite says so.
describe.skipIf(chromiumPath === undefined)(`the documentation${missing}`, () => {
  let service: Service
  let browser: Browser

  beforeAll(async () => {
    service = await openService()
    browser = await openBrowser()
  })
  afterAll(async () => {
    await browser.close()
    await service[Symbol.asyncDispose]()
  })

  it.each(Object.entries(looks))(
    "has no accessibility violation in any view, and fits the screen: %s",
    async (_, look) => {
      const { close, page, troubles } = await openPage(browser, service.url, look)
      await page.goto(`${service.url}/docs`)
      const views = [
        "",
        "errors",
        "reference/createVoiceTurn",
        "reference/pollAudioJob",
        "reference/putFile",
        "guides/limits",
        "guides/client",
        "guides/self-hosting",
        "guides/configuration",
        "guides/errors",
      ]
      for (const view of views) {
        await page.goto(`${service.url}/docs#/${view}`)
        await page.locator("main h1").waitFor()
        expect([view, await axeViolations(page)]).toEqual([view, []])
        expect([view, await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)]).toEqual([
          view,
          false,
        ])
      }
      expect(troubles).toEqual([])
      await close()
    },
  )

  it("shows every endpoint of this installation, its custom kind too, and leads to the playground", async () => {
    const { close, page, troubles } = await openPage(browser, service.url, looks["light, desktop"])
    await page.goto(`${service.url}/docs`)
    await page.getByRole("heading", { name: "kiln", exact: true }).waitFor()
    const { paths } = (await (await fetch(`${service.url}/openapi.json`)).json()) as {
      readonly paths: Record<string, object>
    }
    const operations = Object.values(paths).flatMap((item) => Object.keys(item))
    expect(await page.locator(".operations li").count()).toBe(operations.length)
    await page
      .getByRole("navigation", { name: "Contents" })
      .getByRole("link", { name: "Create a text summary job" })
      .click()
    await page.getByRole("heading", { name: "Create a text summary job" }).waitFor()
    const sample = page.getByRole("region", { name: /^Request in/ })
    for (const language of ["curl", "TypeScript", "Python"]) {
      await page.getByRole("button", { name: language }).click()
      expect(await sample.textContent()).toContain("/v1/summaries")
    }
    await page.getByRole("link", { name: "Try it" }).click()
    await page.getByRole("form", { name: "Request" }).getByRole("textbox", { name: "Text" }).waitFor()
    expect(troubles).toEqual([])
    await close()
  })

  it("works without the service once it is open, by keyboard, and finds what one searches for", async () => {
    const { close, page, troubles } = await openPage(browser, service.url, looks["light, desktop"])
    await page.goto(`${service.url}/docs`)
    await page.getByRole("heading", { name: "kiln", exact: true }).waitFor()
    await page.context().setOffline(true)
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("content")
    await page.getByLabel("Search").fill("spend caps")
    await page
      .getByRole("link", { name: /limits/i })
      .first()
      .focus()
    await page.keyboard.press("Enter")
    await page.getByRole("navigation", { name: "On this page" }).getByRole("link", { name: "Spend caps" }).click()
    await until(() =>
      page.getByRole("heading", { name: "Spend caps", exact: true }).evaluate((at) => at.getBoundingClientRect().top),
    ).toBeLessThan(200)
    await page.getByLabel("Search").fill("")
    await page.getByRole("link", { name: "Errors", exact: true }).first().click()
    await page.getByLabel("Find a code").fill("429")
    const codes = page.locator(".errors dt code")
    await until(() => codes.allTextContents()).toContain("queue_full")
    expect(await codes.allTextContents()).not.toContain("invalid_json")
    expect(troubles).toEqual([])
    await close()
  })
})
