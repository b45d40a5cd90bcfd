import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { curlLines } from "./curlLines.ts"
import { type FirstKey, keyCommand } from "./firstKey.ts"

/** Returns the path of the sample recording in a checkout; installed packages have none, so a placeholder is used. */
const sampleWav = (): string => {
  const path = fileURLToPath(new URL("../../../../examples/demo/assets/hello.wav", import.meta.url))
  return existsSync(path) ? path : "recording.wav"
}

/** Formats the text that is printed once the service listens. `docs` is undefined if pages are disabled. */
export const banner = (service: {
  readonly url: string
  readonly docs: string | undefined
  /** `"none"` if the store has no key and none was created. */
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
    "A test key, shown only this once. It creates sandbox jobs, which call no provider and cost nothing.",
    "",
    `  ${firstKey.key}`,
    "",
    "To try it, paste these lines into another terminal, one at a time:",
    "a recording to a transcript, a text to speech.mp3, a prompt to image.png.",
    "",
    ...curlLines({ url, key: firstKey.key, wav: sampleWav() }).flatMap((line) => [line, ""]),
  ].join("\n")
}
