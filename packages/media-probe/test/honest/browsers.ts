import { type ChildProcess, spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { mkdir, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { pathOf, signalPath, store } from "./generate.ts"
import type { Recipe } from "./Recipe.ts"
import { recordInPage } from "./recordInPage.ts"
import { cacheDirectory } from "./tools.ts"

const programs = { chromium: "chromium", firefox: "firefox-esr", webkit: "WebKitWebDriver", screen: "Xvfb" } as const

/** A page that evaluates expressions; a promise is awaited. */
interface Page {
  evaluate(expression: string): Promise<unknown>
  close(): void
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Number of recordings at the same time in one page. */
const CONCURRENT = 4

const START_MS = 60_000

/** Makes the recordings that are not cached. They take as long as they last. Returns the failures by name. */
export const recordAll = async (recipes: ReadonlyArray<Recipe>): Promise<ReadonlyMap<string, string>> => {
  const failures = new Map<string, string>()
  const wanted = recipes.flatMap((recipe) => {
    const [step] = recipe.steps
    return step?.kind === "record" && !existsSync(pathOf(recipe)) ? [{ recipe, step }] : []
  })
  for (const [browser, open] of Object.entries(browsers)) {
    const queue = wanted.filter(({ step }) => step.browser === browser)
    if (queue.length === 0) continue
    const profile = join(cacheDirectory, "work", `${browser}-${process.pid}`)
    await mkdir(profile, { recursive: true })
    const page = await open(profile)
    const recordNext = async (): Promise<void> => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        const { recipe, step } = next
        const wav = (await readFile(await signalPath(recipe.source))).toString("base64")
        const args = [step.recording, wav, recipe.source.seconds].map((arg) => JSON.stringify(arg))
        try {
          const base64 = await page.evaluate(`(${recordInPage.toString()})(${args.join(", ")})`)
          if (typeof base64 !== "string") throw new Error(`the page returned ${JSON.stringify(base64)}`)
          await store(pathOf(recipe), Buffer.from(base64, "base64"))
        } catch (error) {
          failures.set(recipe.name, error instanceof Error ? error.message : String(error))
        }
      }
    }
    try {
      await Promise.all(Array.from({ length: CONCURRENT }, recordNext))
    } finally {
      page.close()
      await pause(500)
      await rm(profile, { recursive: true, force: true, maxRetries: 5 })
    }
  }
  return failures
}

/** Opens a WebSocket of numbered commands. */
const commandsOf = async (url: string) => {
  const socket = new WebSocket(url)
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve)
    socket.addEventListener("error", reject)
  })
  const waiting = new Map<number, (answer: Answer) => void>()
  let last = 0
  socket.addEventListener("message", ({ data }) => {
    const answer = JSON.parse(String(data)) as Answer
    if (answer.id !== undefined) waiting.get(answer.id)?.(answer)
  })
  return (method: string, params: object = {}): Promise<Answer> =>
    new Promise((resolve) => {
      waiting.set(++last, resolve)
      socket.send(JSON.stringify({ id: last, method, params }))
    })
}

interface Answer {
  readonly id?: number
  // eslint-disable-next-line typescript/no-explicit-any
  readonly result?: any
}

/** Waits for a line of the program's output. */
const lineOf = (child: ChildProcess, pattern: RegExp): Promise<string> =>
  new Promise((resolve, reject) => {
    let output = ""
    const timer = setTimeout(() => reject(new Error(`the browser did not start: ${output.slice(-500)}`)), START_MS)
    const look = (chunk: Buffer) => {
      output += chunk.toString()
      const found = pattern.exec(output)?.[1]
      if (found === undefined) return
      clearTimeout(timer)
      resolve(found)
    }
    child.stdout?.on("data", look)
    child.stderr?.on("data", look)
  })

