import type { LedgerEntry, LedgerPage, LedgerPart } from "../ports/Ledger.ts"
import type { ListedCharge, ListedCharges } from "./OperatorVerbs.ts"

/** Number of entries per page. */
const pageSize = 500

/**
 * Lists the charges of a period (Unix milliseconds) page by page, up to the time at which the first page reports the ledger
 * complete.
 */
export const listedCharges = (
  { from, to }: { readonly from: number; readonly to: number },
  ask: (page: LedgerPage) => Promise<LedgerPart>,
): ListedCharges => {
  let first: Promise<LedgerPart> | undefined
  const firstPage = () => (first ??= ask({ from, to, after: null, limit: pageSize }))
  const list = async function* (): AsyncGenerator<ListedCharge, undefined> {
    const { entries, until } = await firstPage()
    for (let page = entries; ;) {
      yield* page.map(listed)
      const after = page.at(-1)
      if (after === undefined || page.length < pageSize) return
      ;({ entries: page } = await ask({ from, to: until, after, limit: pageSize }))
    }
  }
  return Object.assign(list(), { until: async () => new Date(Math.max(from, (await firstPage()).until)) })
}

const listed = ({ charge, chargedAt, ...about }: LedgerEntry): ListedCharge => ({
  ...about,
  ...charge,
  chargedAt: new Date(chargedAt),
})
