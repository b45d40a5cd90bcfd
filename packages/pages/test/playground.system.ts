import type { Socket } from "node:net"
import { execFile } from "node:child_process"
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { axeViolations, type Browser, chromiumPath, openBrowser, openPage, type Page } from "../src/chromium.ts"
import { measurePaint } from "../src/paint.ts"
import { openService, type Service } from "./support/service.ts"
import { wavHeader } from "./support/wav.ts"

const desktop = { viewport: { width: 1_280, height: 900 } } as const
/** Each scheme and each width once: colors do not depend on the width. */
const looks = {
  "light, desktop": { ...desktop, colorScheme: "light" },
  "dark, phone": { viewport: { width: 390, height: 800 }, colorScheme: "dark", hasTouch: true },
} as const

const images = join(import.meta.dirname, "../../../docs/images")

/** Writes the pictures of the documentation: `pnpm pictures`. */
const writesPictures = process.env["KILN_SCREENSHOTS"] === "write"

/** Asks until an assertion holds, on a slow machine too. */
const until = <A>(ask: () => Promise<A> | A) => expect.poll(ask, { timeout: 60_000 })

const missing = chromiumPath === undefined ? " (skipped: no chromium on the path)" : ""

// Without Chromium there is no page to walk; the name of the suite says so.
describe.skipIf(chromiumPath === undefined)(`the playground${missing}`, () => {
  let service: Service
  let browser: Browser
  let directory: string

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "kiln-playground-"))
    service = await openService()
    browser = await openBrowser(
      "--use-fake-device-for-media-stream",
      "--use-fake-ui-for-media-stream",
      "--autoplay-policy=no-user-gesture-required",
    )
  })
  afterAll(async () => {
    await browser.close()
    await service[Symbol.asyncDispose]()
    rmSync(directory, { recursive: true, force: true })
  })

  const open = async (options: Parameters<typeof openPage>[2] = desktop, fragment = "") => {
    const opened = await openPage(browser, service.url, options)
    const sent: Array<string> = []
    opened.page.on("request", (request) => {
      const { pathname } = new URL(request.url())
      sent.push(`${request.method()} ${pathname.replace(/(?:job|upl|fil)_\w+/, "ID")}`)
    })
    await opened.page.goto(`${service.url}/${fragment}`)
    await opened.page.getByRole("form", { name: "Request" }).waitFor()
    return { ...opened, sent }
  }

  // A shared machine says little about time: measured only on request, for docs/guides/dashboard.md.
  it.runIf(process.env["KILN_PAINT"] === "measure")("is painted soon", { timeout: 300_000 }, async () => {
    for (const path of ["/", "/docs"]) {
      const figures = await measurePaint(browser, service.url, `${service.url}${path}`, "main", desktop)
      console.log(path, figures)
      expect(figures.firstPaintMs).toBeGreaterThan(0)
    }
  })

  const choose = (page: Page, kind: string) => page.locator(".kinds label", { hasText: kind }).click()
  const run = (page: Page, name: string) => page.getByRole("button", { name, exact: true }).click()
  const result = (page: Page) => page.getByRole("region", { name: "Result" })
  const untilStatus = (page: Page, status: string) => result(page).locator(".badge", { hasText: status }).waitFor()
  const isWider = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth > innerWidth)
  const useKey = async (page: Page, key: string) => {
    await run(page, "Use your own key")
    await page.getByLabel("API key").fill(key)
    await page.keyboard.press("Enter")
  }
  /** A WAV file of silence. */
  const silence = (name: string, bytes: number, bytesPerSecond: number): string => {
    const path = join(directory, name)
    writeFileSync(path, wavHeader(bytes - 44, bytesPerSecond))
    truncateSync(path, bytes)
    return path
  }

  it("runs all four kinds and a custom one with one throwaway key, and shows their results", async () => {
    const { close, page, sent, troubles } = await open()
    await run(page, "Speak")
    await untilStatus(page, "done")
    await until(() =>
      page.locator(".file-result audio").evaluate((at: HTMLAudioElement) => at.duration),
    ).toBeGreaterThan(0)
    await result(page).getByText("not charged").waitFor()

    await choose(page, "Draw")
    await run(page, "Draw")
    await untilStatus(page, "done")
    await until(() => page.locator("img.frame").evaluate((at: HTMLImageElement) => at.naturalWidth)).toBe(1_024)

    await choose(page, "Transcribe")
    await run(page, "Use an example")
    await run(page, "Transcribe")
    await result(page).getByText("Sandbox transcript of a wav file of 1.6 seconds.").waitFor()

    await choose(page, "Talk")
    await page.getByText("Or send a file").click()
    await run(page, "Use an example")
    await run(page, "Send the question")
    await page.locator(".bubbles .theirs").getByText("Thank you for trying").waitFor()

    await choose(page, "text summary")
    await page.getByRole("textbox", { name: "Text" }).fill("one two three four")
    await page.getByLabel("Words").fill("2")
    await run(page, "Run")
    await result(page).getByText("one two and so on").waitFor()
    await page.getByRole("textbox", { name: "Text" }).fill("unreadable")
    await run(page, "Run")
    await result(page).getByText("Send text with spaces.").waitFor()

    expect(sent.filter((request) => request === "POST /playground/key")).toHaveLength(1)
    expect(await page.getByRole("region", { name: "This tab's jobs" }).getByRole("listitem").count()).toBe(6)
    expect(troubles).toEqual([])
    await close()
  })

  it.each(Object.entries(looks))(
    "has no accessibility violation in any state, and fits the screen: %s",
    async (_, look) => {
      const { close, page, troubles } = await open(look)
      const check = async (state: string) => {
        expect([state, await axeViolations(page)]).toEqual([state, []])
        expect([state, await isWider(page)]).toEqual([state, false])
      }
      await run(page, "Use your own key")
      await check("start")
      await page.getByLabel("Input").fill("sandbox:delay:2")
      await run(page, "Speak")
      await untilStatus(page, "processing")
      await check("processing")
      await untilStatus(page, "done")
      await run(page, "Delete its data")
      await check("done")
      await page.getByLabel("Input").fill("sandbox:fail:content_rejected")
      await run(page, "Speak")
      await result(page).getByText("The provider's rules forbid this content.").waitFor()
      await check("failed")
      await page.getByLabel("Input").fill("x".repeat(5_000))
      await run(page, "Speak")
      await page.getByText("input is too long.").waitFor()
      await check("too long")
      await choose(page, "Talk")
      await page.getByText("Or send a file").click()
      await page.getByText("Settings").click()
      await run(page, "Use an example")
      await page.locator(".drop .waveform").waitFor()
      await check("a file")
      expect(troubles).toEqual([])
      await close()
    },
  )

  it("can be used by keyboard alone, which never loses its place", async () => {
    const { close, page, troubles } = await open()
    const focused = () => page.evaluate(() => document.activeElement?.tagName)
    await page.locator(".kinds input").nth(1).focus()
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowRight")
    await page.getByLabel("Prompt").waitFor()
    await page.keyboard.press("Tab")
    await page.keyboard.press("ControlOrMeta+a")
    await page.keyboard.type("a red lighthouse")
    await page.keyboard.press("Control+Enter")
    await untilStatus(page, "done")
    expect(await focused()).toBe("TEXTAREA")
    await page.getByRole("button", { name: "Delete its data", exact: true }).focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Enter")
    await result(page).getByText("The data of this job is deleted.").waitFor()
    expect(await focused()).toBe("SECTION")
    await page.locator(".kinds input").nth(3).focus()
    for (let n = 0; n < 3; n++) await page.keyboard.press("ArrowLeft")
    const example = page.getByRole("button", { name: "Use an example" })
    await example.focus()
    await page.keyboard.press("Enter")
    await page.locator(".drop.filled").waitFor()
    expect(await focused()).toBe("DIV")
    await page.keyboard.press("Tab")
    expect(await focused()).not.toBe("BODY")
    expect(troubles).toEqual([])
    await close()
  })

  it("survives lost polls and a reload", async () => {
    const { close, page } = await open()
    const answers = [
      { abort: true },
      {
        status: 503,
        headers: { "retry-after": "1" },
        body: '{"error":{"code":"service_unavailable","message":"Try later."}}',
      },
      { status: 429, headers: { "retry-after": "1" }, body: '{"error":{"code":"rate_limited","message":"Too fast."}}' },
      { status: 200, contentType: "text/html", body: "<html>welcome to the hotel</html>" },
    ]
    const seen: Array<string> = []
    await page.exposeFunction("seen", (text: string) => void seen.push(text))
    await page.evaluate(() => {
      new MutationObserver(() => {
        const text = document.querySelector(".trouble")?.textContent
        const { seen: note } = globalThis as typeof globalThis & { readonly seen?: (text: string) => void }
        if (text != null) note?.(text)
      }).observe(document.body, { subtree: true, childList: true, characterData: true })
    })
    await page.route("**/v1/jobs/*", async (route) => {
      const answer = answers.shift()
      if (answer === undefined) return route.continue()
      return "abort" in answer ? route.abort() : route.fulfill(answer)
    })
    await page.getByLabel("Input").fill("sandbox:delay:1")
    await run(page, "Speak")
    await untilStatus(page, "done")
    expect(answers).toEqual([])
    for (const text of ["cannot be reached", "Try later.", "Too fast.", "Something between"])
      expect(seen.some((one) => one.includes(text))).toBe(true)
    expect(page.url()).toMatch(/#speech_synthesis\/job_/)
    await page.reload()
    await untilStatus(page, "done")
    await page.locator(".file-result audio").waitFor()
    await page.getByRole("region", { name: "This tab's jobs" }).getByText("done").waitFor()
    await close()
  })

  it("sends 25 MiB with progress, cancels it, and goes on after an interruption with the same upload", async () => {
    const path = silence("large.wav", 26_214_400, 192_000)
    const { close, page, sent } = await open(desktop, "#transcription")
    const session = await page.context().newCDPSession(page)
    const throttle = (uploadThroughput: number) =>
      session.send("Network.emulateNetworkConditions", {
        offline: false,
        latency: 0,
        downloadThroughput: -1,
        uploadThroughput,
      })
    await page.getByLabel("Audio file").setInputFiles(path)
    await page.locator(".drop.filled").getByText("2:16").waitFor()
    await throttle(2_000_000)
    await run(page, "Transcribe")
    const progress = page.getByRole("progressbar", { name: "Upload" })
    const sentBytes = () => progress.evaluate((at: HTMLProgressElement) => at.value)
    await until(sentBytes).toBeGreaterThan(1_000_000)
    await result(page)
      .getByText(/of 26\.3 MB|of 26\.2 MB/)
      .waitFor()
    await result(page)
      .getByText(/[kM]B\/s/)
      .waitFor()
    expect(await axeViolations(page)).toEqual([])
    await run(page, "Cancel")
    await result(page).getByText("Canceled. Nothing was created.").waitFor()
    await run(page, "Try again")
    await until(sentBytes).toBeGreaterThan(1_000_000)
    // New ones are cut too: Chromium may send the request again by itself on another connection.
    const cut = (socket: Socket): void => void socket.destroy()
    service.server.on("connection", cut)
    service.server.closeAllConnections()
    await result(page).getByText("The transfer was interrupted.").waitFor()
    service.server.off("connection", cut)
    await throttle(-1)
    await run(page, "Send again")
    await result(page).getByText("Sandbox transcript of a wav file").waitFor()
    expect(sent.filter((request) => request === "POST /v1/audio/uploads")).toHaveLength(1)
    expect(sent.filter((request) => request === "POST /v1/audio/transcriptions")).toHaveLength(1)
    await close()
  })

  it("refuses files that the service would refuse, before anything is sent", async () => {
    const { close, page, sent, troubles } = await open(desktop, "#transcription")
    const notAudio = join(directory, "notes.wav")
    writeFileSync(notAudio, "dear diary")
    const empty = join(directory, "empty.mp3")
    writeFileSync(empty, "")
    for (const [path, text] of [
      [
        silence("long.wav", 44 + 961 * 8_000, 8_000),
        "long.wav is 16:01 long. The service accepts at most 15:00. Nothing was sent.",
      ],
      [silence("big.wav", 26_214_401, 192_000), "big.wav has 26.2 MB. A file may have at most 26.2 MB (25 MiB)."],
      [notAudio, "notes.wav is not an audio file that the service reads."],
      [empty, "empty.mp3 is empty."],
    ] as const) {
      await page.getByLabel("Audio file").setInputFiles(path)
      await page.getByRole("alert").filter({ hasText: text }).waitFor()
    }
    expect(await axeViolations(page)).toEqual([])
    await run(page, "Transcribe")
    await page.getByText("Choose or record a file first, or use the example.").waitFor()
    expect(sent.filter((request) => !request.startsWith("GET /"))).toEqual([])
    expect(troubles).toEqual([])
    await close()
  })

  it("says what to do about a wrong, an expired and a revoked key", async () => {
    const expired = await service.createKey(new Date(Date.now() - 1_000))
    const revoked = await service.createKey()
    await service.revokeKey(revoked.keyId)
    for (const key of ["kiln_test_wrong", expired.key, revoked.key]) {
      const { close, page, troubles } = await open()
      await useKey(page, key)
      await run(page, "Speak")
      await result(page).getByRole("alert").getByText("401 invalid_api_key").waitFor()
      await result(page).getByText("The key is mistyped, revoked or expired.").waitFor()
      expect(await axeViolations(page)).toEqual([])
      await run(page, "Get a new sandbox key and try again")
      await untilStatus(page, "done")
      expect(troubles).toEqual([])
      await close()
    }
  })

  it("asks for a key where the service issues none, and shows details of a refusal", async () => {
    await using closed = await openService({ playground: false })
    const live = await closed.createKey()
    const { close, page } = await openPage(browser, closed.url, desktop)
    await page.goto(closed.url)
    await page.getByText("Enter an API key to begin.").waitFor()
    await page.getByLabel("API key").fill(live.key)
    await page.keyboard.press("Enter")
    await page.getByText("your test key: jobs cost nothing").waitFor()
    await page.route("**/v1/audio/speech", (route) =>
      route.continue({ postData: JSON.stringify({ input: "", voice: "nobody" }) }),
    )
    await run(page, "Speak")
    const problem = result(page).getByRole("alert")
    await problem.getByText("400 invalid_request").waitFor()
    expect(await problem.getByRole("listitem").count()).toBe(2)
    // No price is set.
    expect(await page.locator(".price").count()).toBe(0)
    await problem.getByText("Fix the fields").waitFor()
    await close()
  })

  it("tells what a job costs before it runs, and what it cost", async () => {
    await using paid = await openService()
    const live = await paid.createKey(undefined, "live")
    const { close, page, troubles } = await openPage(browser, paid.url, desktop)
    await page.goto(paid.url)
    const price = page.locator(".price")
    await paid.openLive()
    await useKey(page, live.key)
    await page.getByText("your live key: jobs are charged").waitFor()
    await until(() => page.evaluate(() => document.querySelector(".price")?.textContent ?? "")).toMatch(
      /^Costs 0\.0\d+ USD/,
    )
    await page.getByLabel("Input").fill("Twelve marks")
    expect(await price.textContent()).toBe("Costs 0.00018 USD.")
    await run(page, "Speak")
    await result(page).getByText("charged 0.00018 USD (12 input characters)").waitFor()
    await choose(page, "Talk")
    await page.getByText("Settings").click()
    await page.getByText("about 192 words").waitFor()
    expect(await price.textContent()).toBe("Costs 0.0001 USD × input audio seconds + 0.00002 USD × output tokens.")
    await page.getByLabel("Instructions").fill("Be brief.")
    await page.getByText("about 3 tokens, 9 /").waitFor()
    await page.getByText("Or send a file").click()
    await run(page, "Use an example")
    await until(() => price.textContent()).toBe("Costs at most 0.00532 USD.")
    expect(await axeViolations(page)).toEqual([])
    await run(page, "Forget it")
    await useKey(page, (await paid.createKey()).key)
    await until(() => page.evaluate(() => document.querySelector(".price")?.textContent ?? "")).toBe(
      "Free with this key. With a live key: at most 0.00532 USD.",
    )
    expect(troubles).toEqual([])
    await close()
  })

  it("leaves a way on from every failure", async () => {
    await using closed = await openService({ playground: false })
    const { close, page } = await openPage(browser, closed.url, desktop)
    const { key } = await closed.createKey()
    await page.goto(closed.url)
    await page.getByLabel("API key").fill("kiln_test_wrong")
    await page.keyboard.press("Enter")
    await run(page, "Speak")
    await result(page).getByText("401 invalid_api_key").waitFor()
    // Nobody issues keys here: the field for one opens, with the focus in it.
    await run(page, "Use another key")
    await until(() => page.evaluate(() => document.activeElement?.id)).toBe("own-key")
    await page.keyboard.type(key)
    await page.keyboard.press("Enter")
    await run(page, "Try again")
    await untilStatus(page, "done")

    await page.getByLabel("Input").fill("sandbox:fail:content_rejected")
    await run(page, "Speak")
    await untilStatus(page, "failed")
    // An older failure repeats its own request, not the last one.
    await page.getByLabel("Input").fill("Fine")
    await run(page, "Speak")
    await untilStatus(page, "done")
    await page.getByRole("button", { name: "sandbox:fail:content_rejected" }).first().click()
    await untilStatus(page, "failed")
    await run(page, "Run it again")
    await result(page).getByText("processing").first().waitFor()
    await untilStatus(page, "failed")
    const jobs = page.getByRole("region", { name: "This tab's jobs" })
    await until(() => jobs.getByText("sandbox:fail:content_rejected", { exact: true }).count()).toBe(2)

    // A job of another key.
    await page.goto(`${closed.url}/#speech_synthesis/job_01hzzzzzzzzzzzzzzzzzzzzzzz`)
    await page.reload()
    await result(page).getByText("404 job_not_found").waitFor()
    await run(page, "Dismiss")
    await result(page).getByText("The result of your job appears here.").waitFor()
    expect(await page.evaluate(() => location.hash)).toBe("#speech_synthesis")
    await close()
  })

  it("replaces an expired link by itself, and downloads with a fresh one", async () => {
    const { close, page, sent } = await open()
    let expired = 1
    await page.route("**/v1/files/**", (route) =>
      expired-- > 0
        ? route.fulfill({
            status: 410,
            contentType: "application/json",
            body: '{"error":{"code":"file_gone","message":"Gone."}}',
          })
        : route.continue(),
    )
    await run(page, "Speak")
    await untilStatus(page, "done")
    const player = page.locator(".file-result audio")
    await until(() => player.evaluate((at: HTMLAudioElement) => at.readyState)).toBeGreaterThan(0)
    expect(sent.filter((request) => request === "GET /v1/jobs/ID").length).toBeGreaterThan(1)
    expired = 1
    const [download] = await Promise.all([page.waitForEvent("download"), run(page, "Download")])
    expect(download.suggestedFilename()).toMatch(/^job_\w+\.mp3$/)
    await close()
  })

  it("deletes a job's data from the result and from the list", async () => {
    const { close, page, troubles } = await open()
    await run(page, "Speak")
    await untilStatus(page, "done")
    await run(page, "Delete its data")
    await run(page, "Keep")
    await run(page, "Delete its data")
    await page.locator(".sure").getByRole("button", { name: "Delete" }).click()
    await result(page).getByText("The data of this job is deleted.").waitFor()
    expect(await page.locator(".file-result").count()).toBe(0)
    await choose(page, "Draw")
    await run(page, "Draw")
    await untilStatus(page, "done")
    await page.getByRole("button", { name: /^Delete the data of A red lighthouse/ }).click()
    await until(() => page.locator(".gallery .badge", { hasText: "deleted" }).count()).toBe(2)
    expect(troubles).toEqual([])
    await close()
  })

  it("records the microphone with a level, and takes a voice turn while a button is held", async () => {
    const { close, page, troubles } = await open({ ...desktop, permissions: ["microphone"] }, "#transcription")
    await run(page, "Record")
    const meter = page.getByRole("meter", { name: "Microphone level" })
    await until(async () => Number(await meter.getAttribute("aria-valuenow"))).toBeGreaterThan(5)
    expect(await axeViolations(page)).toEqual([])
    await run(page, "Stop recording")
    await page.locator(".drop.filled").getByText("recording.webm").waitFor()
    await run(page, "Transcribe")
    await result(page).getByText("Sandbox transcript of a webm file").waitFor()
    await choose(page, "Talk")
    const talk = await page.getByRole("button", { name: "Hold to talk" }).boundingBox()
    await page.mouse.move((talk?.x ?? 0) + 20, (talk?.y ?? 0) + 20)
    await page.mouse.down()
    await page.getByRole("button", { name: "Release to send" }).waitFor()
    await until(async () => Number(await meter.getAttribute("aria-valuenow"))).toBeGreaterThan(5)
    await page.waitForTimeout(500)
    await page.mouse.up()
    await page.locator(".bubbles .theirs").getByText("Thank you for trying").waitFor()
    await page.locator(".bubbles .mine .waveform").waitFor()
    expect(await axeViolations(page)).toEqual([])
    expect(troubles).toEqual([])
    await close()
  })

  it("lets listen to a voice", async () => {
    const { close, page, sent, troubles } = await open()
    await page.getByLabel("Voice").selectOption("nova")
    await run(page, "▶ Listen")
    const player = page.locator(".voice + audio")
    await until(() => player.evaluate((at: HTMLAudioElement) => at.currentTime)).toBeGreaterThan(0)
    expect(sent.filter((request) => request === "POST /v1/audio/speech")).toHaveLength(1)
    expect(troubles).toEqual([])
    await close()
  })

  it("shows the request in three languages while one types, and it runs", async () => {
    const { close, page, troubles } = await open({ ...desktop, permissions: ["clipboard-read", "clipboard-write"] })
    const code = page.locator(".code pre")
    await page.getByLabel("Input").fill("it's a `test` of ${quotes}")
    for (const [name, text] of [
      ["curl", `-d '{"input":"it'\\''s a \`test\` of \${quotes}"}'`],
      ["Python", `"input": "it's a \`test\` of \${quotes}"`],
      ["TypeScript", `"input": "it's a \`test\` of \${quotes}"`],
    ] as const) {
      await run(page, name)
      expect(await code.textContent()).toContain(text)
    }
    await run(page, "Copy")
    const { key } = await service.createKey()
    const programs: Array<string> = [await page.evaluate(() => navigator.clipboard.readText())]
    await choose(page, "Transcribe")
    const audio = silence("question.wav", 44 + 16_000, 16_000)
    await page.getByLabel("Audio file").setInputFiles(audio)
    await until(() => code.textContent()).toContain('"declared_seconds": 1')
    programs.push((await code.textContent()) ?? "")
    await run(page, "curl")
    const commands = (await code.textContent()) ?? ""
    const outputs = await Promise.all(
      programs.map(async (program, n) => {
        const path = join(directory, `sample${n}.mts`)
        writeFileSync(path, program)
        const env = { ...process.env, KILN_API_KEY: key }
        return (await promisify(execFile)(process.execPath, [path], { cwd: directory, env })).stdout
      }),
    )
    const options = { cwd: directory, env: { ...process.env, KILN_API_KEY: key } }
    expect((await promisify(execFile)("sh", ["-c", commands], options)).stdout).toContain('"status":"queued"')
    expect(outputs[0]).toContain("audio_url")
    expect(outputs[1]).toContain("Sandbox transcript of a wav file of 1.0 seconds")
    expect(troubles).toEqual([])
    await close()
  })

  // Pictures are committed, and written only on request.
  it.runIf(writesPictures)("is pictured in the documentation", async () => {
    for (const colorScheme of ["light", "dark"] as const) {
      const { close, page } = await open({ viewport: { width: 1_120, height: 700 }, colorScheme })
      await page.getByLabel("Input").fill("Good morning. Here are the headlines of the day.")
      await run(page, "Speak")
      await untilStatus(page, "done")
      await until(() =>
        page.locator(".file-result audio").evaluate((at: HTMLAudioElement) => at.duration),
      ).toBeGreaterThan(0)
      await page.waitForTimeout(500)
      await page.evaluate(() => scrollTo(0, 0))
      const picture = await page.screenshot({ path: join(images, `playground-${colorScheme}.png`) })
      expect(picture.length).toBeLessThan(120_000)
      await close()
    }
  })
})
