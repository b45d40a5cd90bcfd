import { isIPv4 } from "node:net"
import * as Redacted from "effect/Redacted"
import { broken, fixedPort, onOff, parsed, type SettingType } from "./SettingType.ts"
import { host as hostName } from "./httpSettings.ts"

/** The address of `/metrics` and probes. */
export interface ManagementPlace {
  readonly host: string
  readonly port: number
  /** Required for `/metrics`, if set. */
  readonly token: Redacted.Redacted | undefined
  /** Whether the operator's page is served, too. */
  readonly dashboard: boolean
}

interface Given {
  readonly KILN_MANAGEMENT_PORT: number | undefined
  readonly KILN_MANAGEMENT_HOST: string | undefined
  readonly KILN_MANAGEMENT_TOKEN: Redacted.Redacted | undefined
  readonly KILN_DASHBOARD: boolean | undefined
}

/** Parses a bearer token. Error messages never contain it. */
const managementToken: SettingType<Redacted.Redacted> = (text) =>
  /^[\x21-\x7e]{16,512}$/.test(text)
    ? parsed(Redacted.make(text, { label: "management token" }))
    : broken("must be 16 to 512 visible ASCII characters")

export const managementTypes = {
  KILN_MANAGEMENT_PORT: fixedPort,
  KILN_MANAGEMENT_HOST: hostName,
  KILN_MANAGEMENT_TOKEN: managementToken,
  KILN_DASHBOARD: onOff,
} as const

/** Returns whether only this machine can connect to a host. */
const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."))

/** Returns where the management server listens; `undefined` if it does not. */
export const managementOf = (values: Given): ManagementPlace | undefined =>
  values.KILN_MANAGEMENT_PORT === undefined
    ? undefined
    : {
        host: values.KILN_MANAGEMENT_HOST ?? "127.0.0.1",
        port: values.KILN_MANAGEMENT_PORT,
        token: values.KILN_MANAGEMENT_TOKEN,
        dashboard: values.KILN_DASHBOARD ?? true,
      }

/** Metrics show volumes, errors and charges, so a network may read them only with a token. */
export const managementProblems = ({
  KILN_MANAGEMENT_HOST: host = "127.0.0.1",
  KILN_MANAGEMENT_PORT: port,
  KILN_MANAGEMENT_TOKEN: token,
}: Given) =>
  port === undefined || isLoopback(host) || token !== undefined
    ? []
    : [
        {
          setting: "KILN_MANAGEMENT_TOKEN",
          rule: `must be set, because KILN_MANAGEMENT_HOST=${host} is not a loopback address`,
        },
      ]

/** Returns warnings about variables that only apply to the management server. */
export const withoutManagement = (values: Given): ReadonlyArray<string> =>
  values.KILN_MANAGEMENT_PORT !== undefined
    ? []
    : (["KILN_MANAGEMENT_HOST", "KILN_MANAGEMENT_TOKEN", "KILN_DASHBOARD"] as const)
        .filter((name) => values[name] !== undefined)
        .map((name) => `${name} has no effect: KILN_MANAGEMENT_PORT is not set`)
