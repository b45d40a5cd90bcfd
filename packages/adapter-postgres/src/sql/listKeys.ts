import type { ApiKeyRecord } from "@kiln/core/ports"
import { allKeys, keyOf } from "../KeyRow.ts"
import type { Session } from "../Session.ts"

export const listKeys = async (session: Session): Promise<ReadonlyArray<ApiKeyRecord>> =>
  (await session.all(allKeys, {})).map(keyOf)
