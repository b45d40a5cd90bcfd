import { chmodSync, chownSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { set, shell, startService } from "./acts.ts"
import type { Act, Planted } from "./Planted.ts"
import { database, fileOf } from "./support.ts"

/** Starts the service, and names its address. */
const correctPublicUrl: Act = async (scene) => {
  const { listening } = await startService(scene, { PUBLIC_URL: undefined })
  return { PUBLIC_URL: listening.url }
}

export const machineProblems: ReadonlyArray<Planted> = [
  {
    what: "a database that other users can read",
    plant: (installation) => chmodSync(database(installation), 0o644),
    check: "permissions",
    status: "problem",
    seen: /kiln\.db has mode 644: other users can read it/,
    remedy: /chmod 600 .*kiln\.db/,
    carryOut: shell(/chmod 600 .*/),
  },
  {
    what: "a config file that other users can change",
    plant: (installation) => {
      const path = fileOf("my config.mjs")(installation)
      writeFileSync(path, "export default {}")
      chmodSync(path, 0o666)
      return { KILN_CONFIG: path }
    },
    check: "permissions",
    status: "problem",
    seen: /other users can change the code that the service runs/,
    remedy: /chmod go-w .*my config\.mjs/,
    carryOut: shell(/chmod go-w .*/),
  },
  {
    what: "a secret's file that other users can read",
    plant: (installation) => {
      const path = fileOf("key of openai")(installation)
      writeFileSync(path, "sk-canary-5f3c\n")
      chmodSync(path, 0o644)
      return { KILN_OPENAI_API_KEY: "", KILN_OPENAI_API_KEY_FILE: path }
    },
    check: "permissions",
    status: "warning",
    seen: /contains KILN_OPENAI_API_KEY/,
    remedy: /chmod 600 .*key of openai/,
    carryOut: shell(/chmod 600 .*/),
  },
  {
    what: "a database that a command of another user has created",
    needsRoot: true,
    plant: (installation) => {
      chmodSync(installation.directory, 0o777)
      chownSync(database(installation), 12_345, 12_345)
    },
    check: "permissions",
    status: "problem",
    seen: /belong to another user than/,
    remedy: /chown --reference=/,
    carryOut: shell(/chown --reference=\S+ [^,]+/),
  },
  {
    what: "a public host without a public URL",
    plant: () => ({ HOST: "0.0.0.0" }),
    check: "address",
    status: "problem",
    seen: /URLs of uploads and files begin with http:\/\/127\.0\.0\.1/,
    remedy: /set PUBLIC_URL/,
    carryOut: set({ PUBLIC_URL: "https://kiln.example.com" }),
  },
  {
    what: "another loopback address than that of the URLs, without a public URL",
    plant: () => ({ HOST: "::1" }),
    check: "address",
    status: "problem",
    seen: /HOST is ::1, but PUBLIC_URL is not set/,
    remedy: /set PUBLIC_URL/,
    carryOut: set({ PUBLIC_URL: "http://[::1]:8787" }),
  },
  {
    what: "a public URL without TLS",
    plant: () => ({ PUBLIC_URL: "http://kiln.invalid" }),
    check: "address",
    status: "warning",
    seen: /unencrypted/,
    leaves: /KILN_TRUSTED_PROXIES is not set/,
    remedy: /docs\/guides\/self-hosting\.md/,
    carryOut: set({ PUBLIC_URL: "https://kiln.example.com" }),
  },
  {
    what: "rate limits that are off at a public address",
    plant: () => ({ PUBLIC_URL: "https://kiln.invalid", KILN_RATE_LIMITS: "off" }),
    check: "address",
    status: "warning",
    seen: /KILN_RATE_LIMITS is off at a public address/,
    leaves: /KILN_TRUSTED_PROXIES is not set/,
    remedy: /unset KILN_RATE_LIMITS/,
    carryOut: set({ KILN_RATE_LIMITS: undefined }),
  },
  {
    what: "a proxy that is not trusted",
    plant: () => ({ PUBLIC_URL: "https://kiln.invalid" }),
    check: "address",
    status: "warning",
    seen: /all callers behind the proxy share one limit/,
    remedy: /KILN_TRUSTED_PROXIES/,
    carryOut: set({ KILN_TRUSTED_PROXIES: "127.0.0.1" }),
  },
  {
    what: "a public URL whose name is not registered",
    plant: () => ({ PUBLIC_URL: "https://kiln.invalid" }),
    check: "public-url",
    status: "problem",
    seen: /https:\/\/kiln\.invalid cannot be reached from here: (ENOTFOUND|EAI_AGAIN)/,
    remedy: /DNS record/,
    carryOut: correctPublicUrl,
  },
  {
    what: "a directory of files that other users can read",
    plant: ({ directory }) => chmodSync(join(directory, "blobs"), 0o755),
    check: "permissions",
    status: "problem",
    seen: /blobs has mode 755: other users can read it/,
    remedy: /chmod 700 .*blobs/,
    carryOut: shell(/chmod 700 .*/),
  },
  {
    what: "a public URL at which nothing listens",
    plant: () => ({ PUBLIC_URL: "http://127.0.0.1:48" }),
    check: "public-url",
    status: "problem",
    seen: /http:\/\/127\.0\.0\.1:48 cannot be reached from here: ECONNREFUSED/,
    remedy: /start kiln serve and the proxy in front of it/,
    carryOut: correctPublicUrl,
  },
]
