import type { ApiKeyRecord } from "@kiln/core/ports"
import { allKeys, keyOf } from "../KeyRow.ts"
import type { Transaction } from "../Transaction.ts"

/** In the order of their creation. */
export const listKeys = (tx: Transaction): ReadonlyArray<ApiKeyRecord> => tx.all(allKeys, {}).map(keyOf)
