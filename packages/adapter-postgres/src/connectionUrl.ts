import pg from "pg"

const schemes = "postgres://, postgresql:// or socket:"
const escapes = 'percent-encode "@", ":", "/", "#", "?" and "%" in the user and the password (encodeURIComponent)'

/** Throws `TypeError`. No message repeats a part of the URL in which a password may be. */
const broken = (problem: string): never => {
  throw new TypeError(`invalid url: ${problem}`)
}

/** The client of the driver for a URL, not connected. The driver decodes the URL and reads the files that it names. */
const clientOf = (url: string): pg.Client => {
  try {
    return new pg.Client({ connectionString: url })
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined
    const path = error instanceof Error && "path" in error ? error.path : undefined
    return typeof path === "string"
      ? broken(`cannot read the file ${path} that a parameter names (${String(code)})`)
      : broken(`it cannot be parsed; ${escapes}`)
  }
}

/** The name of a service file's section, where the connection would come from one. */
const serviceOf = (url: string, isHostNamed: boolean): string | undefined => {
  const [, parameters = ""] = url.split("?", 2)
  const named = new URLSearchParams(parameters).get("service")
  if (named !== null) return `the parameter service=${named}`
  // oxlint-disable-next-line node/no-process-env -- the driver reads PGHOST, but ignores PGSERVICE
  const { PGHOST, PGSERVICE } = process.env
  return PGSERVICE === undefined || isHostNamed || PGHOST !== undefined ? undefined : "PGSERVICE"
}

const isSocket = (url: string): boolean => url.startsWith("/") || url.startsWith("socket:")

/** The part between `//` and the path: users, hosts and ports. */
const authorityOf = (url: string): string => /^[a-z]+:\/\/([^/?#]*)/.exec(url)?.[1] ?? ""

/**
 * Checks the URL of a server and returns host, port and database, without user, password and parameters. Throws `TypeError` with a
 * message that does not contain it.
 */
export const requireUrl = (url: string): string => {
  const isUrl = /^(postgres(ql)?:\/\/|socket:)/.test(url)
  if (!isUrl && !url.startsWith("/"))
    broken(`it must begin with ${schemes}, for example postgres://user:password@host:5432/database`)
  if (!url.startsWith("/") && /[#\s]/.test(url)) broken(`it contains a # or a space; ${escapes}`)
  const authority = authorityOf(url)
  const hosts = authority.slice(authority.lastIndexOf("@") + 1)
  if (hosts.includes(",")) broken("it names several hosts, which the driver does not support; name one")
  const client = clientOf(url)
  // A slash in the password ends the host.
  if (/[@/]/.test(client.database ?? "")) broken(`the name of the database contains @ or /; ${escapes}`)
  const service = serviceOf(url, isSocket(url) || hosts !== "" || /[?&]host=/.test(url))
  if (service !== undefined)
    broken(
      `${service} names a section of a service file, which the driver does not read; write host, user and database`,
    )
  const { host, pathname } = URL.canParse(url) && !isSocket(url) ? new URL(url) : unparsed(client)
  return `${host}${pathname}`
}

const unparsed = ({ database = "", host }: pg.Client) => ({ host, pathname: `/${database}` })

/** Whether the URL has a password. */
export const hasPassword = (url: string): boolean => /^[a-z]+:\/\/[^/?#@]*:[^/?#@]+@|[?&]password=/.test(url)

/** Whether the URL says how to encrypt. */
export const hasSsl = (url: string): boolean => /[?&]ssl(mode|rootcert|cert|key|negotiation)?=/.test(url)

/** Host, port and database of a pool of the driver. */
export const addressOfPool = ({ options = {} }: { readonly options?: object }): string => {
  const { database = "", host, port } = new pg.Client({ ...options })
  return `${host}:${port}/${database}`
}
