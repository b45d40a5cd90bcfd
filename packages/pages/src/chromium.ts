import { accessSync, constants, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { delimiter, join } from "node:path"
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core"

const isProgram = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** The browser of this machine: nothing is downloaded. */
export const chromiumPath: string | undefined = ["chromium", "chromium-browser", "google-chrome"]
  .flatMap((name) => (process.env["PATH"] ?? "").split(delimiter).map((directory) => join(directory, name)))
  .find(isProgram)

/** Starts the browser, with more arguments of its command line. */
export const openBrowser = (...args: ReadonlyArray<string>): Promise<Browser> =>
  chromium.launch({
    ...(chromiumPath !== undefined && { executablePath: chromiumPath }),
    args: ["--no-sandbox", ...args],
  })

/** Opens a page with a token, and collects what must not happen: errors, and requests to others. */
export const openPage = async (
  browser: Browser,
  base: string,
  options: BrowserContextOptions & { readonly token?: string } = {},
) => {
  const { token, ...rest } = options
  const context = await browser.newContext(rest)
  if (token !== undefined)
    await context.addInitScript((given) => sessionStorage.setItem("kiln operator token", given), token)
  const page = await context.newPage()
  const troubles: Array<string> = []
  page.on("console", (message) => {
    // A refused token is an answer that the page shows.
    if (message.type() === "error" && !message.text().includes("401")) troubles.push(message.text())
  })
  page.on("pageerror", (error) => troubles.push(error.message))
  page.on("request", (request) => {
    const url = request.url()
    if (!url.startsWith(base) && !/^(?:data|blob):/.test(url)) troubles.push(`a request to ${url}`)
  })
  return { page, troubles, close: () => context.close() }
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")

interface Violation {
  readonly id: string
  readonly nodes: ReadonlyArray<{ readonly html: string }>
}

/** Returns what axe finds wrong with a page as it is shown. */
export const axeViolations = async (page: Page): Promise<ReadonlyArray<string>> => {
  // The debugger is not bound by the page's policy.
  await page.evaluate(axeSource)
  const violations = await page.evaluate<ReadonlyArray<Violation>>(
    "axe.run(document).then(({ violations }) => violations)",
  )
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))
}

export type { Browser, BrowserContextOptions, Page } from "playwright-core"