const openChromium = async (profile: string): Promise<Page> => {
  const page = join(profile, "page.html")
  await writeFile(page, "<!doctype html><title>recorder</title>")
  const child = spawn(
    programs.chromium,
    [
      ..."--headless --no-sandbox --disable-gpu --remote-debugging-port=0 --autoplay-policy=no-user-gesture-required".split(
        " ",
      ),
      ..."--use-fake-device-for-media-stream --use-fake-ui-for-media-stream".split(" "),
      `--user-data-dir=${profile}`,
      // A microphone is offered only to pages of a secure origin.
      pathToFileURL(page).href,
    ],
    { stdio: ["ignore", "pipe", "pipe"] },
  )
  const [, port] = /:(\d+)\//.exec(await lineOf(child, /DevTools listening on (ws:\S+)/)) ?? []
  const targets = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as ReadonlyArray<{
    readonly type: string
    readonly webSocketDebuggerUrl: string
  }>
  const command = await commandsOf(targets.find(({ type }) => type === "page")?.webSocketDebuggerUrl ?? "")
  return {
    evaluate: async (expression) => {
      const { result } = await command("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true })
      if (result.exceptionDetails !== undefined) throw new Error(JSON.stringify(result.exceptionDetails).slice(0, 400))
      return result.result.value
    },
    close: () => child.kill(),
  }
}

const openFirefox = async (profile: string): Promise<Page> => {
  const preferences = {
    "media.autoplay.default": 0,
    "media.autoplay.blocking_policy": 0,
    "media.navigator.streams.fake": true,
    "media.navigator.permission.disabled": true,
  }
  await writeFile(
    join(profile, "user.js"),
    Object.entries(preferences)
      .map(([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`)
      .join(""),
  )
  const child = spawn(
    programs.firefox,
    ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port=0"],
    {
      stdio: ["ignore", "pipe", "pipe"],
    },
  )
  const command = await commandsOf(`${await lineOf(child, /WebDriver BiDi listening on (ws:\S+)/)}/session`)
  await command("session.new", { capabilities: {} })
  const { result: tree } = await command("browsingContext.getTree")
  const target = { context: tree.contexts[0].context }
  return {
    evaluate: async (expression) => {
      const { result } = await command("script.evaluate", {
        expression,
        target,
        awaitPromise: true,
        userActivation: true,
      })
      if (result?.type !== "success") throw new Error(JSON.stringify(result).slice(0, 400))
      return result.result.value
    },
    close: () => child.kill(),
  }
}

const MINI_BROWSER = "/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser"

/** WebKitGTK has no headless mode; Xvfb is its screen. */
const openWebKit = async (): Promise<Page> => {
  const display = `:${60 + (process.pid % 900)}`
  const screen = spawn(programs.screen, [display, "-screen", "0", "640x480x24"], { stdio: "ignore" })
  const port = 20_000 + (process.pid % 10_000)
  const driver = spawn(programs.webkit, ["-p", String(port)], {
    stdio: "ignore",
    env: { ...process.env, DISPLAY: display, LIBGL_ALWAYS_SOFTWARE: "1" },
  })
  await pause(2000)
  // eslint-disable-next-line typescript/no-explicit-any
  const post = async (path: string, body: object): Promise<any> => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", body: JSON.stringify(body) })
    return ((await response.json()) as { readonly value: unknown }).value
  }
  const options = { binary: MINI_BROWSER, args: ["--automation", "--autoplay-policy=allow"] }
  const { sessionId } = await post("/session", {
    capabilities: { alwaysMatch: { "webkitgtk:browserOptions": options } },
  })
  await post(`/session/${sessionId}/timeouts`, { script: 60_000 })
  let line = Promise.resolve<unknown>(undefined)
  return {
    // A session runs one script at a time.
    evaluate: (expression) =>
      (line = line.then(() =>
        post(`/session/${sessionId}/execute/async`, {
          script: `const done = arguments[0]; ${expression}.then(done, (error) => done({ error: String(error) }))`,
          args: [],
        }),
      )),
    close: () => {
      driver.kill()
      screen.kill()
    },
  }
}

const browsers: Readonly<Record<string, (profile: string) => Promise<Page>>> = {
  [programs.chromium]: openChromium,
  [programs.firefox]: openFirefox,
  [programs.webkit]: openWebKit,
}
