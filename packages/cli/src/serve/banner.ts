import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { curlLines } from "./curlLines.ts"
import { type FirstKey, keyCommand } from "./firstKey.ts"

/** The recording that comes with a checkout; an installed package has none, and whoever runs it has one of their own. */
const sampleWav = (): string => {
  const path = fileURLToPath(new URL("../../../../examples/demo/assets/hello.wav", import.meta.url))
  return existsSync(path) ? path : "recording.wav"
}

/** What the person at the terminal is told once the service listens. `docs` is undefined where pages are off. */
export const banner = (service: {
  readonly url: string
  readonly docs: string | undefined
  /** `"none"` where the store holds no key and none was made. */
  readonly firstKey: FirstKey | "none" | undefined
}): string => {
  const { docs, firstKey, url } = service
  const address = [`kiln is listening at ${url}`, ...(docs === undefined ? [] : [`its documentation is at ${docs}`])]
  if (firstKey === undefined) return address.join("\n")
  if (firstKey === "none")
    return [...address, `No API keys exist. To create one, run this with the same environment: ${keyCommand}`].join(
      "\n",
    )
  return [
    "",
    ...address,
    "",
    "A test key, shown this once. Its jobs are sandbox jobs: they call no provider and cost nothing.",
    "",
    `  ${firstKey.key}`,
    "",
    "To try it, paste these lines into another terminal, one at a time:",
    "a recording to a transcript, a text to speech.mp3, a prompt to image.png.",
    "",
    ...curlLines({ url, key: firstKey.key, wav: sampleWav() }).flatMap((line) => [line, ""]),
  ].join("\n")
}
