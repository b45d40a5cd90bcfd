/** The address and the key that the commands use. `key` may be a shell variable, for pages that have no key to show. */
export interface CurlTarget {
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
