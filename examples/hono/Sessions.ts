import { randomUUID, timingSafeEqual } from "node:crypto"
import { parse } from "hono/utils/cookie"

export interface User {
  readonly name: string
  readonly team: string
}

/** A stand-in for the way your program knows its users: two of them, with their passwords in the source. */
const accounts: Readonly<Record<string, { readonly team: string; readonly password: string }>> = {
  ann: { team: "potters", password: "clay" },
  bob: { team: "potters", password: "glaze" },
}

/** Sessions of signed-in users, in the memory of this process. */
export class Sessions {
  static readonly cookie = "session"
  readonly #users = new Map<string, User>()

  /** A new session's secret, for a name and a password that belong together. */
  open({ name, password }: { readonly name?: unknown; readonly password?: unknown }): string | undefined {
    if (typeof name !== "string" || typeof password !== "string" || !Object.hasOwn(accounts, name)) return undefined
    const account = accounts[name]
    if (account === undefined || !isSame(account.password, password)) return undefined
    const session = randomUUID()
    this.#users.set(session, { name, team: account.team })
    return session
  }

  /** Returns the user who sent a request. */
  userOf(request: Request): User | undefined {
    const session = parse(request.headers.get("cookie") ?? "", Sessions.cookie)[Sessions.cookie]
    return session === undefined ? undefined : this.#users.get(session)
  }
}

const isSame = (one: string, other: string): boolean => {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}
