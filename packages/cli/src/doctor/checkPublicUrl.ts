import { connect as connectTls } from "node:tls"
import { isIP } from "node:net"
import * as Effect from "effect/Effect"
import { causeMessage, codesOf } from "../CommandFailed.ts"
import type { Settings } from "../Settings.ts"
import { ageText, type Check, ok, problem, skipped, warning } from "./Check.ts"

const name = "public-url"
/** Milliseconds for one connection or request. */
const patienceMs = 8_000
const dayMs = 86_400_000
/** Certificates are usually renewed 30 days before their end. */
const renewDays = 14

/** The certificate that a server presents. */
interface Certificate {
  readonly validTo: number
  /** Why clients reject it: `DEPTH_ZERO_SELF_SIGNED_CERT`. */
  readonly rejectedBecause: string | undefined
}

const readCertificate = (url: URL): Promise<Certificate> =>
  new Promise((resolve, reject) => {
    const host = url.hostname.replaceAll(/^\[|\]$/g, "")
    const socket = connectTls({
      host,
      port: url.port === "" ? 443 : Number(url.port),
      ...(isIP(host) === 0 && { servername: host }),
      // Its date is read in any case; what clients would say about it is in authorizationError.
      rejectUnauthorized: false,
      timeout: patienceMs,
    })
    const end = (settle: () => void): void => {
      socket.destroy()
      settle()
    }
    socket.once("secureConnect", () => {
      const certificate = socket.getPeerCertificate()
      const { authorizationError: error } = socket as { readonly authorizationError?: unknown }
      end(() =>
        resolve({
          validTo: Date.parse(certificate.valid_to),
          rejectedBecause: typeof error === "string" ? error : codesOf(error)[0],
        }),
      )
    })
    socket.once("timeout", () => end(() => reject(new Error("the TLS handshake takes too long"))))
    socket.once("error", (error: Error) => end(() => reject(error)))
  })

const certificateProblem = async (publicUrl: string): Promise<Check | undefined> => {
  const { rejectedBecause, validTo } = await readCertificate(new URL(publicUrl))
  const left = validTo - Date.now()
  const remedy = "renew the certificate, for example with certbot renew, and reload the proxy"
  if (left <= 0)
    return problem(name, { summary: `the certificate of ${publicUrl} expired ${ageText(-left)} ago`, remedy })
  if (rejectedBecause !== undefined)
    return problem(name, {
      summary: `clients reject the certificate of ${publicUrl}: ${rejectedBecause}`,
      remedy:
        "install a certificate of a public authority for this name, with its whole chain; to trust your own authority, set NODE_EXTRA_CA_CERTS",
    })
  return left < renewDays * dayMs
    ? warning(name, { summary: `the certificate of ${publicUrl} expires in ${ageText(left)}`, remedy })
    : undefined
}

const get = (url: string): Promise<Response> =>
  fetch(url, { redirect: "manual", signal: AbortSignal.timeout(patienceMs), headers: { connection: "close" } })

const fieldOf = (value: unknown, field: string): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, field) : undefined

const bodyOf = (response: Response): Promise<unknown> => response.json().catch(() => undefined)

/** The failing checks of `/readyz`, by name. A proxy may keep that path from the public. */
const failingChecks = async (publicUrl: string): Promise<ReadonlyArray<string>> => {
  const response = await get(`${publicUrl}/readyz`)
  const checks = fieldOf(await bodyOf(response), "checks")
  if (response.status !== 503 || typeof checks !== "object" || checks === null) return []
  const failing = Object.entries(checks).flatMap(([check, result]) => (result === "ok" ? [] : [check]))
  return failing.length > 0 ? failing : ["it is stopping"]
}

/** A path that does not exist, which only kiln answers in this form. Proxies forward everything below `/v1`, but not always `/healthz`. */
const isKiln = async (response: Response): Promise<boolean> => {
  const error = fieldOf(await bodyOf(response), "error")
  return (
    response.status === 404 &&
    fieldOf(error, "code") === "not_found" &&
    typeof fieldOf(error, "request_id") === "string"
  )
}

const look = async (publicUrl: string): Promise<Check> => {
  const certificate = publicUrl.startsWith("https:") ? await certificateProblem(publicUrl) : undefined
  if (certificate?.status === "problem") return certificate
  const response = await get(`${publicUrl}/v1/doctor`)
  const { status } = response
  if (!(await isKiln(response)))
    return problem(name, {
      summary: `${publicUrl}/v1 responds with status ${status}, and not as kiln does`,
      remedy:
        status >= 500
          ? "start kiln serve, and see whether the proxy forwards to HOST and PORT"
          : "let the proxy forward all paths below /v1 unchanged to HOST and PORT, or correct PUBLIC_URL",
    })
  const failing = await failingChecks(publicUrl)
  if (failing.length > 0)
    return problem(name, {
      summary: `${publicUrl} responds, but is not ready: ${failing.join(", ")}`,
      remedy: "see the service's log, and the other checks here",
    })
  return certificate ?? ok(name, `${publicUrl} leads to kiln`)
}

const unreachable = (publicUrl: string, cause: unknown): Check => {
  const [code] = codesOf(cause)
  const isName = code === "ENOTFOUND" || code === "EAI_AGAIN"
  return problem(name, {
    summary: `${publicUrl} cannot be reached from here: ${code ?? causeMessage(cause)}`,
    remedy: isName
      ? "create a DNS record for the name, or correct PUBLIC_URL"
      : "start kiln serve and the proxy in front of it, and open the port in the firewall; if only other machines can reach the address, run kiln doctor there",
  })
}

/** Asks the service through its public address. */
export const checkPublicUrl = ({ http: { publicUrl }, role }: Settings): Effect.Effect<ReadonlyArray<Check>> => {
  if (role === "worker") return Effect.succeed([skipped(name, "a worker has no address")])
  if (publicUrl === undefined) return Effect.succeed([skipped(name, "PUBLIC_URL is not set")])
  return Effect.promise(() =>
    look(publicUrl).then(
      (check) => [check],
      (cause: unknown) => [unreachable(publicUrl, cause)],
    ),
  )
}
