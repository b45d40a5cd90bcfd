import { isIP } from "node:net"
import * as Effect from "effect/Effect"
import type { Settings } from "../Settings.ts"
import { type Check, graded, type GradedFinding, skipped } from "./Check.ts"

const name = "address"

const isLoopback = (host: string): boolean =>
  host === "localhost" || host.endsWith(".localhost") || host === "::1" || (isIP(host) === 4 && host.startsWith("127."))

const listensEverywhere = (host: string): boolean => host === "0.0.0.0" || host === "::"

/** The host of a URL; an IPv6 address without brackets. */
const hostOf = (url: string): string => new URL(url).hostname.replaceAll(/^\[|\]$/g, "")

/** Checks the settings of the address against each other, without a connection. */
export const checkAddress = ({ http, role }: Settings): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.sync(() => {
    if (role === "worker") return [skipped(name, "a worker has no address")]
    const { host, publicUrl, rateLimits, trustedProxies } = http
    const publicHost = publicUrl === undefined ? undefined : hostOf(publicUrl)
    const isPublic = publicHost === undefined ? !isLoopback(host) : !isLoopback(publicHost)
    const findings: ReadonlyArray<GradedFinding & { readonly remedy: string }> = [
      ...(publicUrl === undefined && !["127.0.0.1", "localhost"].includes(host)
        ? [
            {
              isProblem: true,
              message: `HOST is ${host}, but PUBLIC_URL is not set, so URLs of uploads and files begin with http://127.0.0.1`,
              remedy: "set PUBLIC_URL to the address that callers use, such as https://kiln.example.com",
            },
          ]
        : []),
      ...(publicUrl?.startsWith("http://") === true && isPublic
        ? [
            {
              isProblem: false,
              message: "PUBLIC_URL begins with http://, so API keys and files are sent unencrypted",
              remedy:
                "put a proxy with TLS in front, and set PUBLIC_URL to its https:// address: docs/guides/self-hosting.md",
            },
          ]
        : []),
      ...(isPublic && Object.values(rateLimits).every(({ perMinute }) => perMinute === 0)
        ? [
            {
              isProblem: false,
              message:
                "KILN_RATE_LIMITS is off at a public address, so keys can be guessed and one caller can use up the service",
              remedy: "unset KILN_RATE_LIMITS, or set single limits as JSON",
            },
          ]
        : []),
      ...(isPublic && publicUrl !== undefined && trustedProxies.length === 0 && !listensEverywhere(host)
        ? [
            {
              isProblem: false,
              message:
                "KILN_TRUSTED_PROXIES is not set, so all callers behind the proxy share one limit for failed authentications",
              remedy: "set KILN_TRUSTED_PROXIES to the address of the proxy: 127.0.0.1 on this machine",
            },
          ]
        : []),
    ]
    return [
      graded(name, findings, {
        well: isPublic ? `${publicUrl ?? host} is consistent` : "only this machine can reach the service",
        wrong: "the settings of the address do not fit together",
      }),
    ]
  })
