import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { type FirstKey, keyCommand } from "./firstKey.ts"

/** The address and the key that the commands use. `key` may be a shell variable, for pages that have no key to show. */
interface CurlTarget {
  readonly url: string
  readonly key: string
}

/** Commands that create a job and then read it, in lines short enough to paste. They need a shell and curl. */
export const curlLines = ({ key, url }: CurlTarget): ReadonlyArray<string> => [
  `curl ${url}/v1/audio/speech \\`,
  `  -H "Authorization: Bearer ${key}" \\`,
  `  -H "Content-Type: application/json" -H "Idempotency-Key: first" \\`,
  `  -d '{"input":"Hello from kiln."}'`,
  "",
  `curl ${url}/v1/jobs/JOB_ID -H "Authorization: Bearer ${key}"`,
]

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
  const pages = docs === undefined ? [] : [`playground: ${url}/`, `documentation: ${docs}`]
  const address = [`kiln is listening at ${url}`, ...pages]
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
