import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { standInApiKey } from "@kiln/testing/openai"

/** The settings that make a stand-in the provider of live jobs. */
export const openAiEnvironment = ({ url }: { readonly url: string }): Readonly<Record<string, string>> => ({
  KILN_PROVIDER: "openai",
  KILN_OPENAI_API_KEY: standInApiKey,
  KILN_OPENAI_BASE_URL: url,
  KILN_OPENAI_REPLY_MODEL: "gpt-4o-mini",
})

/** The same for a process of a lab: its own providers are out, and its engine's bounds are in. */
export const labEnvironment = (standIn: { readonly url: string }): Readonly<Record<string, string>> => ({
  ...openAiEnvironment(standIn),
  KILN_CONFIG: join(import.meta.dirname, "../fixtures/live.config.ts"),
})

/**
 * A lease longer than a busy machine keeps a process from running. A worker that stood still for most of the lab's short lease
 * ends its attempts without a count, and the next attempts call again. Tests that count calls and lose no worker avoid that.
 */
export const longLease: Readonly<Record<string, string>> = { KILN_LEASE_SECONDS: "120" }

/** A port that was free a moment ago. */
export const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once("error", reject).listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo
      server.close(() => resolve(port))
    })
  })
