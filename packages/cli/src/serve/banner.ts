import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { curlLines } from "./curlLines.ts"
import { type FirstKey, keyCommand } from "./firstKey.ts"

/** The command that tries a service, where the program runs from a checkout. An installed package has no such script. */
const tryCommand = (url: string, key: string): ReadonlyArray<string> => {
  const isCheckout = existsSync(fileURLToPath(new URL("../../../../examples/demo/try.ts", import.meta.url)))
  return isCheckout
    ? ["To try three kinds of job, run this in another terminal:", "", `  npx -y pnpm@12 try ${key} ${url}`, ""]
    : []
}

/** The text for the person at the terminal once the service listens. `docs` is undefined if pages are off. */
export const banner = (service: {
  readonly url: string
  readonly docs: string | undefined
  /** `"none"` if the store holds no key and none was created. */
  readonly firstKey: FirstKey | "none" | undefined
}): string => {
  const { docs, firstKey, url } = service
  const address = [`kiln is listening at ${url}`, ...(docs === undefined ? [] : [`documentation: ${docs}`])]
  if (firstKey === undefined) return address.join("\n")
  if (firstKey === "none")
    return [...address, `No API keys exist. To create one, run this with the same environment: ${keyCommand()}`].join(
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
    ...tryCommand(url, firstKey.key),
    "With curl (replace JOB_ID with the id from the first response):",
    "",
    ...curlLines({ url, key: firstKey.key }),
    "",
  ].join("\n")
}
