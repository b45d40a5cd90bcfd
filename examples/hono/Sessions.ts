import { randomUUID, timingSafeEqual } from "node:crypto"
import { parse } from "hono/utils/cookie"

export interface User {
  readonly name: string
  readonly team: string
}

/** Stands in for your program's user management: two users with hard-coded passwords. */
const accounts: Readonly<Record<string, { readonly team: string; readonly password: string }>> = {
  ann: { team: "potters", password: "clay" },
  bob: { team: "potters", password: "glaze" },
}

/** The signed-in users, in memory. */
export class Sessions {
  static readonly cookie = "session"
  readonly #users = new Map<string, User>()

  /** Returns a new session's secret if the name and password match. */
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
