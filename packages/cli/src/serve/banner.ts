import { programCommand } from "../programCommand.ts"
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

/** Commands that try a service. They need this program. */
const tryLines = ({ key, url }: CurlTarget): ReadonlyArray<string> => [
  `export KILN_URL=${url} KILN_API_KEY=${key}`,
  `${programCommand()} try speak 'Hello from kiln.' -o hello.mp3`,
]

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
    "To try it, in another terminal:",
    "",
    ...tryLines({ url, key: firstKey.key }).map((line) => `  ${line}`),
    "",
    "With curl (replace JOB_ID with the id from the first response):",
    "",
    ...curlLines({ url, key: firstKey.key }),
    "",
  ].join("\n")
}
