import type { UploadId } from "@kiln/core/domain"
import type { FencedOutcome, TransferRef } from "@kiln/core/ports"
import { type Given, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { transferOf } from "./transfer.ts"

const moveLease = statement((given: Given<{ id: UploadId; token: number; claimedUntil: number }>) =>
  transferOf(given).set({ claimed_until: given.claimedUntil }),
)

export const extendUpload = (
  tx: Transaction,
  { leaseDurationMs, token, uploadId: id }: TransferRef & { readonly leaseDurationMs: number },
): FencedOutcome =>
  tx.run(moveLease, { id, token, claimedUntil: tx.now + Math.ceil(leaseDurationMs) }) === 1 ? "Written" : "LeaseLost"
