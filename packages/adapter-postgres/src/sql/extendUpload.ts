import type { UploadId } from "@kiln/core/domain"
import type { FencedOutcome, TransferRef } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { type Given, statement } from "../Statement.ts"
import { transferOf } from "./transfer.ts"

const moveLease = statement((given: Given<{ id: UploadId; token: number; claimedUntil: number }>) =>
  transferOf(given).set({ claimed_until: given.claimedUntil }),
)

export const extendUpload = async (
  tx: Transaction,
  { leaseDurationMs, token, uploadId: id }: TransferRef & { readonly leaseDurationMs: number },
): Promise<FencedOutcome> => {
  const claimedUntil = tx.now + Math.ceil(leaseDurationMs)
  return (await tx.run(moveLease, { id, token, claimedUntil })) === 1 ? "Written" : "LeaseLost"
}
