import type { Session } from "../Session.ts"
import { type Given, query, statement } from "../Statement.ts"

const secretByName = statement((given: Given<{ name: string }>) =>
  query.selectFrom("secrets").select("value").where("name", "=", given.name),
)

/** A secret, if it was made already. */
export const findSecret = async (session: Session, name: string): Promise<Uint8Array | undefined> => {
  const known = await session.get(secretByName, { name })
  return known === undefined ? undefined : Uint8Array.from(known.value)
}
